//! Files of `weir.d/`, which are read over `weir.toml`.

use std::path::{Path, PathBuf};

use weir_config::Config;

const MAIN: &str = r#"
[server]
listen = "127.0.0.1:1"
max_connections = 100

[device.disk0]
path = "memory:1G"
depth = 4
iops_size = "16K"

[device.disk0.bfq]
stable = "intent"
stable_late = "1s"

[device.disk1]
path = "memory:2G"

[cgroup."/vm1"]
"io.max" = "* riops=100 wiops=50"
"io.weight" = ["200", "disk1 300"]

[cgroup."/vm2"]
"io.bfq.low_latency" = "never"
"io.watermark" = 90

[export.vm1]
device = "disk0"
cgroup = "/vm1"
range = "0..1M"

[export.vm2]
device = "disk1"
cgroup = "/vm2"
"#;

fn read(over: &[&str]) -> Config {
    let names = ["weir.d/10.toml", "weir.d/20.toml", "weir.d/30.toml"];
    let files = std::iter::once(("weir.toml", MAIN)).chain(names.into_iter().zip(over.to_vec()));
    Config::from_texts(files).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Each error as `FILE:LINE:COLUMN: ...`.
fn errors(over: &[&str]) -> Vec<String> {
    let names = ["weir.d/10.toml", "weir.d/20.toml", "weir.d/30.toml"];
    let files = std::iter::once(("weir.toml", MAIN)).chain(names.into_iter().zip(over.to_vec()));
    let errors = Config::from_texts(files).unwrap_err();
    errors.errors().iter().map(ToString::to_string).collect()
}

/// All of it in one file.
fn one(text: &str) -> Config {
    Config::from_str("one.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_later_file_extends_a_section_key_by_key() {
    let merged = read(&[
        "[device.disk0]\ndepth = 8\n[server]\nmax_connections = 200\n",
        "[device.disk0]\nread_only = true\nprice.flush.ios = 7\n[export.vm1]\ndescription = \"x\"\n",
    ]);
    let expected = MAIN
        .replace("depth = 4", "depth = 8\nread_only = true\nprice.flush.ios = 7")
        .replace("max_connections = 100", "max_connections = 200")
        .replace("range = \"0..1M\"", "range = \"0..1M\"\ndescription = \"x\"");
    assert_eq!(merged, one(&expected));
    assert_eq!(merged.devices[0].engine.depth.get(), 8);
}

#[test]
fn lines_of_a_later_file_come_after_those_of_an_earlier_one() {
    let merged = read(&[
        "[cgroup.\"/vm1\"]\n\"io.max\" = [\"disk0 riops=7\", \"disk1 wiops=max\"]\n",
        "[cgroup.\"/vm1/\"]\n\"io.bfq.weight\" = [\"disk1 default\", \"disk0 5\"]\n\"io.max\" = \"disk0 rbps=1M\"\n",
    ]);
    let max = |device: usize| merged.cgroups[0].limits[device].limits.max.to_string();
    assert_eq!(max(0), "rbps=1048576 wbps=max riops=7 wiops=50");
    assert_eq!(max(1), "rbps=max wbps=max riops=100 wiops=max");
    assert_eq!(merged.cgroups[0].weight_on(0).get(), 5);
    assert_eq!(merged.cgroups[0].weight_on(1).get(), 200);
}

#[test]
fn a_section_can_be_replaced() {
    let merged = read(&["[device.disk0]\nreplaces = true\npath = \"memory:3M\"\n"]);
    assert_eq!(
        merged.devices[0],
        one("[device.disk0]\npath = \"memory:3M\"\n[export.x]\ndevice = \"disk0\"\ncgroup = \"/\"")
            .devices[0]
    );
    let merged = read(&["[device.disk0.bfq]\nreplaces = true\nstable = \"off\"\n"]);
    assert_eq!(merged.devices[0].engine.bfq.merging().stable, None);
    assert_eq!(merged.devices[0].engine.depth.get(), 4, "the rest of the section stays");
    let merged = read(&["[server]\nreplaces = true\nsocket = \"x\"\n"]);
    assert!(merged.server.listen.is_empty() && merged.server.max_connections == 1024);
}

#[test]
fn what_was_said_of_a_device_goes_with_it() {
    let merged = read(&["[device.disk1]\nremoved = true\n[export.vm2]\ndevice = \"disk0\"\n"]);
    assert_eq!((merged.devices.len(), merged.exports[1].device), (1, 0));
    assert_eq!((merged.cgroups[0].limits.len(), merged.cgroups[0].weight_on(0).get()), (1, 200));
    let merged =
        read(&["[device.disk1]\nremoved = true\n", "[device.disk1]\npath = \"memory:1M\"\n"]);
    assert_eq!(merged.cgroups[0].weight_on(1).get(), 300, "a device of that name has it again");
    let seen = errors(&[
        "[device.disk1]\nremoved = true\n[export.vm2]\ndevice = \"disk0\"\n",
        "[cgroup.\"/vm2\"]\n\"io.max\" = \"disk1 riops=1\"\n",
    ]);
    let expected = "weir.d/20.toml:2:13: cgroup.\"/vm2\".\"io.max\": there is no device \"disk1\" (weir.d/10.toml removes it: take this line out)";
    assert_eq!(seen, [expected]);
}

#[test]
fn a_removed_section_leaves_nothing_behind() {
    let merged = read(&["[export.vm2]\nremoved = true\n[cgroup.\"/vm2\"]\nremoved = true\n"]);
    assert_eq!((merged.exports.len(), merged.cgroups.len()), (1, 1));
    let merged = read(&[
        "[export.vm1]\nremoved = true\n",
        "[export.vm1]\ndevice = \"disk1\"\ncgroup = \"/\"\n",
    ]);
    let names: Vec<&str> = merged.exports.iter().map(|export| export.name.as_str()).collect();
    assert_eq!(names, ["vm1", "vm2"], "it keeps its place");
    assert_eq!((merged.exports[0].device, merged.exports[0].range.end), (1, None));
}

#[test]
fn what_is_gone_already_can_be_removed() {
    assert_eq!(read(&["[export.gone]\nremoved = true\n"]), read(&[]));
}

#[test]
fn a_cgroup_can_go_by_the_one_above_again() {
    let merged = read(&[
        "[cgroup.\"/vm2\"]\n\"io.bfq.low_latency\" = \"inherit\"\n\"io.watermark\" = \"inherit\"\n",
    ]);
    assert_eq!((merged.cgroups[1].low_latency, merged.cgroups[1].watermark), (None, None));
}

#[test]
fn mistakes_of_all_files_are_told_with_their_places() {
    let seen = errors(&[
        "[device.disk0]\ndepht = 1\ndepth = 5000\n",
        "[cgroup.\"/vm1\"]\n\n\"io.max\" = \"disk7 riops=1\"\n[export.vm1]\nremoved = true\ndevice = \"x\"\n",
        "[export.vm9]\ncgroup = \"/\"\n[device.disk1]\nremoved = 1\n[server]\nremoved = true\n",
    ]);
    let expected = [
        "weir.d/10.toml:2:1: device.disk0.depht: unknown key (did you mean `depth`?)",
        "weir.d/10.toml:3:9: device.disk0.depth: 5000 is not between 1 and 4096 (write `depth = 4096`)",
        "weir.d/20.toml:3:13: cgroup.\"/vm1\".\"io.max\": there is no device \"disk7\" (did you mean \"disk0\"?)",
        "weir.d/20.toml:5:1: export.vm1.removed: a section that is removed says nothing else (take its other keys out, or write `replaces = true` instead of this line to say all of it anew)",
        "weir.d/30.toml:1:9: export.vm9: the key `device` is missing (for example `device = \"disk0\"`)",
        "weir.d/30.toml:4:1: device.disk1.removed: it can only be true (write `removed = true`, or leave it out)",
        "weir.d/30.toml:6:1: server.removed: unknown key (known keys: ",
    ];
    assert_eq!(seen.len(), expected.len(), "{seen:#?}");
    for (seen, expected) in seen.iter().zip(expected) {
        assert!(seen.starts_with(expected), "{seen}\n{expected}");
    }
}

#[test]
fn the_first_file_has_nothing_to_take_away() {
    let errors = Config::from_str(
        "weir.toml",
        &format!("{MAIN}\n[export.x]\nremoved = true\n[device.disk0.price]\nreplaces = true"),
    )
    .unwrap_err();
    let seen: Vec<&str> = errors.errors().iter().map(|error| error.message.as_str()).collect();
    assert_eq!(seen, ["no file is read before this one"; 2]);
}

#[test]
fn a_device_that_is_removed_is_missed_where_it_is_used() {
    let seen = errors(&["[device.disk1]\nremoved = true\n"]);
    let expected = "weir.toml:32:11: export.vm2.device: there is no device \"disk1\" (weir.d/10.toml removes it: remove this export too)";
    assert_eq!(seen, [expected]);
    let seen = errors(&["[cgroup.\"/vm2/\"]\nremoved = true\n"]);
    let expected = "weir.toml:33:11: export.vm2.cgroup: there is no cgroup \"/vm2\" (weir.d/10.toml removes it: remove this export too)";
    assert_eq!(seen, [expected]);
}

#[test]
fn syntax_errors_of_all_files_are_told() {
    let seen = errors(&["[device.disk0\n", "[ok]\n", "= 1\n"]);
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(seen[0].starts_with("weir.d/10.toml:1:14: "), "{seen:#?}");
    assert!(seen[1].starts_with("weir.d/30.toml:1:"), "{seen:#?}");
}

/// A directory of its own for each test, gone at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("weir-drop-in-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("vm.d")).unwrap();
        std::fs::write(path.join("vm.toml"), MAIN).unwrap();
        Directory(path.canonicalize().unwrap())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.0.join("vm.d").join(name), text).unwrap();
    }

    fn read(&self) -> Result<Config, Vec<String>> {
        Config::from_file(&self.0.join("vm.toml")).map_err(|errors| {
            let errors = errors.errors().iter();
            errors
                .map(|error| error.to_string().replace(&format!("{}/", self.0.display()), ""))
                .collect()
        })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_count_in_the_order_of_their_names_and_leftovers_do_not() {
    let directory = Directory::new("order");
    let depth = |depth: u32| format!("[device.disk0]\ndepth = {depth}\n");
    directory.write("9.toml", depth(9));
    directory.write("50-control.toml", depth(50));
    directory.write("10-x.toml", depth(10));
    assert_eq!(directory.read().unwrap().devices[0].engine.depth.get(), 9, "by bytes");
    for name in [
        ".zz.toml",
        "zz.toml~",
        ".zz.toml.swp",
        "#zz.toml#",
        "zz.toml.previous",
        "z",
        "zz.TOML",
        ".toml",
    ] {
        directory.write(name, "no TOML");
    }
    std::fs::create_dir(directory.0.join("vm.d/zz")).unwrap();
    assert_eq!(directory.read().unwrap().devices[0].engine.depth.get(), 9);
    assert_eq!(Config::directory(Path::new("a/weir.toml")), Some("a/weir.d".into()));
    assert_eq!(Config::directory(Path::new("a/weir.conf")), None);
    assert_eq!(Config::directory(Path::new(".toml")), None);
}

#[test]
fn files_that_cannot_be_read_are_told_by_name() {
    let directory = Directory::new("unreadable");
    std::fs::create_dir(directory.0.join("vm.d/10.toml")).unwrap();
    std::os::unix::fs::symlink("nowhere", directory.0.join("vm.d/20.toml")).unwrap();
    directory.write("30.toml", b"[device.disk0]\npath = \"\xff\"\n");
    directory.write("40.toml", "[device.disk0]\npath = \"memo");
    let seen = directory.read().unwrap_err();
    assert_eq!(seen.len(), 4, "{seen:#?}");
    for (seen, expected) in seen.iter().zip([
        "vm.d/10.toml: cannot be read: Is a directory",
        "vm.d/20.toml: cannot be read: No such file",
        "vm.d/30.toml:2:9: the file is not UTF-8 text",
        "vm.d/40.toml:2:",
    ]) {
        assert!(seen.starts_with(expected), "{seen}");
    }
}

#[test]
fn all_files_together_are_bounded() {
    let directory = Directory::new("bounds");
    let comment = format!("#{}\n", "x".repeat((8 << 20) - 2));
    directory.write("10.toml", &comment);
    assert!(directory.read().is_ok());
    directory.write("20.toml", &comment);
    let seen = directory.read().unwrap_err();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].starts_with("vm.d/20.toml: with this file there are more than 16 MiB"),
        "{seen:#?}"
    );
    std::fs::remove_file(directory.0.join("vm.d/20.toml")).unwrap();
    for index in 0..1_000 {
        directory.write(&format!("x{index}.toml"), "");
    }
    let seen = directory.read().unwrap_err();
    assert!(seen[0].starts_with("vm.d: more than 1000 files"), "{seen:#?}");

    std::fs::remove_dir_all(directory.0.join("vm.d")).unwrap();
    assert!(directory.read().is_ok(), "there need not be a directory");
    std::fs::write(directory.0.join("vm.d"), "").unwrap();
    let seen = directory.read().unwrap_err();
    assert!(seen[0].starts_with("vm.d: cannot be listed: Not a directory"), "{seen:#?}");
}
