//! fio: random writes with checksums, read back and verified.

use serde_json::Value;
use weir_tests::{Place, Server, peer};

/// Runs a verifying job of `jobs` processes, each in a part of its own.
fn verify(device: &str, serve: &[&str], place: &Place, job: &[&str]) {
    let Some(fio) = peer("fio") else { return };
    let server = Server::image(place, device, serve);
    let uri = format!("--uri={}", server.uri());
    let mut arguments = vec![
        "--output-format=json",
        "--name=verify",
        "--ioengine=nbd",
        &uri,
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--randseed=17",
        "--group_reporting",
    ];
    arguments.extend(job);
    // Warnings come before the JSON, on the same stream.
    let said = fio.run(&arguments);
    let json = said.find('{').map_or("", |at| &said[at..]);
    let report: Value =
        serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {said}"));
    let job = &report["jobs"][0];
    assert_eq!(job["error"], 0, "{report:#}");
    let ios = |way: &str| job[way]["total_ios"].as_u64().expect("a number");
    assert!(ios("write") > 0 && ios("read") >= ios("write"), "{report:#}");
    assert!(server.status().balances());
    server.stop();
}

#[test]
fn fio_verifies_random_writes() {
    let place = Place::new();
    for mode in place.direct_modes() {
        let image = place.hole(&format!("{mode}.img"), 16 << 20);
        let job = ["--rw=randwrite", "--bs=4k", "--size=8m", "--iodepth=32"];
        verify(image.to_str().expect("a plain name"), &["--direct", mode], &place, &job);
    }
}

#[test]
fn fio_verifies_writes_of_many_sizes() {
    let place = Place::new();
    let image = place.hole("disk.img", 24 << 20);
    let job = [
        "--rw=randwrite",
        "--bssplit=512/20:4k/40:20k/20:256k/20",
        "--verify_interval=512",
        "--size=16m",
        "--iodepth=16",
        "--fsync=50",
    ];
    verify(image.to_str().expect("a plain name"), &[], &place, &job);
}

#[test]
fn fio_verifies_several_jobs_under_a_limit() {
    let place = Place::new();
    let image = place.hole("disk.img", 16 << 20);
    let job = [
        "--rw=randwrite",
        "--bs=8k",
        "--numjobs=4",
        "--size=2m",
        "--offset_increment=4m",
        "--iodepth=8",
    ];
    let limits = ["--max", "riops=5k wiops=5k", "--limiter", "token"];
    verify(image.to_str().expect("a plain name"), &limits, &place, &job);
}

#[test]
fn fio_verifies_writes_beside_trims() {
    let place = Place::new();
    let image = place.hole("disk.img", 16 << 20);
    let job = [
        "--rw=randwrite",
        "--bs=16k",
        "--size=8m",
        "--iodepth=8",
        "--trim_percentage=10",
        "--trim_verify_zero=0",
    ];
    verify(image.to_str().expect("a plain name"), &[], &place, &job);
}

#[test]
fn fio_verifies_writes_through_the_write_back_cache() {
    let place = Place::new();
    for (mode, size) in [("on", "1M"), ("off", "64M")] {
        if mode == "on" && !place.direct_modes().contains(&mode) {
            continue;
        }
        let image = place.hole(&format!("{mode}.img"), 24 << 20);
        let image = image.to_str().expect("a plain name");
        let serve = ["--direct", mode, "--cache", "writeback", "--cache-size", size];
        let job = [
            "--rw=randwrite",
            "--bssplit=512/20:4k/40:20k/20:256k/20",
            "--verify_interval=512",
            "--size=4m",
            "--numjobs=4",
            "--offset_increment=6m",
            "--iodepth=16",
            "--fsync=50",
            "--trim_percentage=5",
            "--trim_verify_zero=0",
        ];
        verify(image, &serve, &place, &job);
    }
}

/// An emulated disk serves one request after the other, and bfq joins adjacent ones.
#[test]
fn fio_verifies_writes_through_the_write_back_cache_of_a_slow_disk() {
    let place = Place::new();
    let cache = ["--cache", "writeback", "--cache-size", "2M"];
    let job = [
        "--rw=randrw",
        "--bssplit=512/10:4k/50:20k/30:64k/10",
        "--verify_interval=512",
        "--size=2m",
        "--numjobs=3",
        "--offset_increment=4m",
        "--iodepth=16",
        "--fsync=100",
    ];
    for scheduler in ["bfq", "none"] {
        let serve: Vec<&str> =
            cache.into_iter().chain(["--scheduler", scheduler, "--depth", "1"]).collect();
        verify("emulated:ssd-sata,size=16M", &serve, &place, &job);
    }
}
