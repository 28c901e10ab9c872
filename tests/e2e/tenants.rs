//! Devices, exports and cgroups that come and go by command, and what of it lasts.

use std::fs;

use rustix::process::Signal;
use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Ran, Server, eventually, peer};

const CONFIG: &str = r#"
    sandbox_paths = "."
    [device.disk]
    path = "memory:64M"
    [cgroup."/vm1"]
    "io.max" = "disk riops=100000"
    [export.vm1]
    device = "disk"
    cgroup = "/vm1"
"#;

fn image(place: &Place, name: &str, byte: u8) -> String {
    let path = place.file(name);
    fs::write(&path, vec![byte; 1 << 20]).expect("a file can be written");
    path.display().to_string()
}

fn refusal(run: &Ran) -> &str {
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    &run.stderr
}

/// A server as it was left.
fn again(place: &Place, server: Server, uris: usize) -> Server {
    server.signal(Signal::KILL);
    server.ended();
    Server::again(place, uris)
}

#[test]
fn an_export_comes_with_its_device_and_cgroup_and_lasts() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let mut staying = Client::open(nbd::dial(server.socket()), "vm1").expect("it is served");
    let path = image(&place, "vm2.img", 7);
    let add =
        ["add", "vm2", "--image", &path, "--cgroup", "/vms/vm2", "--create", "--max", "riops=500"];
    let added = server.ask("export", &add);
    assert_eq!(added.stdout, "+ device vm2\n+ export vm2\n1 setting changed\n");
    server.set("/vm1", "io.max", "disk riops=77");
    let server = again(&place, server, 2);
    let mut client = Client::open(nbd::dial(server.socket()), "vm2").expect("it is served again");
    assert_eq!(client.read(0, 512).expect("it can be read"), [7; 512]);
    assert_eq!(server.ask("config", &["diff"]).stdout, "");
    let devices = server.devices();
    let limits = |device: usize, cgroup: &str| {
        devices[device].cgroup(cgroup).io_max().expect("it has limits").to_owned()
    };
    assert!(limits(0, "/vm1").contains("riops=77"));
    assert!(limits(1, "/vms/vm2").contains("riops=500"));
    let remove = ["remove", "vm2", "--with-device", "--with-cgroup"];
    let refused = server.ask("export", &remove);
    assert!(refusal(&refused).contains("1 connections"), "{refused:?}");
    client.read(0, 512).expect("nothing has changed");
    server.ask("export", &[&remove[..], &["--force"]].concat());
    assert!(client.read(0, 512).is_err(), "its connection is closed");
    assert!(staying.read(0, 512).is_err(), "that server was killed");
    let server = again(&place, server, 1);
    assert_eq!(server.devices().len(), 1);
    server.stop();
}

#[test]
fn what_is_set_at_run_time_only_is_forgotten() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    server.ask("set", &["/vm1", "io.weight", "300", "--runtime"]);
    server.ask("set", &["/vm1", "io.prio.class", "idle"]);
    let diff = server.ask("config", &["diff"]).stdout;
    assert_eq!(diff, "~ cgroup /vm1 io.weight: 300 -> 100\n");
    // A change that is kept leaves it alone.
    let path = image(&place, "more.img", 1);
    server.ask("device", &["add", "more", &path]);
    assert_eq!(server.status().cgroup("/vm1").number("io_weight"), 300);
    server.ask("reload", &[]);
    let cgroup = server.status();
    let cgroup = cgroup.cgroup("/vm1");
    assert_eq!(cgroup.number("io_weight"), 100);
    assert_eq!(cgroup.text("io_prio_class"), Some("idle"));
    server.stop();
}

