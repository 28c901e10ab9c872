//! The log of a server: formats and levels.

use std::io::Write;
use std::os::unix::net::UnixStream;

use weir_tests::nbd::Client;
use weir_tests::{Place, Server, eventually};

#[test]
fn json_has_an_object_on_each_line() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--log", "json"]);
    let control = server.control().display().to_string();
    server.signal(rustix::process::Signal::TERM);
    let log = server.log_when_ended(0);
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let serving = lines.iter().find(|line| line["message"] == "serving").expect("it says so");
    assert_eq!((&serving["level"], &serving["control"]), (&"INFO".into(), &control.into()));
    assert!(serving["timestamp"].is_string());
}

#[test]
fn what_keeps_a_server_from_starting_is_in_the_format_of_its_log() {
    let place = Place::new();
    let socket = place.socket("nbd.sock");
    let refused = Server::try_image(&place, "nosuch.img", &socket, &["--log", "json"]);
    let refused = refused.expect_err("there is no such image");
    assert_eq!(refused.status.code(), Some(2));
    let first: serde_json::Value =
        serde_json::from_str(refused.log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(first["level"], "ERROR");
    assert!(first["message"].as_str().is_some_and(|text| text.contains("nosuch.img")), "{first}");
}

#[test]
fn the_configuration_sets_format_and_level_and_flags_beat_it() {
    let place = Place::new();
    let config = "log = \"json\"\nlog_level = \"warn\"\n[device.disk]\npath = \"memory:1M\"\n\
                  [export.\"\"]\ndevice = \"disk\"\ncgroup = \"/\"\n";
    let server = Server::config(&place, config);
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.log_when_ended(0), "", "nothing is wrong");
    let server = Server::image(&place, "memory:1M", &["--log-level", "debug", "--log", "text"]);
    assert!(server.log().contains(" INFO serving control="), "{}", server.log());
    server.stop();
}

#[test]
fn a_journal_that_is_not_there_is_told() {
    if std::path::Path::new("/run/systemd/journal/socket").exists() {
        return;
    }
    let place = Place::new();
    let socket = place.socket("nbd.sock");
    let refused = Server::try_image(&place, "memory:1M", &socket, &["--log", "journald"]);
    let log = refused.expect_err("there is no journal").log;
    assert!(log.contains("/run/systemd/journal/socket") && log.contains("--log text"), "{log}");
}

/// Lines that a client causes: what it asks for in vain, and another protocol.
#[test]
fn clients_that_are_turned_away_are_in_the_log() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &[]);
    let connect = || UnixStream::connect(server.socket()).expect("it listens");
    for _ in 0..20 {
        assert!(Client::open(connect(), "nosuch").is_err());
    }
    let lines = || server.log().matches("export=\"nosuch\"").count();
    eventually("it is told of", || lines() > 0);
    assert!(lines() <= 5, "and the log is not flooded: {}", server.log());
    let mut stream = connect();
    stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: weir\r\n\r\n").expect("it is taken");
    eventually("it is told of", || {
        server
            .log()
            .lines()
            .any(|line| line.contains(" INFO ") && line.contains("protocol=\"HTTP\""))
    });
    assert!(!server.log().contains("client connected"), "that is for a closer look");
    server.stop();
}

#[test]
fn each_connection_has_a_line_at_the_level_debug() {
    let place = Place::new();
    let server = Server::image(&place, "memory:1M", &["--log-level", "debug"]);
    Client::of(&server).read(0, 512).expect("it is served");
    eventually("it is told of", || server.log().contains("DEBUG client connected"));
    server.stop();
}
