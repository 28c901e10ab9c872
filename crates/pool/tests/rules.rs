//! The rules by which servers share a pool, each told in a few calls: what goes into the engine, and when.

use weir_engine::{Dimension, Instant};
use weir_pool::{
    Answer, Event, Grant, OnLoss, PoolSettings, Pools, Rates, Request, Revision, ServerSettings,
    Store, Usage,
};

const LEASE_MS: u32 = 3000;
const MS: u64 = 1_000_000;

fn riops(rate: u64) -> Rates {
    Rates::UNLIMITED.with(Dimension::Riops, rate)
}

fn server(now: Instant, name: &str, incarnation: u64, on_loss: OnLoss) -> Pools {
    let server = ServerSettings { name: name.into(), incarnation, lease_ms: LEASE_MS };
    let pool = PoolSettings {
        name: "acme".into(),
        limit: riops(900),
        floor: riops(0),
        weight: 100,
        on_loss,
    };
    Pools::new(now, server, vec![pool]).expect("settings that can be")
}

/// A server, what its engine was told last, and whether it reaches the store.
struct Member {
    pools: Pools,
    told: Option<Grant>,
    is_cut_off: bool,
    is_hungry: bool,
    clients: u32,
}

/// Servers before a store that answers at once.
struct Cluster {
    now: Instant,
    on_loss: OnLoss,
    value: Option<(Revision, Vec<u8>)>,
    revisions: u64,
    members: Vec<Member>,
}

impl Cluster {
    fn new(on_loss: OnLoss) -> Cluster {
        let now = Instant::from_millis(10_000);
        Cluster { now, on_loss, value: None, revisions: 0, members: Vec::new() }
    }

    /// A new server; or a new process of one, in its place.
    fn start(&mut self, at: usize) {
        let incarnation = 1000 + self.revisions;
        let pools = server(self.now, &format!("s{at}"), incarnation, self.on_loss);
        let member = Member { pools, told: None, is_cut_off: false, is_hungry: true, clients: 1 };
        match self.members.get_mut(at) {
            Some(old) => *old = member,
            None => self.members.push(member),
        }
    }

    fn with(on_loss: OnLoss, servers: usize) -> Cluster {
        let mut cluster = Cluster::new(on_loss);
        (0..servers).for_each(|at| cluster.start(at));
        // A lease and a half for the first table, and some refreshes.
        cluster.run(8000);
        cluster
    }

    /// Lets time pass, 10 ms at a time.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.now = self.now.plus_nanos(10 * MS);
            for at in 0..self.members.len() {
                self.turn(at);
            }
        }
    }

    fn turn(&mut self, at: usize) {
        let member = &mut self.members[at];
        let is_held = [member.is_hungry; Dimension::COUNT];
        let usage = Usage { used: Rates::ZERO, is_held, clients: member.clients };
        member.pools.handle_usage(self.now, 0, usage);
        member.pools.handle_timeout(self.now);
        loop {
            let member = &mut self.members[at];
            while let Some(grant) = member.pools.poll_grant() {
                member.told = Some(grant);
            }
            member.pools.handle_applied();
            let Some(request) = member.pools.poll_request(self.now) else { return };
            if !member.is_cut_off {
                self.answer(at, &request);
            }
        }
    }

    fn answer(&mut self, at: usize, request: &Request) {
        let pools = &mut self.members[at].pools;
        match &request.store {
            Store::Get => {
                let value = self.value.as_ref();
                let value = value.map(|(revision, bytes)| (*revision, &**bytes));
                pools.handle_answer(self.now, request.id, Answer::Value(value));
            }
            Store::Swap { expected, bytes } => {
                if *expected != self.value.as_ref().map(|(revision, _)| *revision) {
                    return pools.handle_answer(self.now, request.id, Answer::Refused);
                }
                self.revisions += 1;
                let revision = Revision(self.revisions);
                self.value = Some((revision, bytes.clone()));
                pools.handle_answer(self.now, request.id, Answer::Swapped(revision));
            }
        }
    }

    /// What each engine lets go now.
    fn rates(&self) -> Vec<u64> {
        let rates = self.members.iter().map(|member| {
            let Grant { rates, until, then, .. } = member.told.expect("it was told something");
            if self.now < until { rates[Dimension::Riops] } else { then[Dimension::Riops] }
        });
        rates.collect()
    }
}

