//! Our own client, in a cgroup that is moved and others that are removed meanwhile.

use weir_tests::nbd::{Client, Kind, dial};
use weir_tests::{Place, Server, eventually};

fn serve(place: &Place) -> Server {
    Server::config(
        place,
        r#"
        [device.disk]
        path = "memory:1M"
        [cgroup."/slow"]
        "io.max" = "disk riops=1"
        [cgroup."/slow/db"]
        "io.max" = "disk wiops=7"
        [cgroup."/fast"]
        [cgroup."/spare"]
        "io.max" = "disk riops=5"
        [export.db]
        device = "disk"
        cgroup = "/slow/db"
        "#,
    )
}

/// `weir SUBCOMMAND ARGUMENTS` must be refused in these words.
#[track_caller]
fn refused(server: &Server, subcommand: &str, arguments: &[&str], words: &str) {
    let ran = server.ask(subcommand, arguments);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{ran:?}");
    assert!(ran.stderr.contains(words), "no {words:?} in {}", ran.stderr);
}

#[test]
fn queued_requests_move_with_their_cgroup() {
    let place = Place::new();
    let server = serve(&place);
    let mut client = Client::open(dial(server.socket()), "db").expect("an export");
    let sent: Vec<u64> = (0..100)
        .map(|number| client.send(Kind::Read, 0, number * 512, 512, &[]).expect("it is taken"))
        .collect();
    eventually("all have arrived", || {
        let status = server.status();
        status.number("throttled") + status.cgroup("/slow/db").number("completed_ios") == 100
    });
    let ran = server.ask("move", &["/slow/db", "/fast"]);
    assert!(ran.status.success() && ran.stdout == "disk\n", "{ran:?}");
    // At one a second they would take longer than the test waits.
    let mut answered: Vec<u64> =
        sent.iter().map(|_| client.receive().expect("it is answered").cookie).collect();
    answered.sort_unstable();
    assert_eq!(answered, sent);
    let status = server.status();
    assert_eq!(status.cgroup("/fast/db").number("completed_ios"), 100);
    assert_eq!(status.cgroup("/fast/db").io_max(), Some("rbps=max wbps=max riops=max wiops=7"));
    assert!(status.is_idle() && status.balances());

    // The export leads there from now on, and keeps the cgroup from being removed.
    let mut second = Client::open(dial(server.socket()), "db").expect("the export is there");
    second.read(0, 512).expect("it is served");
    assert_eq!(server.status().cgroup("/fast/db").number("completed_ios"), 101);
    refused(&server, "remove", &["/fast/db"], "export `db`");
    let ran = server.ask("remove", &["/slow", "--format", "json"]);
    let reply: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(reply["devices"], serde_json::json!(["disk"]));
    server.stop();
}

#[test]
fn impossible_moves_and_removals_are_refused() {
    let place = Place::new();
    let server = serve(&place);
    for (subcommand, arguments, words) in [
        ("move", &["/nope", "/fast"][..], "no cgroup /nope"),
        ("move", &["/spare", "/nope"], "no cgroup /nope"),
        ("move", &["/", "/fast"], "root"),
        ("move", &["/slow", "/slow/db"], "below itself"),
        ("move", &["spare", "/fast"], "write \"/spare\""),
        ("move", &["/spare", "/fast", "--device", "dusk"], "did you mean \"disk\"?"),
        ("remove", &["/nope"], "`weir status` lists the cgroups"),
        ("remove", &["/"], "root"),
        ("remove", &["/slow"], "export `db`"),
    ] {
        refused(&server, subcommand, arguments, words);
    }
    assert!(server.ask("remove", &["/spare"]).status.success());
    refused(&server, "remove", &["/spare"], "no cgroup /spare");
    // A name is free again, and its new cgroup starts without limits.
    server.create("/spare", "io.weight", "50");
    assert_eq!(server.status().cgroup("/spare").io_max(), None);
    server.create("/slow/spare", "io.weight", "50");
    refused(&server, "move", &["/spare", "/slow"], "already has a cgroup of this name");
    server.stop();
}