#[test]
fn a_refused_change_leaves_everything_as_it_was() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let path = image(&place, "vm2.img", 7);
    for (command, words, says) in [
        ("device", &["add", "x", "/nowhere/x.img"][..], "/nowhere/x.img"),
        ("device", &["add", "disk", &path], "there is device \"disk\" already"),
        ("device", &["add", "x", &path, "--key", "dept=7"], "depth"),
        ("device", &["remove", "disk"], "no device"),
        ("export", &["add", "x", "--device", "disk", "--cgroup", "/vm"], "/vm1"),
        ("export", &["add", "x", "--device", "disk", "--range", "63M..65M"], "64"),
        ("export", &["add", "x", "--image", &path, "--cgroup", "/vm1", "--create"], "already"),
        ("export", &["remove", "vm2"], "vm1"),
    ] {
        let refused = server.ask(command, words);
        assert!(refusal(&refused).contains(says), "{says}: {refused:?}");
    }
    let kept = fs::read_dir(place.file("weir.d")).expect("it is made at the start");
    assert_eq!(kept.count(), 0);
    assert_eq!(server.ask("config", &["diff"]).stdout, "");
    assert_eq!(
        (server.devices().len(), server.ask("export", &["list"]).stdout.lines().count()),
        (1, 2)
    );
    server.stop();
}

#[test]
fn files_that_are_not_applied_yet_stop_a_kept_change_of_tenants() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let main = place.file("weir.toml");
    let text = fs::read_to_string(&main).expect("it is there");
    fs::write(&main, text.replace("riops=100000", "riops=9")).expect("a file can be written");
    let path = image(&place, "vm2.img", 7);
    let refused = server.ask("device", &["add", "more", &path]);
    assert!(refusal(&refused).contains("riops=100000") && refused.stderr.contains("weir reload"));
    assert_eq!(
        server.ask("reload", &["--dry-run"]).stdout,
        "~ cgroup /vm1 io.max: disk riops=100000 -> riops=9\n"
    );
    let difference = "~ cgroup /vm1 io.max: disk riops=100000 -> riops=9\n";
    assert_eq!(server.ask("reload", &[]).stdout, difference);
    let log = server.log();
    let line = "operation=\"reload\" cgroup=\"/vm1\" device=\"disk\" key=\"io.max\" old=\"riops=100000\" new=\"riops=9\"";
    assert!(log.contains(line), "{log}");
    server.ask("device", &["add", "more", &path]);
    server.stop();
}

#[test]
fn an_image_that_has_grown_is_so_for_new_connections() {
    let place = Place::new();
    for (name, keys) in [("plain", ""), ("cached", "cache = \"writeback\"")] {
        let path = image(&place, &format!("{name}.img"), 5);
        let export = "[export.x]\n device = \"d\"\n cgroup = \"/\"\n";
        let part = "[export.part]\n device = \"d\"\n cgroup = \"/\"\n range = \"0..512K\"\n";
        let config = format!("[device.d]\n path = {path:?}\n {keys}\n{export}{part}");
        let server = Server::config(&place, &config);
        let mut old = Client::open(nbd::dial(server.socket()), "x").expect("it is served");
        let refused = server.ask("device", &["resize", "d"]);
        assert!(refusal(&refused).contains("1048576 bytes, as before"), "{refused:?}");
        let file = fs::OpenOptions::new().write(true).open(&path).expect("it is there");
        file.set_len(4 << 20).expect("it can grow");
        let grown = server.ask("device", &["resize", "d"]);
        assert_eq!(grown.stdout, "d: 1 MiB -> 4 MiB\n~ export x\n", "{grown:?}");
        let mut new = Client::open(nbd::dial(server.socket()), "x").expect("it is served");
        let part = Client::open(nbd::dial(server.socket()), "part").expect("it is served");
        assert_eq!((old.size(), new.size(), part.size()), (1 << 20, 4 << 20, 512 << 10));
        new.write(0, 3 << 20, &[9; 4096]).expect("what is new can be written");
        assert_eq!(new.read(3 << 20, 4096).expect("and read"), [9; 4096]);
        assert!(old.read(3 << 20, 512).is_err(), "the old one ends where it did");
        assert_eq!(old.read(0, 512).expect("it goes on"), [5; 512]);
        drop((old, new, part));
        server.stop();
        assert_eq!(&fs::read(&path).expect("it is there")[3 << 20..][..4096], [9; 4096]);
    }
}

