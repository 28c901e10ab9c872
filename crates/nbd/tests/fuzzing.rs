//! Fuzz targets, with pseudo-random input and a bound, on every `cargo test`.
//!
//! A failure prints the line that runs its input again.

mod harness;

use std::collections::BTreeSet;
use std::env;
use std::fmt::Debug;

use weir_nbd::Item;

/// Each case is a few microseconds; this many run in about a second without optimisation.
const CASES: u64 = 50_000;

#[test]
fn any_bytes_against_the_server() {
    run("any_bytes_against_the_server", |data| drop(harness::server(data)));
}

#[test]
fn any_bytes_against_the_client() {
    run("any_bytes_against_the_client", |data| drop(harness::client(data)));
}

/// A harness whose streams all die at the first magic would find nothing.
#[test]
fn the_streams_reach_every_item_and_reply() {
    let mut items = BTreeSet::new();
    let mut replies = BTreeSet::new();
    for seed in 0..20_000 {
        for item in harness::server(&bytes(seed)) {
            items.insert(match item {
                Item::Request(command) | Item::Write(command) => name(&command.op),
                Item::Refused(refusal) => refusal.reason.into(),
                item => name(&item),
            });
        }
        replies.extend(harness::client(&bytes(seed)).iter().map(name));
    }
    for op in ["Read", "Write", "Flush", "Trim", "WriteZeroes", "Cache", "BlockStatus"] {
        assert!(items.contains(op), "{op} not among {items:?}");
    }
    // Fourteen reasons of refusal (nothing shuts down here), three items besides.
    assert_eq!(items.len(), 7 + 14 + 3, "{items:?}");
    // All but NeedMore.
    assert_eq!(replies.len(), 6, "{replies:?}");
}

/// The name of an enum's variant.
fn name(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn run(test: &'static str, target: fn(&[u8])) {
    let number = |name| env::var(name).ok().map(|value| value.parse().expect(name));
    let first = number("WEIR_NBD_SEED").unwrap_or(0);
    let cases = number("WEIR_NBD_CASES").unwrap_or(CASES);
    for seed in first..first + cases {
        let rerun = Rerun { test, seed };
        target(&bytes(seed));
        drop(rerun);
    }
}

/// Bytes of a seed: mostly short, with the numbers that protocols are made of over-represented.
fn bytes(seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let len = random.next() % (1 << (2 + random.next() % 9));
    (0..len)
        .map(|_| match random.next() % 4 {
            0 => [0, 1, 2, 3, 0x7f, 0x80, 0xff][(random.next() % 7) as usize],
            1 => (random.next() % 32) as u8,
            _ => random.next() as u8,
        })
        .collect()
}

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

struct Rerun {
    test: &'static str,
    seed: u64,
}

impl Drop for Rerun {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Rerun { test, seed } = self;
            eprintln!(
                "again: WEIR_NBD_SEED={seed} WEIR_NBD_CASES=1 cargo test -p weir-nbd --test fuzzing {test}"
            );
        }
    }
}
