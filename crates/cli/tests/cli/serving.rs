//! A server from its start to its end, asked and changed while it runs.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::support::{PATIENCE, Place, Server};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn a_server_is_found_by_set_and_status() {
    let place = Place::new("serving");
    let server = Server::start(&place, &["memory:16M", "--max", "riops=100", "--weight", "7"]);
    let socket = place.path().join("weir/memory.sock");
    assert_eq!(server.uri, format!("nbd+unix:///?socket={}", socket.display()));

    let (status, out, err) = place.run(&["set", "/main", "io.max", "wbps=4M", "riops=5k"]);
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(out, "disk rbps=max wbps=4194304 riops=5000 wiops=max\n");
    let (status, out, err) = place.run(&["set", "/mian", "io.weight", "3"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("no cgroup /mian") && err.contains("did you mean \"/main\"?"), "{err}");
    let create = ["set", "/other", "io.weight", "3", "--create", "--format", "json"];
    let (status, out, err) = place.run(&create);
    let reply: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &reply["created"], &reply["devices"][0]["value"]),
        (0, &true.into(), &"3".into())
    );
    assert_eq!(err, "note: /other is new: no connection is in it\n");

    let (status, out, err) = place.run(&["set", "/main", "io.max", "riops=0"]);
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.contains("error: riops = 0") && err.contains("help: for no limit"), "{err}");
    let generation = reply["generation"].as_str().unwrap();
    let again = ["set", "/main", "io.weight", "8", "--if-match", generation];
    assert_eq!(place.run(&again).0, 0);
    let (status, _, err) = place.run(&again);
    assert_eq!(status, 2);
    assert!(err.contains(&format!("is based on generation {generation:?}")), "{err}");
    let (status, _, err) = place.run(&["set", "/main", "io.weight", "7", "--if-match", "a\nb"]);
    assert!(status == 1 && err.contains("is no generation"), "{err}");
    place.run(&["set", "/main", "io.weight", "7"]);

    let (status, _, err) = place.run(&["set", "/main", "io.burst", "rbps=1M"]);
    assert_eq!(status, 2, "a burst without a rate: {err}");

    let args = ["status", "--format", "json", "--interval", "10ms"];
    let (status, out, err) = place.run(&args);
    assert_eq!((status, err.as_str()), (0, ""));
    let found: Value = serde_json::from_str(&out).unwrap();
    let device = &found["devices"][0];
    assert_eq!((&device["device"], &device["audit_balances"]), (&"disk".into(), &true.into()));
    assert!(device["utilisation_percent"].is_number() && device["interval_ns"].is_u64());
    let cgroups = device["cgroups"].as_array().unwrap();
    let main = cgroups.iter().find(|cgroup| cgroup["cgroup"] == "/main").unwrap();
    assert_eq!(main["io_max"], "rbps=max wbps=4194304 riops=5000 wiops=max");
    assert_eq!((&main["io_weight"], &main["limiter"]), (&7.into(), &"pace".into()));
    for name in [
        "read_bytes_per_sec",
        "completed_ios_per_sec",
        "share_percent",
        "bytes_share_percent",
        "throttled_ios_per_sec",
    ] {
        assert!(main["rates"][name].is_number(), "{name}: {main}");
    }
    assert!(main["rates"]["wait_ns_mean"].is_null() && main["rates"]["waited_for"].is_array());

    let (status, out, _) = place.run(&["status", "--interval", "10ms"]);
    assert_eq!(status, 0);
    assert!(
        out.starts_with("disk  memory:")
            && out.contains("\n  /main ")
            && out.contains("\nsandbox: "),
        "{out}"
    );

    server.signal(Signal::TERM);
    assert_eq!(server.end(), (Some(0), String::new()));
    let left: Vec<_> = place.path().join("weir").read_dir().unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A full partition for logs, and a log pipe without a reader: the server continues, and ends in order.
#[test]
fn a_log_that_cannot_be_written_costs_nothing() {
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let gone = || Stdio::from(std::io::pipe().unwrap().1);
    for (number, log) in [full(), gone()].into_iter().enumerate() {
        let place = Place::new(&format!("log-{number}"));
        let server = Server::start_with_log(&place, log, &["memory:16M"]);
        let socket = place.path().join("weir/memory.sock");
        let mut client = UnixStream::connect(&socket).unwrap();
        client.write_all(&[0xff; 64]).unwrap();
        // The log lines of that client are lost, and its requests are served.
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.read_to_end(&mut Vec::new()).or_else(gone_is_an_end).unwrap();
        let (status, out, err) = place.run(&["status", "--interval", "10ms"]);
        assert_eq!((status, err.as_str()), (0, ""), "{out}");
        server.signal(Signal::TERM);
        assert_eq!(server.end(), (Some(0), String::new()));
    }
}