#[test]
fn the_first_server_has_the_whole_limit_after_a_lease_and_a_half() {
    let mut cluster = Cluster::new(OnLoss::Strict);
    cluster.start(0);
    cluster.run(4400);
    assert_eq!(cluster.rates(), [0], "another server may hold what an empty store does not say");
    cluster.run(1200);
    assert_eq!(cluster.rates(), [900]);
}

#[test]
fn a_server_that_joins_has_its_part_within_four_refreshes() {
    let mut cluster = Cluster::with(OnLoss::Strict, 2);
    assert_eq!(cluster.rates(), [450, 450]);
    cluster.start(2);
    cluster.run(4 * 600);
    assert_eq!(cluster.rates(), [300, 300, 300]);
}

#[test]
fn servers_share_by_waiting_clients() {
    let mut cluster = Cluster::with(OnLoss::Strict, 2);
    cluster.members[1].clients = 3;
    cluster.run(4 * 600);
    assert_eq!(cluster.rates(), [225, 675]);
}

#[test]
fn what_is_not_used_is_lent_and_given_back() {
    let mut cluster = Cluster::with(OnLoss::Strict, 2);
    cluster.members[1].is_hungry = false;
    cluster.run(4 * 600);
    assert_eq!(cluster.rates(), [899, 1]);
    cluster.members[0].is_hungry = false;
    cluster.run(4 * 600);
    assert_eq!(cluster.rates(), [450, 450], "nobody wants it, so all may begin");
    cluster.members[1].is_hungry = true;
    cluster.run(4 * 600);
    assert_eq!(cluster.rates(), [1, 899]);
}

/// Polls a server up to a request to swap, which is answered by nothing.
fn swap(pools: &mut Pools, now: Instant, value: Option<(Revision, &[u8])>) -> Request {
    let get = pools.poll_request(now).expect("a refresh is due");
    pools.handle_answer(now, get.id, Answer::Value(value));
    while pools.poll_grant().is_some() {}
    pools.handle_applied();
    pools.poll_request(now).expect("a swap")
}

#[test]
fn a_rate_falls_in_the_engine_before_the_store_is_asked() {
    let mut cluster = Cluster::with(OnLoss::Strict, 1);
    let Member { mut pools, .. } = cluster.members.remove(0);
    cluster.start(0);
    // Another server came in between.
    let mut other = server(cluster.now, "t", 5, OnLoss::Strict);
    let usage = Usage { used: Rates::ZERO, is_held: [true; Dimension::COUNT], clients: 1 };
    other.handle_usage(cluster.now, 0, usage);
    let (revision, bytes) = cluster.value.clone().expect("a table");
    let Store::Swap { bytes, .. } = swap(&mut other, cluster.now, Some((revision, &bytes))).store
    else {
        panic!("it wants a row")
    };
    let now = cluster.now.plus_nanos(700 * MS);
    pools.handle_timeout(now);
    let get = pools.poll_request(now).expect("a refresh is due");
    pools.handle_answer(now, get.id, Answer::Value(Some((Revision(99), &bytes))));
    pools.handle_applied();
    assert_eq!(pools.poll_request(now), None, "a grant is to be put into the engine first");
    let grant = pools.poll_grant().expect("it falls");
    assert_eq!(grant.rates[Dimension::Riops], 450);
    assert_eq!(pools.poll_request(now), None, "it was polled, and nobody said that it is in force");
    pools.handle_applied();
    let swap = pools.poll_request(now).expect("now the store is asked");
    assert!(matches!(swap.store, Store::Swap { expected: Some(Revision(99)), .. }));
}

