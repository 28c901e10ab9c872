//! SIGHUP: a server reads its configuration again.

use std::fs;

use rustix::process::Signal;
use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, eventually, peer, weir};

const CONFIG: &str = r#"
    sandbox_paths = "."
    [device.disk]
    path = "memory:1M"
    [device.spare]
    path = "memory:1M"
    [cgroup."/vm1"]
    "io.max" = "disk riops=1000"
    "io.weight" = 200
    [export.""]
    device = "disk"
    cgroup = "/vm1"
"#;

/// Makes `server` reload the configuration after `change`, and waits until the log has `word` once more.
fn reload(place: &Place, server: &Server, change: impl Fn(&str) -> String, word: &str) {
    let path = place.file("weir.toml");
    let text = fs::read_to_string(&path).expect("it is there");
    fs::write(&path, change(&text)).expect("a file can be written");
    let count = || server.log().matches(word).count();
    let before = count();
    server.signal(Signal::HUP);
    eventually(word, || count() > before);
}

#[test]
fn limits_of_a_changed_configuration_hold_at_once() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let mut client = Client::of(&server);
    client.read(0, 512).expect("it is served");
    server.ask("set", &["/vm1", "io.weight", "300", "--runtime"]);
    let change = |text: &str| {
        let text = text.replace("riops=1000", "riops=2000 rbps=1M");
        let text = text.replace("[device.disk]", "[device.disk]\n depth = 7");
        text + "[cgroup.\"/vm2/db\"]\n \"io.weight\" = 50\n"
    };
    reload(&place, &server, change, "configuration read again");
    let status = server.status();
    let vm1 = status.cgroup("/vm1");
    assert!(vm1.io_max().expect("it has limits").contains("riops=2000"));
    assert_eq!(vm1.number("io_weight"), 200, "what the file says holds again");
    assert_eq!(status.cgroup("/vm2/db").number("io_weight"), 50);
    assert_eq!(status.number("depth"), 7);
    assert!(server.log().contains("changed=6"), "{}", server.log());
    // A cgroup that is no longer listed has no limits.
    let change = |text: &str| text.replace("\"io.max\" = \"disk riops=2000 rbps=1M\"", "");
    reload(&place, &server, change, "configuration read again");
    assert_eq!(server.status().cgroup("/vm1").io_max(), None);
    client.read(0, 512).expect("the connection goes on");
    server.stop();
}

#[test]
fn keys_that_need_a_restart_are_logged() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let change = |text: &str| {
        let text = text.replacen("memory:1M", "memory:2M", 1);
        text.replace("[device.disk]", "max_connections = 7\n [device.disk]")
            .replace("riops=1000", "riops=5")
    };
    reload(&place, &server, change, "configuration read again");
    let log = server.log();
    for key in ["device.disk.path", "server.max_connections"] {
        assert!(log.contains(&format!("key=\"{key}\"")), "{log}");
    }
    assert!(!log.contains("device.spare"), "{log}");
    let status = server.status();
    assert!(status.cgroup("/vm1").io_max().expect("it has limits").contains("riops=5 "));
    server.stop();
}

#[test]
fn a_configuration_that_is_refused_changes_nothing() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let change = |text: &str| {
        text.replace("riops=1000", "riops=5").replace("= 200", "= 0\n \"io.wait\" = 1")
    };
    reload(&place, &server, change, "nothing has changed");
    let log = server.log();
    assert!(
        log.contains("io.wait") && log.contains("io.weight") && log.contains("errors=2"),
        "{log}"
    );
    let status = server.status();
    assert!(status.cgroup("/vm1").io_max().expect("it has limits").contains("riops=1000"));
    fs::remove_file(place.file("weir.toml")).expect("it is there");
    let before = server.log().matches("nothing has changed").count();
    server.signal(Signal::HUP);
    eventually("it says so", || server.log().matches("nothing has changed").count() > before);
    Client::of(&server).read(0, 512).expect("it serves on");
    server.stop();
}

#[test]
fn sighup_does_not_change_a_server_without_a_configuration() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--max", "riops=100"]);
    for number in 1..4 {
        server.signal(Signal::HUP);
        eventually("it says so", || server.log().matches("no configuration").count() == number);
    }
    Client::of(&server).read(0, 512).expect("it serves on");
    // The reload did not count as a signal to end, so this is the first.
    server.signal(Signal::HUP);
    server.stop();
}

