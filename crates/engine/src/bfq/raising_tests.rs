use super::super::calm::Arrival;
use super::*;

const TERMS: Terms = Terms { enabled: true, interactive_ms: 10_500, slice_idle_ns: 8 * MS };

/// A task's own flow that reads, alone, and has never had a request before.
const FIRST: Arrival = Arrival {
    last_end: Instant::ZERO,
    is_in_flight: false,
    is_sync: true,
    is_all_seeks: false,
    is_of_one_task: true,
};

/// A flow that was there before.
const OLD: Raise = {
    let mut old = NEW;
    old.calm.paced_to = Instant::from_nanos(1);
    old
};

/// One that did nothing yet.
const NEW: Raise = Raise { calm: Calm::NEW, period: Period::NONE };

fn soft_from(at: Instant, mut raise: Raise) -> Raise {
    raise.calm.soft_from = at;
    raise
}

fn in_burst(mut raise: Raise) -> Raise {
    raise.calm.set_in_large_burst(true);
    raise
}

/// Does with what is kept of a flow what `change` does.
fn kept(raise: &mut Raise, change: impl FnOnce(&mut Calm)) {
    let (mut calm, mut periods) = (raise.calm, Periods::default());
    raise.keep(&mut calm, &mut periods);
    change(&mut calm);
    *raise = Raise::of(&calm, &periods);
    raise.calm.set_place(Calm::NOT_RAISED);
}

fn charge(raise: &mut Raise, bytes: u64) {
    kept(raise, |calm| calm.charge(bytes));
}