/// One ends at once, the other after the emulated disk has done what it has.
#[test]
fn two_devices_go_at_once_and_the_server_stays() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let main = place.file("weir.toml");
    let before = fs::read_to_string(&main).expect("it is there");
    // Longer than twice the time between two looks for threads that have ended unasked.
    let slow = "emulated:null,latency=1500ms,size=16M";
    let more = format!(
        "[device.slow]\n path = {slow:?}\n[device.quick]\n path = \"memory:1M\"\n\
         [export.slow]\n device = \"slow\"\n cgroup = \"/\"\n"
    );
    fs::write(&main, format!("{before}{more}")).expect("a file can be written");
    server.ask("reload", &[]);
    let mut client = Client::open(nbd::dial(server.socket()), "slow").expect("it is served");
    client.send(nbd::Kind::Read, 0, 0, 4096, &[]).expect("it is taken");
    eventually("it is at the device", || server.devices()[1].number("in_flight") == 1);
    fs::write(&main, before).expect("a file can be written");
    let gone = server.ask("reload", &["--force"]).stdout;
    let gone: Vec<&str> = gone.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(gone, ["- device quick", "- device slow", "- export slow"]);
    Client::open(nbd::dial(server.socket()), "vm1").expect("the other one is served");
    server.stop();
}

/// The issue of every operator: a hundred tenants come and go beside one that must not notice.
#[test]
fn a_tenant_is_verified_while_others_come_and_go() {
    let place = Place::new();
    let (Some(fio), Some(nbdcopy)) = (peer("fio"), peer("nbdcopy")) else { return };
    let limited =
        |number| format!("[cgroup.\"/limited{number}\"]\n\"io.max\" = \"disk riops=100000\"\n");
    let config = CONFIG.to_owned() + &(1..20).map(limited).collect::<String>();
    let server = Server::config(&place, &config);
    let uri = format!("nbd+unix:///vm1?socket={}", server.socket().display());
    let stop = place.file("stop");
    let arguments = [
        "--name=verify".to_owned(),
        "--ioengine=nbd".into(),
        format!("--uri={uri}"),
        "--rw=randwrite".into(),
        "--bs=4k".into(),
        "--iodepth=8".into(),
        "--size=16m".into(),
        "--verify=crc32c".into(),
        "--verify_backlog=256".into(),
        "--verify_fatal=1".into(),
        "--verify_state_save=0".into(),
        "--time_based".into(),
        "--runtime=1h".into(),
        format!("--trigger-file={}", stop.display()),
        format!("--aux-path={}", place.file("").display()),
        "--output-format=json".into(),
    ];
    // Each round copies 128 MiB: so many take about a minute.
    let limit = std::time::Duration::from_secs(300);
    let verified = std::thread::spawn(move || fio.ends_within(&arguments, limit));
    eventually("it is connected", || server.status().number("connections") == 1);
    let rounds = 100;
    let path = place.file("come.img").display().to_string();
    for round in 0..rounds {
        fs::write(&path, vec![0; 64 << 20]).expect("a file can be written");
        server.ask("export", &["add", "come", "--image", &path, "--cgroup", "/come", "--create"]);
        let source = place.filled("source.img", &vec![round as u8; 64 << 20]).display().to_string();
        let uri = format!("nbd+unix:///come?socket={}", server.socket().display());
        nbdcopy.run(&[&source, &uri]);
        let back = place.file("back.img").display().to_string();
        nbdcopy.run(&[&uri, &back]);
        let back = fs::read(&back).expect("it was copied");
        assert!(
            back.len() == 64 << 20 && back.iter().all(|&byte| byte == round as u8),
            "round {round}"
        );
        eventually("it has left", || server.devices()[1].number("connections") == 0);
        server.ask("export", &["remove", "come", "--with-device", "--with-cgroup"]);
        let main = place.file("weir.toml");
        let text = fs::read_to_string(&main).expect("it is there");
        let limits = |round: usize| format!("riops={}", 100_000 + round);
        fs::write(&main, text.replace(&limits(round), &limits(round + 1)))
            .expect("it can be written");
        let reloaded = server.ask("reload", &[]).stdout;
        assert!(reloaded.matches("~ cgroup /").count() == 20, "{reloaded}");
    }
    assert_eq!(server.status().number("connections"), 1, "the same all the time");
    fs::write(&stop, "").expect("a file can be written");
    let ran = verified.join().expect("it has run");
    let json = ran.stdout.find('{').map_or("", |at| &ran.stdout[at..]);
    let report: serde_json::Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let job = &report["jobs"][0];
    assert_eq!(job["error"], 0, "{report:#}");
    for way in ["read", "write"] {
        assert!(job[way]["total_ios"].as_u64().expect("a number") > 0, "{report:#}");
    }
    server.stop();
}
