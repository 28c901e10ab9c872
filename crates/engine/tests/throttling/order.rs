//! Shares do not depend on the order of connecting.

use proptest::prelude::*;
use weir_engine::settings::Prices;
use weir_engine::{Instant, LimiterKind, Op, TaskId};

use super::cases;
use super::world::{LIMITERS, MS, World};

/// A client that keeps `depth` requests of `len` inside and thinks after each.
#[derive(Clone, Copy, Debug)]
struct Client {
    len: u32,
    depth: u32,
    think_us: u64,
}

/// Bytes a second that each client has, if they connect in this order.
fn shares(limiter: LimiterKind, max: &str, clients: &[Client], order: &[usize]) -> Vec<u64> {
    let mut world = World::new(Prices::default());
    world.limit("/a", max, limiter);
    let mut tasks: Vec<Option<TaskId>> = vec![None; clients.len()];
    for &client in order {
        tasks[client] = Some(world.task("/a"));
    }
    // When each thinks no more.
    let mut calendar = std::collections::BTreeSet::new();
    for &client in order {
        for _ in 0..clients[client].depth {
            calendar.insert((Instant::ZERO, calendar.len(), client));
        }
    }
    let mut owners = std::collections::BTreeMap::new();
    let (mut bytes, mut seen, mut stamp) = (vec![0; clients.len()], 0, calendar.len());
    let seconds = 20;
    while world.now < Instant::from_millis(seconds * 1000) {
        while let Some(&(at, _, client)) = calendar.first().filter(|next| next.0 <= world.now) {
            calendar.remove(&(at, calendar.first().unwrap().1, client));
            let task = tasks[client].expect("all have connected");
            let (_, tag) = world.submit(task, Op::Read, clients[client].len);
            owners.insert(tag, client);
        }
        while let Some(&(at, tag)) = world.went.get(seen) {
            seen += 1;
            let client = owners[&tag];
            bytes[client] += u64::from(clients[client].len);
            stamp += 1;
            calendar.insert((at.plus_nanos(clients[client].think_us * 1000), stamp, client));
        }
        let next = calendar.first().map(|next| next.0).into_iter();
        let at = next.chain(world.engine.poll_timeout()).min().expect("it goes on");
        world.run(at.nanos_since(world.now));
    }
    bytes.iter().map(|bytes| bytes / seconds).collect()
}

fn client() -> impl Strategy<Value = Client> {
    let len = prop_oneof![Just(4096), Just(65_536), (8..512u32).prop_map(|n| n * 512)];
    (len, 1..4u32, 0..=5_000u64).prop_map(|(len, depth, think_us)| Client { len, depth, think_us })
}

/// Under either order of connecting the one that had nothing is served first, though nothing waited for a moment.
#[test]
fn a_client_that_had_all_yields_to_one_that_had_nothing() {
    for limiter in LIMITERS {
        for first in [0, 1] {
            let mut world = World::new(Prices::default());
            world.limit("/a", "riops=10", limiter);
            let tasks = [world.task("/a"), world.task("/a")];
            let (had_all, had_nothing) = (tasks[first], tasks[1 - first]);
            let mut last = 0;
            for _ in 0..20 {
                last = world.submit(had_all, Op::Read, 4096).1;
            }
            world.wait_for(last);
            world.run(MS);
            assert_eq!(
                world.went.len(),
                20,
                "{limiter:?}: nothing waits, and the limit is in debt"
            );
            for task in [had_all, had_all, had_nothing] {
                world.submit(task, Op::Read, 4096);
            }
            world.run(1_000 * MS);
            let order: Vec<u64> = world.went[20..].iter().map(|&(_, tag)| tag - last).collect();
            assert_eq!(order, [3, 1, 2], "{limiter:?}, {first}");
        }
    }
}

fn scene() -> impl Strategy<Value = (LimiterKind, &'static str, Vec<Client>)> {
    let max = vec!["rbps=1M", "rbps=300K", "rwbps=500K", "riops=100", "riops=37 rbps=700K"];
    let clients = prop::collection::vec(client(), 2..5);
    (prop::sample::select(&LIMITERS[..]), prop::sample::select(max), clients)
}

/// Clients that think now and then leave the limit without anything that waits for a moment. What they had before counts
/// all the same.
#[test]
fn shares_do_not_depend_on_the_order_of_connecting() {
    let holds = |(limiter, max, clients): (LimiterKind, &str, Vec<Client>)| {
        let order: Vec<usize> = (0..clients.len()).collect();
        let back: Vec<usize> = order.iter().rev().copied().collect();
        let [one, other] = [&order, &back].map(|order| shares(limiter, max, &clients, order));
        let total: u64 = one.iter().sum();
        for client in order {
            let off = one[client].abs_diff(other[client]);
            // A client that is away when a turn comes does without it, and one that connects earlier is away at others.
            prop_assert!(off <= total / 10, "{one:?} {other:?}");
        }
        Ok(())
    };
    cases::run("shares_do_not_depend_on_the_order_of_connecting", 200, scene(), holds);
}
