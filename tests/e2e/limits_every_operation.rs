//! libnbd: nothing is free. Every command is counted, charged by its price, and held by a limit.

use weir_tests::{Place, Server, python};

const ROUNDS: u64 = 10;

#[test]
fn every_command_is_counted_and_charged() {
    let place = Place::new();
    let Some(one_of_each) = python("one_of_each.py") else { return };
    for flags in [&[][..], &["--max", "rbps=100M wbps=100M riops=100k wiops=100k"]] {
        let image = place.hole(&format!("{}.img", flags.len()), 1 << 20);
        let server = Server::image(&place, image, flags);
        one_of_each.run(&[server.uri(), &ROUNDS.to_string()]);
        let status = server.status();
        let main = status.cgroup("/main");
        for (name, each) in [
            ("read_ios", 1),
            ("read_bytes", 4096),
            // The write and the zeroes.
            ("write_ios", 2),
            ("write_bytes", 2 * 4096),
            ("discard_ios", 1),
            ("discard_bytes", 4096),
            // The flush, the prefetch and the question.
            ("other_ios", 3),
            ("completed_ios", 7),
            ("failed_ios", 0),
        ] {
            assert_eq!(main.number(name), ROUNDS * each, "{name} {flags:?}");
        }
        assert!(status.balances());
        // Read, prefetch, write and zeroes by their length; the question, the trim and the flush a sector each.
        assert_eq!(status.number("charged_bytes"), ROUNDS * (4 * 4096 + 3 * 512), "{flags:?}");
        server.stop();
    }
}

#[test]
fn prices_are_what_the_configuration_says() {
    let place = Place::new();
    let Some(one_of_each) = python("one_of_each.py") else { return };
    let server = Server::config(
        &place,
        r#"
        [device.disk]
        path = "memory:1M"
        [device.disk.price]
        flush = { ios = 4, bytes = 100 }
        discard = { ios = 1, bytes = "length" }
        status = { ios = 2, bytes = 1 }
        [cgroup."/main"]
        "io.max" = "disk rbps=100M wbps=100M riops=100k wiops=100k"
        [export.""]
        device = "disk"
        cgroup = "/main"
        "#,
    );
    one_of_each.run(&[server.uri(), &ROUNDS.to_string()]);
    let status = server.status();
    assert_eq!(status.number("charged_bytes"), ROUNDS * (5 * 4096 + 100 + 1));
    assert!(status.balances());
    server.stop();
}

/// As `limits_burst`, for the one command that our own client does not speak.
#[test]
fn block_status_waits_for_the_limit() {
    let place = Place::new();
    let Some(only_status) = python("only_status.py") else { return };
    let (burst, count) = (4, 6);
    let server = Server::image(&place, "memory:1M", &["--max", "riops=1", "--burst", "4"]);
    let start_ns = server.status().number("at_ns");
    only_status.run(&[server.uri(), &count.to_string()]);
    let status = server.status();
    let allowed = burst + (status.number("at_ns") - start_ns) / 1_000_000_000 + 1;
    let done = status.cgroup("/main").number("completed_ios");
    assert_eq!(done, count);
    assert!(done <= allowed, "{done} are done, {allowed} may be");
    server.stop();
}
