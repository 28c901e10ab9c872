//! Requests to the control socket that would make a device's thread work without end. Clients are served on.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use weir_tests::nbd::Client;
use weir_tests::{Place, Server};

/// Sets the weight of `cgroup`, which is created; the status of the answer, and the answer.
fn set(server: &Server, cgroup: &str) -> (String, String) {
    let body =
        format!("{{\"cgroup\":{cgroup:?},\"key\":\"io.weight\",\"value\":\"7\",\"create\":true}}");
    let mut stream = UnixStream::connect(server.control()).expect("it listens");
    let len = body.len();
    let head = "POST /v1/set HTTP/1.1\r\nHost: weir\r\nConnection: close\r\n\
                Content-Type: application/json\r\n";
    write!(stream, "{head}Content-Length: {len}\r\n\r\n{body}").expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    (answer[9..12].to_owned(), answer)
}

#[test]
fn cgroups_are_bounded_in_depth_and_number() {
    let place = Place::new();
    let server = Server::config(
        &place,
        r#"
        max_cgroups = 100
        [device.disk]
        path = "memory:1M"
        [export.""]
        device = "disk"
        cgroup = "/"
        "#,
    );
    let mut good = Client::of(&server);
    for (names, status, words) in [
        (100_000, "413", "more than 65536 bytes"),
        (20_000, "400", "at most 64 are allowed"),
        (65, "400", "at most 64 are allowed"),
        (64, "200", ""),
    ] {
        let (got, answer) = set(&server, &"/a".repeat(names));
        assert!(got == status && answer.contains(words), "{names} names: {answer}");
        good.read(0, 4096).expect("a good client is served");
    }
    // With the root, 65 are there, and these need two each.
    let made = (0..).take_while(|number| set(&server, &format!("/b{number}/c")).0 == "200").count();
    assert_eq!(made, (100 - 65) / 2);
    let (_, answer) = set(&server, "/one/two");
    assert!(answer.contains("needs 2 new cgroups, and of 100 there are 99"), "{answer}");
    assert!(answer.contains("max_cgroups"), "{answer}");
    assert_eq!(set(&server, "/one").0, "200");
    // A cgroup with 63 levels below it does not fit below another.
    let ran = server.ask("move", &["/a", "/b0"]);
    assert!(!ran.status.success() && ran.stderr.contains("65 names deep"), "{ran:?}");
    good.read(0, 4096).expect("a good client is served");
    server.stop();
}

/// A status of many cgroups is made in pieces, for many readers at once, and is complete.
#[test]
fn the_status_of_many_cgroups_is_complete() {
    let place = Place::new();
    let cgroups: String = (0..1000).map(|number| format!("[cgroup.\"/all/{number}\"]\n")).collect();
    let server = Server::config(
        &place,
        &format!(
            r#"
            [device.disk]
            path = "memory:1M"
            {cgroups}
            [export.""]
            device = "disk"
            cgroup = "/all/999"
            "#
        ),
    );
    let mut good = Client::of(&server);
    for _ in 0..10 {
        good.read(0, 4096).expect("a good client is served");
    }
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| server.status())).collect();
        for number in 0..100 {
            let ran = server.ask("remove", &[&format!("/all/{number}")]);
            assert!(ran.status.success(), "{ran:?}");
            good.read(0, 4096).expect("a good client is served");
        }
        for asked in asking {
            let status = asked.join().expect("it is answered");
            for path in ["/", "/all", "/all/999"] {
                let cgroup = status.cgroup(path);
                assert!(cgroup.number("read_ios") >= 10 && cgroup.number("replied_ios") >= 10);
            }
            assert!((902..=1002).contains(&status.cgroups()), "{}", status.cgroups());
        }
    });
    assert_eq!(server.status().cgroups(), 902);
    assert_eq!(server.status().cgroup("/all").number("replied_ios"), 110);
    server.stop();
}