#[test]
fn a_rate_rises_only_when_the_store_has_it_and_holds_from_before_the_call() {
    let cluster = Cluster::with(OnLoss::Strict, 1);
    let (revision, bytes) = cluster.value.clone().expect("a table");
    let now = cluster.now;
    let mut joining = server(now, "t", 5, OnLoss::Share);
    while joining.poll_grant().is_some() {}
    // The one that was there is forgotten, so all of the limit is free.
    joining.forget(now, "s0");
    let swap = swap(&mut joining, now, Some((revision, &bytes)));
    assert_eq!(joining.poll_grant(), None);
    joining.handle_answer(now.plus_nanos(400 * MS), swap.id, Answer::Swapped(Revision(99)));
    let grant = joining.poll_grant().expect("it rises");
    assert_eq!(grant.rates[Dimension::Riops], 900);
    assert_eq!(grant.until, now.plus_nanos(u64::from(LEASE_MS) * MS));
}

#[test]
fn a_refused_swap_is_tried_again_four_times_and_then_later() {
    let cluster = Cluster::with(OnLoss::Strict, 1);
    let (_, bytes) = cluster.value.clone().expect("a table");
    let mut pools = server(cluster.now, "t", 5, OnLoss::Strict);
    for number in 1..=4 {
        let swap = swap(&mut pools, cluster.now, Some((Revision(100 + number), &bytes)));
        pools.handle_answer(cluster.now, swap.id, Answer::Refused);
    }
    assert_eq!(pools.poll_request(cluster.now), None);
    let at = pools.poll_timeout().expect("later");
    assert!(at > cluster.now && at <= cluster.now.plus_nanos(300 * MS));
}

#[test]
fn a_swap_whose_answer_was_lost_counts_once_it_is_read() {
    let mut cluster = Cluster::with(OnLoss::Strict, 1);
    let until = |cluster: &Cluster| cluster.members[0].told.expect("a grant").until;
    let before = until(&cluster);
    // One refresh whose answers are lost: the store does it all the same.
    let member = &mut cluster.members[0];
    let now = member.pools.poll_timeout().expect("a refresh");
    member.pools.handle_timeout(now);
    let (revision, bytes) = cluster.value.clone().expect("a table");
    let lost = swap(&mut member.pools, now, Some((revision, &bytes)));
    let Store::Swap { bytes, .. } = lost.store else { panic!("it was polled") };
    cluster.value = Some((Revision(77), bytes));
    cluster.revisions = 77;
    cluster.now = now;
    cluster.run(510);
    let member = &mut cluster.members[0];
    while let Some(grant) = member.pools.poll_grant() {
        member.told = Some(grant);
    }
    cluster.run(400);
    assert!(
        until(&cluster) > before && until(&cluster) >= now.plus_nanos(u64::from(LEASE_MS) * MS)
    );
}

#[test]
fn the_others_take_the_part_of_a_lost_server_or_keep_it_free() {
    for (on_loss, cut_off, others) in [
        (OnLoss::Strict, 300, [300, 300]),
        (OnLoss::Share, 300, [450, 450]),
        (OnLoss::Keep, 300, [300, 300]),
        (OnLoss::Open, Rates::NO_LIMIT, [450, 450]),
        (OnLoss::Limits(riops(7)), 7, [450, 450]),
    ] {
        let mut cluster = Cluster::with(on_loss, 3);
        assert_eq!(cluster.rates(), [300, 300, 300], "{on_loss:?}");
        cluster.members[0].is_cut_off = true;
        // A lease and a half, and a refresh of each.
        cluster.run(4500 + 1300);
        assert_eq!(cluster.rates(), [cut_off, others[0], others[1]], "{on_loss:?}");
        cluster.members[0].is_cut_off = false;
        cluster.run(5 * 600);
        assert_eq!(cluster.rates(), [300, 300, 300], "{on_loss:?}: it is back");
    }
}

#[test]
fn a_store_that_is_away_changes_nothing_for_a_lease_and_then_all_have_equal_parts() {
    for on_loss in [OnLoss::Strict, OnLoss::Share] {
        let mut cluster = Cluster::with(on_loss, 3);
        cluster.members[2].is_hungry = false;
        cluster.run(3000);
        assert_eq!(cluster.rates(), [449, 450, 1]);
        cluster.members.iter_mut().for_each(|member| member.is_cut_off = true);
        cluster.run(2300);
        assert_eq!(cluster.rates(), [449, 450, 1]);
        cluster.run(60_000);
        let last = if on_loss == OnLoss::Strict { 1 } else { 300 };
        assert_eq!(cluster.rates(), [300, 300, last], "{on_loss:?}");
        cluster.members.iter_mut().for_each(|member| member.is_cut_off = false);
        cluster.run(3000);
        assert_eq!(cluster.rates(), [449, 450, 1], "{on_loss:?}: nobody was taken for lost");
    }
}