fn rest(raise: &mut Raise, at: Instant) {
    kept(raise, |calm| calm.rest(at, &TERMS));
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Back after its last request was completed at `since` ms.
fn back(since: u64) -> Arrival {
    Arrival { last_end: ms(since), ..FIRST }
}

fn arrive(raise: &mut Raise, at: u64, arrival: &Arrival) -> bool {
    arrive_as(raise, ms(at), arrival, &TERMS, LowLatency::Auto)
}

fn arrive_as(
    raise: &mut Raise,
    now: Instant,
    arrival: &Arrival,
    terms: &Terms,
    policy: LowLatency,
) -> bool {
    let mut beginning = None;
    kept(raise, |calm| beginning = calm.arrive(now, arrival, terms));
    beginning.is_some_and(|beginning| raise.begin(now, beginning, terms, policy))
}

/// Whether the level is another after a dispatch at `at`.
fn review(raise: &mut Raise, at: Instant, terms: &Terms) -> bool {
    let (before, is_due) = (*raise, raise.is_due(at, 0, terms));
    raise.review(at, 0, terms);
    assert_eq!(*raise != before, is_due);
    raise.level() != before.level()
}

/// Raised as interactive since `since` ms.
fn interactive(since: u64) -> Raise {
    let mut raise = NEW;
    assert!(arrive(&mut raise, since, &FIRST));
    assert_eq!(raise.level(), Level::Interactive);
    raise
}

/// Raised as soft real-time since `since` ms, out of nothing.
fn soft(since: u64) -> Raise {
    let mut raise = soft_from(ms(since - 1), OLD);
    assert!(arrive(&mut raise, since, &back(since - 20)));
    assert_eq!(raise.level(), Level::SoftRealTime);
    raise
}

#[test]
fn the_period_is_as_long_as_a_start_takes() {
    // spec/bfq EX-16.
    let table = [
        (9333, true, 10_500),
        (9581, true, 10_228),
        (14_000, true, 7_000),
        (22_000, false, 3_750),
        (33_000, false, 3_000),
        (4_000, true, 24_500),
        (3_000, true, 25_000),
        (1, true, 25_000),
        (0, false, 25_000),
        (u32::MAX, true, 3_000),
    ];
    for (rate, rotational, millis) in table {
        assert_eq!(interactive_ms(rate, rotational), millis, "{rate}, {rotational}");
    }
}

#[test]
fn who_wants_little_and_comes_late_is_soft_real_time() {
    // spec/bfq EX-17: busy since 1,000 ms, 700 sectors, no request left at 1,020 ms.
    for (at, level) in [(1100, Level::Plain), (1101, Level::SoftRealTime)] {
        let mut raise = OLD;
        raise.calm.soft_from = ms(1000);
        assert!(!arrive(&mut raise, 1000, &back(990)));
        charge(&mut raise, 700 * 512);
        rest(&mut raise, ms(1020));
        assert_eq!(raise.calm.soft_from, ms(1100));
        assert_eq!(arrive(&mut raise, at, &back(1020)), level != Level::Plain);
        assert_eq!(raise.level(), level, "at {at} ms");
    }
}

#[test]
fn who_comes_back_at_once_is_not_soft_real_time() {
    // 1,032 ms: idling and the slack are longer than 7 sectors take at the pace of soft real-time.
    let mut raise = OLD;
    raise.calm.soft_from = ms(1000);
    arrive(&mut raise, 1000, &back(990));
    charge(&mut raise, 7 * 512);
    rest(&mut raise, ms(1020));
    assert_eq!(raise.calm.soft_from, ms(1032));
    // A later rest never makes it earlier.
    raise.calm.soft_from = ms(5000);
    rest(&mut raise, ms(1021));
    assert_eq!(raise.calm.soft_from, ms(5000));
}

#[test]
fn small_requests_do_not_run_ahead_of_the_pace() {
    let mut raise = NEW;
    (0..7000).for_each(|_| charge(&mut raise, 512));
    let late = raise.calm.paced_to.nanos_since(ms(1000));
    assert!((0..7000).contains(&late), "{late} ns");
}

#[test]
fn raising_begins_by_what_a_flow_does() {
    // Table of spec/bfq 6.5 at 30 s, for a flow whose soft real-time would begin at 29 s or 31 s.
    let (sync, auto) = (FIRST, LowLatency::Auto);
    let (early, late) = (ms(29_000), ms(31_000));
    let (none, some, most) = (Level::Plain, Level::Interactive, Level::SoftRealTime);
    let burst = in_burst;
    let seeks = |arrival| Arrival { is_all_seeks: true, ..arrival };
    let writes = |arrival| Arrival { is_sync: false, ..arrival };
    let shared = |arrival| Arrival { is_of_one_task: false, ..arrival };
    let under_way = |arrival| Arrival { is_in_flight: true, ..arrival };
    let new = NEW;
    let table = [
        ("new", new, sync, late, auto, some),
        ("new and soft", new, sync, early, auto, some),
        ("away for 2 s", OLD, back(28_000), late, auto, none),
        ("away for longer", OLD, back(27_999), late, auto, some),
        ("soft only", OLD, back(28_000), early, auto, most),
        ("soft, from this moment", OLD, back(28_000), ms(30_000), auto, none),
        ("soft, but all seeks", OLD, seeks(back(28_000)), early, auto, none),
        ("new, all seeks", new, seeks(sync), early, auto, some),
        ("under way", OLD, under_way(back(20_000)), early, auto, none),
        ("writeback (spec/bfq D-22)", new, writes(sync), early, auto, none),
        ("writeback after a pause (spec/bfq D-22)", OLD, writes(back(9_000)), early, auto, none),
        ("shared", new, shared(sync), early, auto, none),
        ("in a burst", burst(new), sync, early, auto, none),
        ("in a burst 10 s ago", burst(OLD), back(20_000), early, auto, none),
        ("in a burst before", burst(OLD), back(19_999), early, auto, some),
        ("in a burst, by policy", burst(new), sync, late, LowLatency::Interactive, some),
        ("never", new, sync, early, LowLatency::Never, none),
    ];
    for (name, raise, arrival, from, policy, level) in table {
        let raise = soft_from(from, raise);
        let (mut on, mut off) = (raise, raise);
        let begins = arrive_as(&mut on, ms(30_000), &arrival, &TERMS, policy);
        assert_eq!((on.level(), begins), (level, level != none), "{name}");
        assert!(!begins || on.period.since == ms(30_000), "{name}");
        let terms = Terms { enabled: false, ..TERMS };
        assert!(!arrive_as(&mut off, ms(30_000), &arrival, &terms, policy), "{name}");
        assert_eq!(off.level(), none, "{name}");
    }
}

/// Of who joins others before its first request comes, the raising that it would have got is put aside (spec/bfq 7.6);
/// who has been with others has had its own, also if nothing came since.
#[test]
fn who_has_parted_is_not_newborn() {
    assert!(NEW.is_newborn() && !OLD.is_newborn());
    let mut raise = NEW;
    raise.restore(ms(3), &NEW.saved());
    assert!(raise.is_newborn(), "it has joined, and nothing else");
    raise.part(ms(5_000));
    assert!(!raise.is_newborn());
    let mut raise = NEW;
    kept(&mut raise, |calm| {
        calm.arrive(ms(0), &FIRST, &TERMS);
    });
    assert!(!raise.is_newborn());
}

#[test]
fn who_has_parted_is_not_soft_real_time_for_a_while() {
    for (at, level) in [(7_000, Level::Plain), (7_001, Level::SoftRealTime)] {
        let mut raise = soft_from(ms(1), OLD);
        raise.part(ms(5_000));
        arrive(&mut raise, at, &back(6_500));
        assert_eq!(raise.level(), level, "at {at} ms");
    }
}

#[test]
fn raised_flows_are_told_anew_when_they_begin_again() {
    // At 9 s, all of them.
    let again_as = |mut raise: Raise, arrival: Arrival, from: u64, policy| {
        raise.calm.soft_from = ms(from);
        charge(&mut raise, 4096);
        assert!(!arrive_as(&mut raise, ms(9_000), &arrival, &TERMS, policy), "it was raised");
        (raise.level(), raise.period.since, raise.period.interactive_since, raise.calm.served)
    };
    let again = |raise, arrival, from| again_as(raise, arrival, from, LowLatency::Auto);
    let (some, most, now) = (Level::Interactive, Level::SoftRealTime, ms(9_000));
    // After a pause: all anew, but for the service.
    assert_eq!(again(interactive(1_000), back(6_000), 20_000), (some, now, NEVER, 4096));
    assert_eq!(again(soft(1_000), back(6_000), 0), (some, now, NEVER, 4096));
    // Modest: soft real-time in the middle of the interactive period.
    assert_eq!(again(interactive(1_000), back(8_900), 8_999), (most, now, ms(1_000), 4096));
    assert_eq!(again(soft(8_000), back(8_900), 8_999), (most, now, NEVER, 4096));
    // Neither: as it was. Also if it is shared meanwhile, or asynchronous.
    assert_eq!(again(interactive(1_000), back(8_900), 9_000), (some, ms(1_000), NEVER, 4096));
    let shared = Arrival { is_of_one_task: false, is_sync: false, ..back(6_000) };
    assert_eq!(again(interactive(1_000), shared, 9_000), (some, now, NEVER, 4096));
    // A burst, or the policy, ends it.
    let burst = in_burst(interactive(1_000));
    assert_eq!(again(burst, back(6_000), 0).0, Level::Plain);
    let never = again_as(soft(8_000), back(6_000), 0, LowLatency::Never);
    assert_eq!(never.0, Level::Plain);
}

#[test]
fn interactive_ends_with_its_time() {
    let mut raise = interactive(1_000);
    assert!(!review(&mut raise, ms(11_500), &TERMS));
    assert!(review(&mut raise, ms(11_500).plus_nanos(1), &TERMS));
    assert_eq!(raise.level(), Level::Plain);
    assert_eq!(raise.calm.soft_from, ms(11_500).plus_nanos(1));
    assert!(!review(&mut raise, ms(12_000), &TERMS));
}

#[test]
fn interactive_ends_with_its_service() {
    let mut raise = interactive(1_000);
    charge(&mut raise, SERVED_MAX - 512);
    raise.review(ms(1_500), 512, &TERMS);
    assert!(raise.is_raised());
    charge(&mut raise, 512);
    assert!(!review(&mut raise, ms(1_500), &TERMS), "120,000 sectors are not too many");
    charge(&mut raise, 512);
    assert!(review(&mut raise, ms(1_500), &TERMS));
    assert_eq!(raise.level(), Level::Plain);
    // The next time it has all of it again.
    assert!(arrive(&mut raise, 9_000, &back(2_000)));
    assert_eq!(raise.calm.served, 0);
}

#[test]
fn soft_real_time_ends_with_its_time() {
    let mut raise = soft(1_000);
    assert!(!review(&mut raise, ms(1_300), &TERMS));
    // Service does not count.
    charge(&mut raise, SERVED_MAX + 512);
    assert!(!review(&mut raise, ms(1_300), &TERMS));
    assert!(review(&mut raise, ms(1_301), &TERMS));
    assert_eq!(raise.level(), Level::Plain);
}

/// Interactive since 1 s, and soft real-time since `since` ms.
fn both(since: u64) -> Raise {
    let mut raise = interactive(1_000);
    raise.calm.soft_from = ms(since - 1);
    arrive(&mut raise, since, &back(since - 20));
    assert_eq!((raise.level(), raise.period.interactive_since), (Level::SoftRealTime, ms(1_000)));
    raise
}

#[test]
fn soft_real_time_falls_back_to_what_is_left() {
    let mut raise = both(9_000);
    assert!(review(&mut raise, ms(9_301), &TERMS));
    assert_eq!((raise.level(), raise.period.since), (Level::Interactive, ms(1_000)));
    assert!(!review(&mut raise, ms(11_500), &TERMS));
    assert!(review(&mut raise, ms(11_501), &TERMS));
    assert_eq!(raise.level(), Level::Plain);

    let mut raise = both(11_300);
    assert!(review(&mut raise, ms(11_601), &TERMS), "both are over");
    assert_eq!(raise.level(), Level::Plain);

    // Back to interactive, and out of it for its service, in one step.
    let mut raise = both(9_000);
    charge(&mut raise, SERVED_MAX + 512);
    assert!(review(&mut raise, ms(9_301), &TERMS));
    assert_eq!(raise.level(), Level::Plain);
}

#[test]
fn seeks_end_soft_real_time_only() {
    let mut raise = both(9_000);
    raise.stray(ms(9_001), &TERMS);
    assert_eq!(raise.level(), Level::Interactive);
    raise.stray(ms(9_002), &TERMS);
    assert_eq!(raise.level(), Level::Interactive);
    let mut raise = soft(9_000);
    raise.stray(ms(9_001), &TERMS);
    assert_eq!(raise.level(), Level::Plain);
}

#[test]
fn all_ends_in_a_burst_and_without_low_latency() {
    let off = Terms { enabled: false, ..TERMS };
    for raise in [interactive(1_000), soft(1_000), both(9_000)] {
        let mut bursting = in_burst(raise);
        assert!(review(&mut bursting, ms(9_001), &TERMS));
        let mut raise = raise;
        assert!(review(&mut raise, ms(9_001), &off));
        assert_eq!([bursting.level(), raise.level()], [Level::Plain; 2]);
        assert_eq!(raise.level().factor(), 1);
    }
}

#[test]
fn waiting_for_the_device_does_not_count_as_soft_real_time() {
    // It began at 1,000 ms and was not served: the period begins with its service.
    let mut raise = soft(1_000);
    raise.select(ms(1_250), ms(980));
    assert_eq!(raise.period.since, ms(1_250));
    // Served until 1,300 ms, waiting until 1,800 ms.
    raise.select(ms(1_800), ms(1_300));
    assert_eq!(raise.period.since, ms(1_750));
    // An interactive period is not prolonged.
    let mut raise = interactive(1_000);
    raise.select(ms(1_250), ms(980));
    assert_eq!(raise.period.since, ms(1_000));
}

#[test]
fn how_long_a_level_lasts_is_known() {
    let mut raise = both(9_000);
    assert_eq!(ms(9_100).nanos_since(raise.level_since()), 100 * MS);
    raise.calm.soft_from = ms(9_100);
    arrive(&mut raise, 9_200, &back(9_100));
    assert_eq!(
        ms(9_300).nanos_since(raise.level_since()),
        300 * MS,
        "told anew, and still the same"
    );
    raise.review(ms(9_600), 0, &TERMS);
    assert_eq!(
        (raise.level(), ms(9_600).nanos_since(raise.level_since())),
        (Level::Interactive, 0)
    );
}

#[test]
fn what_is_put_aside_comes_back() {
    for raise in [interactive(1_000), soft(1_000), both(9_000)] {
        let mut other = soft_from(raise.calm.soft_from, soft(77));
        other.calm.paced_to = raise.calm.paced_to;
        other.restore(ms(9_500), &raise.saved());
        other.period.level_since = raise.period.level_since;
        other.calm.paced_to = raise.calm.paced_to;
        assert_eq!(other, raise);
        other.restore(ms(9_600), &OLD.saved());
        assert_eq!((other.level(), other.period.duration_ms), (Level::Plain, 0));
    }
}

#[test]
fn equal_and_late_instants_are_harmless() {
    for at in [Instant::ZERO, ms(1), Instant::FAR_FUTURE] {
        let mut raise = NEW;
        arrive_as(&mut raise, at, &FIRST, &TERMS, LowLatency::Auto);
        raise.select(at, at);
        charge(&mut raise, u64::from(u32::MAX));
        charge(&mut raise, u64::from(u32::MAX));
        raise.review(at, u64::MAX, &TERMS);
        rest(&mut raise, at);
        let again = Arrival { last_end: at, ..FIRST };
        arrive_as(&mut raise, at, &again, &TERMS, LowLatency::Auto);
        assert!(raise.calm.soft_from >= at);
    }
}

#[test]
fn policies_have_names() {
    for policy in LowLatency::ALL {
        assert_eq!(LowLatency::from_name(policy.name()), Some(policy));
    }
    assert_eq!(LowLatency::from_name("40"), None);
}
