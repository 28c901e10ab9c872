//! Changes that are kept in `weir.d/50-control.toml`.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_config::{Config, Kept, KeptError, KeptErrorKind};

const MAIN: &str = r#"
[device.disk0]
path = "memory:1G"
depth = 4

[device.disk0.bfq]
stable = "intent"
stable_late = "1s"

[device.disk1]
path = "emulated:null,rate=4M,size=2G"

[cgroup."/vms"]
"io.max" = "* riops=100 rwbps=1M"

[cgroup."/vms/a"]
"io.weight" = ["200", "disk1 300"]
"io.bfq.low_latency" = "never"

[cgroup."/vms/a/deep"]
"io.max" = "disk0 wiops=7"

[export.a]
device = "disk0"
cgroup = "/vms/a/deep"
range = "0..1M"

[export.b]
device = "disk1"
cgroup = "/vms"
"#;

/// A directory of its own for each test, gone at its end.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("weir-kept-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("weir.toml"), MAIN).unwrap();
        Directory(path.canonicalize().unwrap())
    }

    fn main(&self) -> PathBuf {
        self.0.join("weir.toml")
    }

    fn control(&self) -> PathBuf {
        self.0.join("weir.d/50-control.toml")
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.0.join("weir.d")).unwrap();
        std::fs::write(self.0.join("weir.d").join(name), text).unwrap();
    }

    fn open(&self) -> Kept {
        Kept::open(&self.main()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// What `edit` makes of the configuration, the same from memory and from the disk.
    fn edited(&self, edit: impl FnOnce(&mut Kept) -> Result<(), KeptError>) -> Config {
        let mut kept = self.open();
        edit(&mut kept).unwrap_or_else(|error| panic!("{error}"));
        let merged = kept.merged().unwrap_or_else(|errors| panic!("{errors}\n{}", kept.text()));
        kept.write().unwrap();
        assert!(!kept.is_edited());
        assert_eq!(Config::from_file(&self.main()).unwrap(), merged);
        assert_eq!(self.open().merged().unwrap(), merged);
        merged
    }

    fn refused(&self, edit: impl FnOnce(&mut Kept) -> Result<(), KeptError>) -> KeptError {
        let mut kept = self.open();
        let (before, error) = (kept.text(), edit(&mut kept).unwrap_err());
        assert_eq!((kept.text(), kept.is_edited()), (before, false), "{error}");
        assert!(error.hint.is_some(), "nothing is suggested for {error}");
        error
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(text: &str) -> toml::Table {
    text.parse().unwrap()
}

fn max(config: &Config, path: &str, device: usize) -> String {
    let cgroup = config.cgroups.iter().find(|cgroup| cgroup.path.as_str() == path).unwrap();
    let on = cgroup.limits.iter().find(|on| on.device == device);
    on.map(|on| on.limits.max.to_string()).unwrap_or_default()
}

#[test]
fn a_limit_is_all_that_is_said_of_it() {
    let directory = Directory::new("limits");
    let config =
        directory.edited(|kept| kept.set("/vms", Some("disk0"), "io.max", "riops=5k wiops=max"));
    assert_eq!(max(&config, "/vms", 0), "rbps=max wbps=max riops=5000 wiops=max");
    assert_eq!(max(&config, "/vms", 1), "rbps=max wbps=max riops=100 wiops=max rwbps=1048576");
    let config = directory.edited(|kept| kept.set("/vms/", None, "io.max", "rwbps=2M"));
    for device in [0, 1] {
        assert_eq!(
            max(&config, "/vms", device),
            "rbps=max wbps=max riops=max wiops=max rwbps=2097152"
        );
    }
    let config = directory.edited(|kept| kept.set("/vms", Some("disk1"), "io.max", "riops=max"));
    assert_eq!(max(&config, "/vms", 1), "", "a limit that is lifted");
    let text = std::fs::read_to_string(directory.control()).unwrap();
    assert!(text.ends_with(
        "\n[cgroup.\"/vms\"]\n\"io.max\" = [\"* riops=max rwbps=2097152\", \"disk1 riops=max rwbps=max\"]\n"
    ), "{text}");
}

#[test]
fn weights_and_words_are_set() {
    let directory = Directory::new("words");
    let config = directory.edited(|kept| {
        kept.set("/vms/a", None, "io.weight", "default 7")?;
        kept.set("/vms/a", None, "io.bfq.low_latency", "inherit")?;
        kept.set("/vms/a", None, "io.watermark", "90 mode=gate")?;
        kept.set("/vms/a", None, "io.limiter", "slice:6.1,hz=100")?;
        kept.set("/vms/a", None, "io.prio.class", "idle")?;
        kept.set("/new", Some("disk1"), "io.bfq.weight", "9")
    });
    let cgroup =
        |path: &str| config.cgroups.iter().find(|cgroup| cgroup.path.as_str() == path).unwrap();
    let a = cgroup("/vms/a");
    assert_eq!((a.weight_on(0).get(), a.weight_on(1).get()), (7, 7));
    assert_eq!((a.low_latency, a.prio_class.name()), (None, "idle"));
    assert!(a.watermark.is_some());
    assert_eq!((cgroup("/new").weight_on(0).get(), cgroup("/new").weight_on(1).get()), (100, 9));
    let config = directory.edited(|kept| kept.set("/vms/a", Some("disk0"), "io.weight", "8"));
    let a = config.cgroups.iter().find(|cgroup| cgroup.path.as_str() == "/vms/a").unwrap();
    assert_eq!((a.weight_on(0).get(), a.weight_on(1).get()), (8, 7));
}

#[test]
fn settings_of_devices_are_the_roots() {
    let directory = Directory::new("devices");
    let config = directory.edited(|kept| {
        kept.set("/", Some("disk0"), "io.bfq", "slice_idle=0 low_latency=0 stable=off")?;
        kept.set("/", None, "io.depth", "9")?;
        kept.set("/", Some("disk1"), "io.scheduler", "bfq")?;
        kept.set("/", Some("disk1"), "io.watermark", "80")
    });
    let engine = |device: usize| config.devices[device].engine;
    assert_eq!((engine(0).depth.get(), engine(1).depth.get()), (9, 9));
    assert_eq!((engine(0).bfq.merging().stable, engine(0).bfq.low_latency()), (None, false));
    assert_eq!(engine(1).scheduler.name(), "bfq");
    assert_eq!(config.devices[1].watermark.percent(), 80);
    // Back to the defaults, which is not what the main file says.
    let defaults = weir_engine::settings::BfqSettings::DEFAULT;
    let text = weir_text::print_bfq(&defaults);
    let config = directory.edited(|kept| kept.set("/", Some("disk0"), "io.bfq", &text));
    assert_eq!(config.devices[0].engine.bfq, defaults);
}

#[test]
fn devices_and_exports_come_and_go() {
    let directory = Directory::new("sections");
    let config = directory.edited(|kept| {
        kept.add_device(
            "disk2",
            &keys("path = \"memory:3M\"\nprice.flush.ios = 4\nbfq.slice_idle = 0\ndepth = 3"),
        )?;
        kept.add_cgroup("/vm2", &keys("\"io.max\" = \"disk2 riops=5\""))?;
        kept.add_export("vm2", &keys("device = \"disk2\"\ncgroup = \"/vm2\""))
    });
    assert_eq!(config.devices[2].engine.prices.flush.ios.get(), 4);
    assert_eq!(config.exports[2].name, "vm2");
    // A device takes the lines of the file with it; one that the main file names is said to be gone.
    let config = directory.edited(|kept| {
        kept.remove_export("vm2")?;
        kept.remove_device("disk2")?;
        kept.remove_export("b")?;
        kept.remove_device("disk1")
    });
    assert_eq!((config.devices.len(), config.exports.len()), (1, 1));
    let text = std::fs::read_to_string(directory.control()).unwrap();
    assert!(!text.contains("disk2") && text.contains("[device.disk1]\nremoved = true\n"), "{text}");
    // What was removed may be added again, and has none of its old keys.
    let config = directory.edited(|kept| {
        kept.add_device("disk1", &keys("path = \"memory:1M\""))?;
        kept.remove_export("a")?;
        kept.add_export("a", &keys("device = \"disk1\"\ncgroup = \"/\""))
    });
    assert_eq!((config.exports[0].device, config.exports[0].range.end), (1, None));
    let config = directory.edited(|kept| {
        kept.set_export_key("a", "read_only", Some(&true.into()))?;
        kept.set_export_key("a", "max_connections", Some(&3.into()))?;
        kept.set_device_key("disk0", "depth", None)
    });
    assert!(config.exports[0].read_only && config.exports[0].max_connections == Some(3));
    assert_eq!(config.devices[0].engine.depth.get(), 32);
    assert!(
        config.devices[0].engine.bfq.merging().stable.is_some(),
        "the rest of the section stays"
    );
    let config = directory.edited(|kept| kept.set_export_key("a", "max_connections", None));
    assert_eq!(config.exports[0].max_connections, None);
}

#[test]
fn a_device_in_memory_has_another_size() {
    let directory = Directory::new("resize");
    let config = directory.edited(|kept| {
        kept.resize("disk0", 2 << 20)?;
        kept.resize("disk1", 1 << 20)
    });
    let expected = Config::from_str(
        "x",
        &MAIN
            .replace("memory:1G", "memory:2M")
            .replace("size=2G", "size=1M")
            .replace("range = \"0..1M\"", ""),
    )
    .unwrap();
    assert_eq!(config.devices, expected.devices);
}

#[test]
fn a_cgroup_moves_with_all_that_is_below_it() {
    let directory = Directory::new("moves");
    directory.write("50-control.toml", "# About the new one.\n[cgroup.\"/vms/new\"] # here\n# its limit\n\"io.max\" = \"disk0 riops=1\"\n");
    let config = directory.edited(|kept| {
        kept.set("/vms/a/deep", Some("disk0"), "io.max", "wiops=9 riops=3")?;
        kept.move_cgroup("/vms/a", "/")?;
        kept.move_cgroup("/vms/new", "/a")
    });
    let paths: Vec<&str> = config.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/a/deep", "/a/new", "/vms"]);
    assert_eq!(config.cgroups[0].weight_on(1).get(), 300);
    assert_eq!(max(&config, "/a/deep", 0), "rbps=max wbps=max riops=3 wiops=9");
    assert_eq!(config.exports[0].cgroup.as_str(), "/a/deep");
    let text = std::fs::read_to_string(directory.control()).unwrap();
    assert!(
        text.contains("# About the new one.\n[cgroup.\"/a/new\"] # here\n# its limit\n\"io.max\""),
        "{text}"
    );
    let config = directory.edited(|kept| kept.move_cgroup("/a", "/vms/x"));
    let paths: Vec<&str> = config.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
    assert_eq!(paths, ["/vms", "/vms/x/a", "/vms/x/a/deep", "/vms/x/a/new"]);
    // And back, to a place that the main file has.
    let config = directory.edited(|kept| {
        kept.set("/vms/x/a", None, "io.prio.class", "idle")?;
        kept.move_cgroup("/vms/x/a", "/vms")
    });
    assert_eq!(config.cgroups[1].path.as_str(), "/vms/a");
    assert_eq!(config.cgroups[1].prio_class.name(), "idle");
    assert_eq!(config.cgroups[1].weight_on(1).get(), 300);
}

#[test]
fn a_cgroup_that_is_there_because_of_one_below_it_stays() {
    let directory = Directory::new("parents");
    directory
        .write("10.toml", "[cgroup.\"/p/c\"]\n[export.p]\ndevice = \"disk0\"\ncgroup = \"/p\"\n");
    let config = directory.edited(|kept| kept.remove_cgroup("/p/c"));
    let paths: Vec<&str> = config.cgroups.iter().map(|cgroup| cgroup.path.as_str()).collect();
    assert_eq!(paths, ["/p", "/vms", "/vms/a", "/vms/a/deep"]);
    let config =
        directory.edited(|kept| kept.remove_cgroup("/p").and_then(|()| kept.remove_export("p")));
    assert_eq!(config.cgroups.len(), 3);
}

#[test]
fn comments_and_order_survive() {
    let directory = Directory::new("comments");
    directory.write(
        "50-control.toml",
        "# Ours.\n\n[export.b]   # for the backup\nread_only = true # until Friday\n# one\ndescription = \"x\"\n\n# Last.\n[device.disk0]\ndepth = 7\n",
    );
    directory.edited(|kept| {
        kept.set_export_key("b", "read_only", Some(&false.into()))?;
        kept.set("/", Some("disk0"), "io.depth", "8")?;
        kept.set("/vms", None, "io.weight", "5")
    });
    let text = std::fs::read_to_string(directory.control()).unwrap();
    let below = text.split_once(".previous.\n").unwrap().1;
    assert_eq!(
        below,
        "# Ours.\n\n[export.b]   # for the backup\nread_only = false # until Friday\n# one\ndescription = \"x\"\n\n# Last.\n[device.disk0]\ndepth = 8\n\n[cgroup.\"/vms\"]\n\"io.weight\" = 5\n"
    );
    directory.edited(|kept| kept.remove_export("b"));
    let text = std::fs::read_to_string(directory.control()).unwrap();
    assert_eq!(text.matches("Written by weir").count(), 1, "{text}");
}

#[test]
fn what_cannot_be_done_says_why() {
    let directory = Directory::new("refusals");
    directory
        .write("60.toml", "[cgroup.\"/vms/a\"]\n\"io.weight\" = 7\n[export.b]\nremoved = true\n");
    for (kind, message, edit) in [
        (
            KeptErrorKind::Missing,
            "no file has device \"disk7\"",
            (|kept| kept.set("/vms", Some("disk7"), "io.max", "riops=1"))
                as fn(&mut Kept) -> Result<(), KeptError>,
        ),
        (KeptErrorKind::Missing, "no file has export \"aa\"", |kept| kept.remove_export("aa")),
        (KeptErrorKind::Missing, "no file has cgroup \"/vmz\"", |kept| {
            kept.move_cgroup("/vmz", "/vms")
        }),
        (KeptErrorKind::Exists, "there is device \"disk0\" already", |kept| {
            kept.add_device("disk0", &toml::Table::new())
        }),
        (KeptErrorKind::Exists, "there is \"/vms/a/deep\" already", |kept| {
            kept.add_cgroup("/deep", &toml::Table::new())?;
            let moved = kept.move_cgroup("/deep", "/vms/a");
            kept.discard();
            moved
        }),
        (KeptErrorKind::Invalid, "\"io.mx\" is no key of cgroups", |kept| {
            kept.set("/vms", None, "io.mx", "1")
        }),
        (
            KeptErrorKind::Invalid,
            "\"io.max\" is no key of devices, which is set on the root",
            |kept| kept.set("/", None, "io.max", "riops=1"),
        ),
        (
            KeptErrorKind::Invalid,
            "io.max: riops = 0: allowed are 1 to 4294967294 and max",
            |kept| kept.set("/vms", None, "io.max", "riops=0"),
        ),
        (KeptErrorKind::Invalid, "/vms/a is in /vms", |kept| kept.move_cgroup("/vms", "/vms/a")),
        (KeptErrorKind::Invalid, "/vms/a is below /vms already", |kept| {
            kept.move_cgroup("/vms/a", "/vms")
        }),
        (
            KeptErrorKind::NotInAFile,
            "in files io.limiter is the same on every device, not only on \"disk0\"",
            |kept| kept.set("/vms", Some("disk0"), "io.limiter", "token"),
        ),
        (
            KeptErrorKind::Overridden,
            "60.toml is read later and says io.weight of [cgroup.\"/vms/a\"] too, which would count",
            |kept| kept.set("/vms/a", None, "io.weight", "8"),
        ),
        (
            KeptErrorKind::Overridden,
            "60.toml is read later and says [export.b] too, which would count",
            |kept| kept.add_export("b", &toml::Table::new()),
        ),
    ] {
        let error = directory.refused(edit);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.ends_with(message), "{error}\n{message}");
    }
    assert_eq!(
        directory.refused(|kept| kept.remove_export("aa")).hint.unwrap(),
        "did you mean \"a\"?"
    );
    // What makes no sense is told by the configuration, and nothing is written.
    let mut kept = directory.open();
    kept.set("/vms", Some("disk0"), "io.burst", "wiops=9").unwrap();
    let errors = kept.merged().unwrap_err();
    assert!(errors.errors()[0].file.ends_with("weir.d/50-control.toml"), "{errors}");
    assert_eq!(errors.errors()[0].line, Some(6), "{errors}");
    kept.discard();
    assert!(kept.merged().is_ok() && !directory.control().exists());
}

#[test]
fn the_file_keeps_its_mode_and_the_version_before_it() {
    let directory = Directory::new("modes");
    let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(directory.main(), PermissionsExt::from_mode(0o640)).unwrap();
    directory.edited(|kept| kept.set("/vms", None, "io.weight", "1"));
    assert_eq!(mode(&directory.control()), 0o640, "as the configuration");
    std::fs::set_permissions(directory.control(), PermissionsExt::from_mode(0o604)).unwrap();
    let first = std::fs::read_to_string(directory.control()).unwrap();
    directory.edited(|kept| kept.set("/vms", None, "io.weight", "2"));
    assert_eq!(mode(&directory.control()), 0o604);
    let previous = directory.0.join("weir.d/50-control.toml.previous");
    assert_eq!(std::fs::read_to_string(&previous).unwrap(), first);
    let mut names: Vec<_> = std::fs::read_dir(directory.0.join("weir.d"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["50-control.toml", "50-control.toml.previous"], "nothing is left over");
}

#[test]
fn another_writer_is_noticed() {
    let directory = Directory::new("writers");
    let (mut first, mut second) = (directory.open(), directory.open());
    first.set("/vms", None, "io.weight", "1").unwrap();
    second.set("/vms", None, "io.weight", "2").unwrap();
    first.write().unwrap();
    let error = second.write().unwrap_err();
    assert_eq!(error.kind, KeptErrorKind::Changed);
    let mut third = directory.open();
    third.set("/vms", None, "io.weight", "3").unwrap();
    let lock = std::fs::File::open(directory.0.join("weir.d")).unwrap();
    lock.lock().unwrap();
    assert_eq!(third.write().unwrap_err().kind, KeptErrorKind::Busy);
    lock.unlock().unwrap();
    third.write().unwrap();
}

#[test]
fn a_configuration_without_a_directory_keeps_nothing() {
    let errors = Kept::open("weir.conf".as_ref()).unwrap_err();
    assert!(errors.errors()[0].message.contains("end in .toml"), "{errors}");
    let directory = Directory::new("broken");
    directory.write("10.toml", "[device");
    let errors = Kept::open(&directory.main()).unwrap_err();
    assert!(errors.errors()[0].file.ends_with("10.toml"), "{errors}");
}

/// A file system of its own, as large as `size` says; `None`, and a named skip, where it cannot be mounted.
struct Mount(PathBuf);

impl Mount {
    fn new(name: &str, at: &Path, size: &str) -> Option<Mount> {
        std::fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Mount(at.into()));
        }
        if let Some(skips) = std::env::var_os("WEIR_SKIPS") {
            let mut file =
                std::fs::OpenOptions::new().append(true).create(true).open(skips).unwrap();
            writeln!(file, "{name}: a file system cannot be mounted here").unwrap();
        }
        None
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(
            Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success()
        );
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_or_read_only_file_system_is_told_and_nothing_is_lost() {
    let directory = Directory::new("full");
    let Some(mount) = Mount::new("a full file system", &directory.0.join("weir.d"), "64k") else {
        return;
    };
    directory.edited(|kept| kept.set("/vms", None, "io.weight", "1"));
    let before = std::fs::read_to_string(directory.control()).unwrap();
    std::fs::write(directory.0.join("weir.d/filler"), [0; 40 << 10]).unwrap();
    let mut kept = directory.open();
    for index in 0..200 {
        let keys = keys(&format!(
            "device = \"disk0\"\ncgroup = \"/vms\"\ndescription = \"{}\"",
            "x".repeat(200)
        ));
        kept.add_export(&format!("e{index}"), &keys).unwrap();
    }
    let error = kept.write().unwrap_err();
    assert_eq!(error.kind, KeptErrorKind::Storage);
    assert!(error.message.contains("No space left on device"), "{error}");
    assert!(
        error.hint.as_ref().unwrap().starts_with("make room on the file system of "),
        "{error:?}"
    );
    assert_eq!(std::fs::read_to_string(directory.control()).unwrap(), before);
    assert!(kept.is_edited() && kept.merged().is_ok(), "what was asked for is not lost either");

    mount.remount("ro");
    let error = kept.write().unwrap_err();
    assert_eq!(error.kind, KeptErrorKind::Storage);
    assert!(error.hint.as_ref().unwrap().ends_with("for writing"), "{error:?}");
    assert_eq!(std::fs::read_to_string(directory.control()).unwrap(), before);

    mount.remount("rw,size=1m");
    kept.write().unwrap();
    assert_eq!(Config::from_file(&directory.main()).unwrap().exports.len(), 202);
}