#[test]
fn a_table_that_is_lost_is_written_anew_and_no_rate_rises_meanwhile() {
    let mut cluster = Cluster::with(OnLoss::Strict, 3);
    cluster.value = None;
    cluster.members[0].is_hungry = false;
    for _ in 0..42 {
        cluster.run(100);
        let rates = cluster.rates();
        assert!(rates[1] <= 300 && rates[2] <= 300, "{rates:?}");
    }
    let is_lost = |event| matches!(event, Event::TableLost);
    assert!(
        cluster.members.iter_mut().any(|member| member.pools.poll_event().is_some_and(is_lost))
    );
    cluster.run(2500);
    assert_eq!(cluster.rates(), [1, 449, 450]);
}

/// The store lost its table, and one of those that had a part has not come back: it may hold more than is known.
#[test]
fn a_strict_pool_waits_for_servers_that_a_lost_table_had_until_they_are_forgotten() {
    let mut cluster = Cluster::with(OnLoss::Strict, 3);
    cluster.members[0].is_cut_off = true;
    cluster.value = None;
    cluster.members[1].is_hungry = false;
    cluster.run(20_000);
    assert_eq!(cluster.rates(), [300, 1, 300], "nobody rises");
    let now = cluster.now;
    cluster.members[2].pools.forget(now, "s0");
    cluster.run(2500);
    assert_eq!(cluster.rates()[1..], [1, 899]);
}

#[test]
fn a_server_that_leaves_gives_up_its_part_at_once() {
    let mut cluster = Cluster::with(OnLoss::Strict, 3);
    let now = cluster.now;
    cluster.members[0].pools.leave(now);
    cluster.run(10);
    assert_eq!(cluster.rates()[0], 0);
    assert!(cluster.members[0].pools.has_left());
    cluster.run(2 * 600);
    assert_eq!(cluster.rates(), [0, 450, 450]);
}

#[test]
fn a_restarted_server_takes_over_its_row() {
    let mut cluster = Cluster::with(OnLoss::Strict, 3);
    cluster.start(1);
    cluster.run(20);
    assert_eq!(cluster.rates(), [300, 300, 300]);
}

#[test]
fn a_process_whose_name_another_one_takes_holds_nothing_any_more() {
    let mut cluster = Cluster::with(OnLoss::Strict, 1);
    let Member { pools, .. } = cluster.members.remove(0);
    cluster.start(0);
    cluster.run(20);
    let mut old = Member { pools, told: None, is_cut_off: false, is_hungry: true, clients: 1 };
    cluster.members[0].is_cut_off = true;
    std::mem::swap(&mut cluster.members[0], &mut old);
    cluster.run(700);
    assert_eq!(cluster.rates(), [0]);
    assert_eq!(cluster.members[0].pools.poll_event(), Some(Event::Replaced));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let now = Instant::ZERO;
    let pool = |name: &str| PoolSettings {
        name: name.into(),
        limit: riops(1),
        floor: riops(0),
        weight: 1,
        on_loss: OnLoss::Strict,
    };
    let new = |name: &str, lease_ms, pools| {
        let server = ServerSettings { name: name.into(), incarnation: 1, lease_ms };
        Pools::new(now, server, pools).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(new("a", 60, vec![pool("p"), pool("q")]), Ok(()));
    for (refused, wanted) in [
        (new("", 60, vec![]), "\"\" has 0 bytes, a name has 1 to 255"),
        (new("a", 59, vec![]), "a lease of 59 ms is too short, at least 60 are needed"),
        (new("a", 60, vec![pool("p"), pool("p")]), "pool \"p\" is there twice"),
        (
            new("a", 60, vec![PoolSettings { weight: 0, ..pool("p") }]),
            "pool \"p\": a weight of 0 is none",
        ),
    ] {
        assert_eq!(refused.as_ref().map_err(String::as_str), Err(wanted));
    }
}
