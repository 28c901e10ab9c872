//! The sandbox: a server has given up what it says, and does all the rest without that.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{Place, Server, eventually, peer, skip};

const CONFIG: &str = r#"
    [device.disk]
    path = "images/disk.img"
    [cgroup."/vm1"]
    [export.""]
    device = "disk"
    cgroup = "/vm1"
"#;

/// Images of 16 MiB in two directories of `place`, and a configuration of one of them.
fn images(place: &Place) {
    for name in ["images/disk.img", "images/more.img", "elsewhere/more.img"] {
        let path = place.file(name);
        fs::create_dir_all(path.parent().expect("it is in one")).expect("a directory can be made");
        fs::write(path, vec![7; 16 << 20]).expect("a file can be written");
    }
}

fn sandbox(server: &Server) -> Value {
    server.whole_status().member("sandbox").clone()
}

/// A line of each thread of `server` in proc(5).
fn of_each_thread(server: &Server, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it runs");
    let status = |task: fs::DirEntry| fs::read_to_string(task.path().join("status")).ok();
    let value = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.expect("it is there").trim_start_matches(':').trim().to_owned()
    };
    // Threads of the runtime may end meanwhile.
    tasks.flatten().filter_map(status).map(value).collect()
}

#[test]
fn what_the_status_says_is_what_the_kernel_says_of_each_thread() {
    let place = Place::new();
    images(&place);
    let server = Server::config(&place, CONFIG);
    let sandbox = sandbox(&server);
    let is_each = |name: &str, value: &str| {
        let found = of_each_thread(&server, name);
        assert!(found.len() > 2 && found.iter().all(|found| found == value), "{name}: {found:?}");
    };
    assert_eq!(sandbox["mode"], "auto");
    assert_eq!(sandbox["no_new_privs"], true);
    is_each("NoNewPrivs", "1");
    if sandbox["seccomp"] == true {
        is_each("Seccomp", "2");
    } else {
        skip(&format!("seccomp: {}", sandbox["missing"]));
    }
    // Numbers of linux/capability.h.
    let bit = |name: &Value| match name.as_str() {
        Some("cap_dac_override") => 1_u64 << 1,
        Some("cap_ipc_lock") => 1 << 14,
        _ => panic!("{name} is kept"),
    };
    let kept = sandbox["capabilities"].as_array().expect("they are dropped");
    let kept: u64 = kept.iter().map(bit).sum();
    is_each("CapEff", &format!("{kept:016x}"));
    is_each("CapPrm", &format!("{kept:016x}"));
    is_each("CapInh", "0000000000000000");
    let text = server.ask("status", &[]).stdout;
    let line = text.lines().find(|line| line.starts_with("sandbox: "));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(line.contains("missing"), sandbox["missing"] != Value::Array(Vec::new()));
    assert!(server.log().contains("sandbox in force"), "{}", server.log());
    server.stop();
}

#[test]
fn devices_are_added_where_the_sandbox_lets_them_be() {
    let place = Place::new();
    images(&place);
    let server = Server::config(&place, CONFIG);
    let path = |name: &str| place.file(name).display().to_string();
    let add = |name: &str, image: &str| server.ask("device", &["add", name, &path(image)]);
    assert_eq!(add("near", "images/more.img").stdout, "+ device near\n");
    if sandbox(&server)["landlock"].is_null() {
        skip("Landlock: not in this kernel");
        return server.stop();
    }
    let refused = add("far", "elsewhere/more.img");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("`sandbox_paths` under [server]"), "{refused:?}");
    server.stop();
    // The remedy that it names.
    let text = fs::read_to_string(place.file("weir.toml")).expect("it is there");
    let text = text.replacen("[server]", "[server]\nsandbox_paths = \"elsewhere\"", 1);
    fs::write(place.file("weir.toml"), text).expect("a file can be written");
    let server = Server::again(&place, 1);
    let added = server.ask("device", &["add", "far", &path("elsewhere/more.img")]);
    assert_eq!(added.stdout, "+ device far\n", "{added:?}");
    server.stop();
}

/// A limit, an export with its device, and a reload, the `round`th time.
fn change(place: &Place, server: &Server, round: usize) {
    let path = place.file("images/more.img").display().to_string();
    server.set("/vm1", "io.max", &format!("disk riops={}", 100_000 + round));
    let add = ["add", "more", "--image", &path, "--cgroup", "/vm2", "--create"];
    let added = server.ask("export", &add);
    assert!(added.status.success(), "{added:?}");
    let mut client = Client::open(nbd::dial(server.socket()), "more").expect("it is served");
    client.write(0, 0, &[9; 4096]).expect("it can be written");
    client.call(Kind::Flush, 0, 0, 0).expect("it can be flushed");
    assert_eq!(client.read(0, 512).expect("it can be read"), [9; 512]);
    drop(client);
    let remove = ["remove", "more", "--with-device", "--with-cgroup", "--force"];
    let removed = server.ask("export", &remove);
    assert!(removed.status.success(), "{removed:?}");
    server.signal(Signal::HUP);
    let reloaded = || server.log().matches("configuration read again").count() > round;
    eventually("the configuration is read again", reloaded);
}

#[test]
fn a_server_in_the_sandbox_does_all_that_it_did() {
    let place = Place::new();
    images(&place);
    let Some(fio) = peer("fio") else { return };
    let server = Server::config(&place, CONFIG);
    let uri = format!("--uri={}", server.uri());
    let load = [
        "--name=tenant",
        "--ioengine=nbd",
        &uri,
        "--rw=randrw",
        "--bs=4k",
        "--size=16M",
        "--iodepth=16",
        "--verify=crc32c",
        "--time_based",
        "--runtime=4",
        "--verify_state_save=0",
    ];
    std::thread::scope(|scope| {
        let load = scope.spawn(|| fio.run(&load));
        (0..3).for_each(|round| change(&place, &server, round));
        load.join().expect("no error, and what was read is what was written");
    });
    assert_eq!(server.ask("config", &["diff"]).stdout, "");
    let log = server.log();
    for refusal in ["os error 1)", "os error 13)", "os error 38)"] {
        assert!(!log.contains(refusal), "{log}");
    }
    server.stop();
}

#[test]
fn a_sandbox_that_is_off_is_told() {
    let place = Place::new();
    images(&place);
    let disk = place.file("images/disk.img");
    let server = Server::image(&place, &disk, &["--sandbox", "off"]);
    assert_eq!(sandbox(&server)["mode"], "off");
    assert!(of_each_thread(&server, "Seccomp").iter().all(|mode| mode == "0"));
    let text = server.ask("status", &[]).stdout;
    assert!(text.lines().any(|line| line == "sandbox: off"), "{text}");
    server.stop();
}

#[test]
fn a_server_of_one_image_is_left_with_that_file() {
    let place = Place::new();
    images(&place);
    let disk = place.file("images/disk.img");
    let server = Server::image(&place, &disk, &[]);
    let sandbox = sandbox(&server);
    if !sandbox["landlock"].is_null() {
        let disk = disk.canonicalize().expect("it is there");
        assert_eq!(sandbox["device_paths"], serde_json::json!([disk]));
    }
    let mut client = Client::of(&server);
    assert_eq!(client.read(0, 512).expect("it is served"), [7; 512]);
    drop(client);
    server.stop();
    assert!(!place.socket("nbd.sock").exists(), "it may still remove its socket");
}
