//! nbdcopy: images go in and come out as they were.

use std::fs;

use weir_tests::{Place, Server, pattern, peer};

const SIZE: usize = 12 << 20;

/// In over `flags`, out over `flags`, with a check of the image in between.
fn round_trip(serve: &[&str], flags: &[&str]) {
    let place = Place::new();
    let Some(nbdcopy) = peer("nbdcopy") else { return };
    let bytes = pattern(6, SIZE);
    let (source, image) = (place.filled("source", &bytes), place.hole("disk.img", SIZE as u64));
    let copy = place.file("copy");
    let server = Server::image(&place, &image, serve);
    let path = |path: &std::path::Path| path.to_str().expect("a plain name").to_owned();
    let with = |from: String, to: String| {
        let mut arguments: Vec<String> = flags.iter().map(|&flag| flag.into()).collect();
        arguments.extend([from, to]);
        arguments
    };
    nbdcopy.run(&with(path(&source), server.uri().into()));
    nbdcopy.run(&with(server.uri().into(), path(&copy)));
    assert!(fs::read(&copy).expect("nbdcopy made it") == bytes, "{flags:?}: the copy differs");
    server.stop();
    assert!(fs::read(&image).expect("it is there") == bytes, "{flags:?}: the image differs");
}

#[test]
fn nbdcopy_over_one_connection_keeps_every_byte() {
    round_trip(&[], &["--flush", "--connections=1", "--synchronous"]);
}

#[test]
fn nbdcopy_in_small_requests_keeps_every_byte() {
    round_trip(&[], &["--connections=4", "--request-size=4096", "--requests=64"]);
}

#[test]
fn nbdcopy_with_its_defaults_keeps_every_byte() {
    round_trip(&[], &["--connections=4", "--requests=16"]);
}

#[test]
fn nbdcopy_in_the_largest_requests_keeps_every_byte() {
    round_trip(&["--direct", "off"], &["--connections=4", "--request-size=33554432", "--flush"]);
}

#[test]
fn nbdcopy_under_limits_keeps_every_byte() {
    let limits = ["--max", "rbps=200M wbps=200M riops=20k wiops=20k"];
    round_trip(&limits, &["--connections=4", "--request-size=65536"]);
}

#[test]
fn nbdcopy_through_the_write_back_cache_keeps_every_byte() {
    let cache = ["--cache", "writeback", "--cache-size", "4M"];
    round_trip(&cache, &["--connections=4", "--requests=16"]);
    round_trip(&cache, &["--connections=4", "--request-size=4096", "--requests=64", "--flush"]);
}