/// A connection that is dropped with something unread is reset.
fn gone_is_an_end(error: std::io::Error) -> std::io::Result<usize> {
    if error.kind() == ErrorKind::ConnectionReset { Ok(0) } else { Err(error) }
}

#[test]
fn two_servers_do_not_disturb_each_other() {
    let place = Place::new("two");
    let first = Server::start(&place, &["memory:16M"]);
    let (status, _, err) = place.run(&["serve", "memory:16M"]);
    assert_eq!(status, 1);
    assert!(err.contains("choose another path with --socket"), "{err}");

    let socket = place.path().join("second.sock");
    let second = Server::start(&place, &["memory:16M", "--socket", socket.to_str().unwrap()]);
    let (status, _, err) = place.run(&["status"]);
    assert_eq!(status, 2);
    for name in ["memory.control.sock", "memory.2.control.sock"] {
        assert!(
            err.contains(&format!("--control {}", place.path().join("weir").join(name).display())),
            "{err}"
        );
    }
    second.signal(Signal::INT);
    assert_eq!(second.end().0, Some(0));
    let (status, _, err) = place.run(&["set", "/main", "io.weight", "5"]);
    assert_eq!((status, err.as_str()), (0, ""), "one is left, so that is meant");
    drop(first);
}

#[test]
fn a_killed_server_s_sockets_are_replaced() {
    let place = Place::new("killed");
    let killed = Server::start(&place, &["memory:16M"]);
    killed.signal(Signal::KILL);
    assert_eq!(killed.end().0, None);
    assert!(place.path().join("weir/memory.sock").exists());
    let server = Server::start(&place, &["memory:16M"]);
    assert_eq!(place.run(&["status", "--interval", "10ms"]).0, 0);
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn sighup_does_not_end_it_without_a_terminal() {
    // The second is as with `nohup`.
    for ignores in [false, true] {
        let place = Place::new("hangup");
        let server = Server::start_with_hangup(&place, ignores, &["memory:16M"]);
        server.signal(Signal::HUP);
        assert_eq!(place.run(&["status", "--interval", "10ms"]).0, 0, "it goes on");
        server.signal(Signal::TERM);
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_uri_that_cannot_be_printed_is_a_failure() {
    let place = Place::new("closed");
    let mut command = place.weir(&["serve", "memory:16M"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command.stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("error: standard output: "), "{err}");
}

#[test]
fn a_configuration_is_served_as_it_says() {
    let place = Place::new("config");
    let file = place.file(
        "weir.toml",
        r#"
            server = { socket = "nbd.sock", control = "c.sock" }
            device.a.path = "memory:16M"
            device.b.path = "memory:16M"
            cgroup."/vm1" = {}
            export.x = { device = "a", cgroup = "/vm1" }
            export.y = { device = "b", cgroup = "/vm1" }
        "#,
    );
    let server = Server::start(&place, &[&file]);
    let control = place.path().join("c.sock");
    let set = |args: &[&str]| {
        place.run(&[&["set", "--control", control.to_str().unwrap()], args].concat())
    };
    let (status, _, err) = set(&["/vm1", "io.max", "riops=9"]);
    assert_eq!(status, 2);
    assert!(err.contains("which device?") && err.contains("a, b"), "{err}");
    let (status, out, _) = set(&["/vm1", "io.max", "riops=9", "--device", "b"]);
    assert_eq!((status, out.as_str()), (0, "b rbps=max wbps=max riops=9 wiops=max\n"));
    let (status, out, _) = set(&["/vm1", "io.max", "* wiops=1k"]);
    let expected =
        "a rbps=max wbps=max riops=max wiops=1000\nb rbps=max wbps=max riops=9 wiops=1000\n";
    assert_eq!((status, out.as_str()), (0, expected));
    server.signal(Signal::TERM);
    let (status, rest) = server.end();
    let y = format!("nbd+unix:///y?socket={}\n", place.path().join("nbd.sock").display());
    assert_eq!((status, rest), (Some(0), y));
}