/// Starts the server on a terminal of its own, closes the terminal once it serves, and prints the exit status.
const ON_A_TERMINAL: &str = r#"
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while b"nbd+unix" not in said:
    said += os.read(terminal, 4096)
os.close(terminal)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn a_terminal_that_closes_ends_its_server() {
    let place = Place::new();
    let Some(python) = peer("python3") else { return };
    let path = |name: &str| place.socket(name).to_str().expect("a plain name").to_owned();
    let (socket, control) = (path("nbd.sock"), path("control.sock"));
    let weir = weir().to_str().expect("a plain name");
    let words = [
        "-c",
        ON_A_TERMINAL,
        weir,
        "serve",
        "memory:1M",
        "--socket",
        &socket,
        "--control",
        &control,
    ];
    assert_eq!(python.run(&words).trim(), "0");
    assert!(!place.socket("nbd.sock").exists() && !place.socket("control.sock").exists());
}

/// An image of 4 MiB that holds `byte` everywhere.
fn image(place: &Place, name: &str, byte: u8) -> String {
    let path = place.file(name);
    fs::write(&path, vec![byte; 4 << 20]).expect("a file can be written");
    format!("[device.{name}]\n path = {path:?}\n")
}

#[test]
fn devices_and_exports_come_and_go_while_another_is_read() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let mut staying = Client::of(&server);
    for round in 1..4 {
        let added = image(&place, "added", round);
        let with = |text: &str| {
            format!(
                "{text}{added}[export.new]\n device = \"added\"\n cgroup = \"/vm1\"\n range = \"1M..\"\n"
            )
        };
        reload(&place, &server, with, "configuration read again");
        let mut client = Client::open(nbd::dial(server.socket()), "new").expect("it is served");
        assert_eq!(client.size(), 3 << 20);
        assert_eq!(client.read(512, 512).expect("it can be read"), [round; 512]);
        staying.read(0, 512).expect("the other one goes on");
        let without = |text: &str| text[..text.find("[device.added]").expect("it is there")].into();
        reload(&place, &server, without, "export `new` has 1 connections");
        client.read(0, 512).expect("nothing has changed");
        drop(client);
        eventually("its seat is free", || server.devices()[2].number("connections") == 0);
        let again = |text: &str| text.to_owned();
        reload(&place, &server, again, "configuration read again");
        assert!(Client::open(nbd::dial(server.socket()), "new").is_err(), "it is gone");
        assert_eq!(server.devices().len(), 2);
    }
    staying.read(0, 512).expect("all the time");
    server.stop();
}

#[test]
fn the_first_device_can_go() {
    let place = Place::new();
    let server = Server::config(&place, CONFIG);
    let change = |text: &str| {
        let first = "[device.disk]\n    path = \"memory:1M\"\n";
        assert!(text.contains(first));
        text.replace(first, "")
            .replace("\"io.max\" = \"disk riops=1000\"", "")
            .replace("device = \"disk\"", "device = \"spare\"")
    };
    reload(&place, &server, change, "configuration read again");
    Client::of(&server).read(0, 512).expect("the other device has the export now");
    assert_eq!(server.devices().len(), 1);
    server.stop();
}

#[test]
fn a_device_that_cannot_be_opened_leaves_the_others() {
    let place = Place::new();
    let lost = image(&place, "lost", 1);
    let config = format!("{CONFIG}{lost}[export.lost]\n device = \"lost\"\n cgroup = \"/vm1\"\n");
    let server = Server::config(&place, &config);
    assert_eq!(server.devices().len(), 3);
    server.stop();
    fs::remove_file(place.file("lost")).expect("it is there");
    let server = Server::config_in_part(&place, &config, 1);
    assert_eq!(server.devices().len(), 2);
    assert!(server.log().contains("device left out"), "{}", server.log());
    Client::of(&server).read(0, 512).expect("the others are served");
    reload(&place, &server, str::to_owned, "configuration read again");
    assert_eq!(server.devices().len(), 2, "still");
    image(&place, "lost", 2);
    reload(&place, &server, str::to_owned, "configuration read again");
    let mut client = Client::open(nbd::dial(server.socket()), "lost").expect("it is served now");
    assert_eq!(client.read(0, 512).expect("it can be read"), [2; 512]);
    server.stop();
}
