//! Harness for arbitrary bytes as what a store has, with the invariants of every input. Shared by `cargo test` and the fuzz
//! target.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "also a module of the fuzz targets; each test takes what it needs"
)]

use weir_engine::{Dimension, Instant};
use weir_pool::{
    Answer, Event, OnLoss, PoolSettings, Pools, Rates, Revision, ServerSettings, Store,
    check_any_bytes,
};

const LIMIT: u64 = 900;

/// A server named `a` that shares `acme` and `b`.
pub fn server(now: Instant) -> Pools {
    let server = ServerSettings { name: "a".into(), incarnation: 7, lease_ms: 3000 };
    let pools = ["acme", "b"].map(|name| PoolSettings {
        name: name.into(),
        limit: Rates::UNLIMITED.with(Dimension::Riops, LIMIT),
        floor: Rates::UNLIMITED.with(Dimension::Riops, 1),
        weight: 100,
        on_loss: OnLoss::Strict,
    });
    Pools::new(now, server, pools.to_vec()).expect("settings that can be")
}

/// Gives `bytes` to a server as what the store has, cut at the first 0xff into one table after the other.
pub fn any_tables(bytes: &[u8]) {
    let mut now = Instant::from_millis(1000);
    let mut server = server(now);
    for (number, bytes) in bytes.splitn(4, |&byte| byte == 0xff).enumerate() {
        check_any_bytes(bytes);
        any_table(&mut server, now, Revision(number as u64 + 1), bytes);
        now = now.plus_nanos(700_000_000);
        server.handle_timeout(now);
    }
}

/// The swap that follows, if one does.
pub fn any_table(
    server: &mut Pools,
    now: Instant,
    revision: Revision,
    bytes: &[u8],
) -> Option<Vec<u8>> {
    let request = server.poll_request(now)?;
    assert_eq!(request.store, Store::Get);
    server.handle_answer(now, request.id, Answer::Value(Some((revision, bytes))));
    while let Some(grant) = server.poll_grant() {
        assert!(grant.rates[Dimension::Riops] <= LIMIT && grant.then[Dimension::Riops] <= LIMIT);
        assert!(grant.then.is_within(&grant.rates));
    }
    server.handle_applied();
    let is_unreadable = std::iter::from_fn(|| server.poll_event())
        .any(|event| matches!(event, Event::Unreadable(_)));
    let swap = server.poll_request(now)?;
    let Store::Swap { expected, bytes } = swap.store else { panic!("a table was read") };
    assert!(!is_unreadable, "what cannot be read is left alone");
    assert_eq!(expected, Some(revision));
    // What it writes, it reads.
    check_any_bytes(&bytes);
    let answer = match revision.0 % 2 {
        0 => Answer::Refused,
        _ => Answer::Swapped(Revision(revision.0 + 100)),
    };
    server.handle_answer(now, swap.id, answer);
    Some(bytes)
}
