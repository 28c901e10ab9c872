use super::*;

const PARAMS: WrParams = WrParams { enabled: true, interactive_ms: 10_500, slice_idle_ns: 8 * MS };

/// A task's own flow that reads, alone, and has never had a request before.
const FIRST: Activation = Activation {
    last_end: Instant::ZERO,
    is_in_flight: false,
    is_sync: true,
    is_all_seeks: false,
    is_of_one_task: true,
};

/// A flow that was there before.
const OLD: WeightRaising = {
    let mut old = NEW;
    old.detection.soft_rt_paced_until = Instant::from_nanos(1);
    old
};

/// One that did nothing yet.
const NEW: WeightRaising = WeightRaising { detection: WrDetection::NEW, period: WrPeriod::NONE };

fn soft_rt_next_start(at: Instant, mut raising: WeightRaising) -> WeightRaising {
    raising.detection.soft_rt_next_start = at;
    raising
}

fn in_burst(mut raising: WeightRaising) -> WeightRaising {
    raising.detection.set_in_large_burst(true);
    raising
}

/// Does with what is kept of a flow what `change` does.
fn kept(raising: &mut WeightRaising, change: impl FnOnce(&mut WrDetection)) {
    let (mut detection, mut periods) = (raising.detection, WrPeriods::default());
    raising.keep(&mut detection, &mut periods);
    change(&mut detection);
    *raising = WeightRaising::of(&detection, &periods);
    raising.detection.set_place(WrDetection::NOT_RAISED);
}

fn charge(raising: &mut WeightRaising, bytes: u64) {
    kept(raising, |detection| detection.charge(bytes));
}

fn rest(raising: &mut WeightRaising, at: Instant) {
    kept(raising, |detection| detection.update_soft_rt_next_start(at, &PARAMS));
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

/// Back after its last request was completed at `since` ms.
fn back(since: u64) -> Activation {
    Activation { last_end: ms(since), ..FIRST }
}

fn arrive(raising: &mut WeightRaising, at: u64, activation: &Activation) -> bool {
    arrive_as(raising, ms(at), activation, &PARAMS, LowLatency::Auto)
}

fn arrive_as(
    raising: &mut WeightRaising,
    now: Instant,
    activation: &Activation,
    wr_params: &WrParams,
    policy: LowLatency,
) -> bool {
    let mut trigger = None;
    kept(raising, |detection| trigger = detection.arrive(now, activation, wr_params));
    trigger.is_some_and(|trigger| raising.begin(now, trigger, wr_params, policy))
}

/// Whether the level is another after a dispatch at `at`.
fn update(raising: &mut WeightRaising, at: Instant, wr_params: &WrParams) -> bool {
    let (before, needs_update) = (*raising, raising.needs_update(at, 0, wr_params));
    raising.update(at, 0, wr_params);
    assert_eq!(*raising != before, needs_update);
    raising.state() != before.state()
}

/// Raised as interactive since `since` ms.
fn interactive(since: u64) -> WeightRaising {
    let mut raising = NEW;
    assert!(arrive(&mut raising, since, &FIRST));
    assert_eq!(raising.state(), WrState::Interactive);
    raising
}

/// Raised as soft real-time since `since` ms, out of nothing.
fn soft(since: u64) -> WeightRaising {
    let mut raising = soft_rt_next_start(ms(since - 1), OLD);
    assert!(arrive(&mut raising, since, &back(since - 20)));
    assert_eq!(raising.state(), WrState::SoftRealTime);
    raising
}

#[test]
fn an_interactive_period_is_as_long_as_the_largest_start() {
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
fn a_flow_that_wants_little_and_comes_late_is_soft_real_time() {
    // spec/bfq EX-17: busy since 1,000 ms, 700 sectors, no request left at 1,020 ms.
    for (at, state) in [(1100, WrState::NotRaised), (1101, WrState::SoftRealTime)] {
        let mut raising = OLD;
        raising.detection.soft_rt_next_start = ms(1000);
        assert!(!arrive(&mut raising, 1000, &back(990)));
        charge(&mut raising, 700 * 512);
        rest(&mut raising, ms(1020));
        assert_eq!(raising.detection.soft_rt_next_start, ms(1100));
        assert_eq!(arrive(&mut raising, at, &back(1020)), state != WrState::NotRaised);
        assert_eq!(raising.state(), state, "at {at} ms");
    }
}

#[test]
fn a_flow_that_comes_back_at_once_is_not_soft_real_time() {
    // 1,032 ms: idling and the slack are longer than 7 sectors take at the pace of soft real-time.
    let mut raising = OLD;
    raising.detection.soft_rt_next_start = ms(1000);
    arrive(&mut raising, 1000, &back(990));
    charge(&mut raising, 7 * 512);
    rest(&mut raising, ms(1020));
    assert_eq!(raising.detection.soft_rt_next_start, ms(1032));
    // A later rest never makes it earlier.
    raising.detection.soft_rt_next_start = ms(5000);
    rest(&mut raising, ms(1021));
    assert_eq!(raising.detection.soft_rt_next_start, ms(5000));
}

#[test]
fn small_requests_do_not_run_ahead_of_the_pace() {
    let mut raising = NEW;
    (0..7000).for_each(|_| charge(&mut raising, 512));
    let late = raising.detection.soft_rt_paced_until.nanos_since(ms(1000));
    assert!((0..7000).contains(&late), "{late} ns");
}

#[test]
fn raising_begins_by_what_a_flow_does() {
    // Table of spec/bfq 6.5 at 30 s, for a flow whose soft real-time would begin at 29 s or 31 s.
    let (sync, auto) = (FIRST, LowLatency::Auto);
    let (early, late) = (ms(29_000), ms(31_000));
    let (none, some, most) = (WrState::NotRaised, WrState::Interactive, WrState::SoftRealTime);
    let burst = in_burst;
    let seeks = |activation| Activation { is_all_seeks: true, ..activation };
    let writes = |activation| Activation { is_sync: false, ..activation };
    let shared = |activation| Activation { is_of_one_task: false, ..activation };
    let under_way = |activation| Activation { is_in_flight: true, ..activation };
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
    for (name, raising, activation, from, policy, state) in table {
        let raising = soft_rt_next_start(from, raising);
        let (mut on, mut off) = (raising, raising);
        let begins = arrive_as(&mut on, ms(30_000), &activation, &PARAMS, policy);
        assert_eq!((on.state(), begins), (state, state != none), "{name}");
        assert!(!begins || on.period.since == ms(30_000), "{name}");
        let wr_params = WrParams { enabled: false, ..PARAMS };
        assert!(!arrive_as(&mut off, ms(30_000), &activation, &wr_params, policy), "{name}");
        assert_eq!(off.state(), none, "{name}");
    }
}

/// A flow that merges before its first request saves the raising that it would have got (spec/bfq 7.6). A flow that was
/// split off has had its raising, even without a request since.
#[test]
fn a_split_flow_is_not_newborn() {
    assert!(NEW.is_newborn() && !OLD.is_newborn());
    let mut raising = NEW;
    raising.restore(ms(3), &NEW.saved());
    assert!(raising.is_newborn(), "it has joined, and nothing else");
    raising.note_split(ms(5_000));
    assert!(!raising.is_newborn());
    let mut raising = NEW;
    kept(&mut raising, |detection| {
        detection.arrive(ms(0), &FIRST, &PARAMS);
    });
    assert!(!raising.is_newborn());
}

#[test]
fn a_split_flow_is_not_soft_real_time_for_a_while() {
    for (at, state) in [(7_000, WrState::NotRaised), (7_001, WrState::SoftRealTime)] {
        let mut raising = soft_rt_next_start(ms(1), OLD);
        raising.note_split(ms(5_000));
        arrive(&mut raising, at, &back(6_500));
        assert_eq!(raising.state(), state, "at {at} ms");
    }
}

#[test]
fn raised_flows_are_judged_anew_when_they_become_backlogged() {
    // At 9 s, all of them.
    let again_as = |mut raising: WeightRaising, activation: Activation, from: u64, policy| {
        raising.detection.soft_rt_next_start = ms(from);
        charge(&mut raising, 4096);
        assert!(!arrive_as(&mut raising, ms(9_000), &activation, &PARAMS, policy), "it was raised");
        (
            raising.state(),
            raising.period.since,
            raising.period.interactive_since,
            raising.detection.served,
        )
    };
    let again = |raising, activation, from| again_as(raising, activation, from, LowLatency::Auto);
    let (some, most, now) = (WrState::Interactive, WrState::SoftRealTime, ms(9_000));
    // After a pause: all anew, but for the service.
    assert_eq!(again(interactive(1_000), back(6_000), 20_000), (some, now, NEVER, 4096));
    assert_eq!(again(soft(1_000), back(6_000), 0), (some, now, NEVER, 4096));
    // Modest: soft real-time in the middle of the interactive period.
    assert_eq!(again(interactive(1_000), back(8_900), 8_999), (most, now, ms(1_000), 4096));
    assert_eq!(again(soft(8_000), back(8_900), 8_999), (most, now, NEVER, 4096));
    // Neither: as it was. Also if it is shared meanwhile, or asynchronous.
    assert_eq!(again(interactive(1_000), back(8_900), 9_000), (some, ms(1_000), NEVER, 4096));
    let shared = Activation { is_of_one_task: false, is_sync: false, ..back(6_000) };
    assert_eq!(again(interactive(1_000), shared, 9_000), (some, now, NEVER, 4096));
    // A burst, or the policy, ends it.
    let burst = in_burst(interactive(1_000));
    assert_eq!(again(burst, back(6_000), 0).0, WrState::NotRaised);
    let never = again_as(soft(8_000), back(6_000), 0, LowLatency::Never);
    assert_eq!(never.0, WrState::NotRaised);
}

#[test]
fn interactive_ends_with_its_time() {
    let mut raising = interactive(1_000);
    assert!(!update(&mut raising, ms(11_500), &PARAMS));
    assert!(update(&mut raising, ms(11_500).plus_nanos(1), &PARAMS));
    assert_eq!(raising.state(), WrState::NotRaised);
    assert_eq!(raising.detection.soft_rt_next_start, ms(11_500).plus_nanos(1));
    assert!(!update(&mut raising, ms(12_000), &PARAMS));
}

#[test]
fn interactive_ends_with_its_service() {
    let mut raising = interactive(1_000);
    charge(&mut raising, SERVED_MAX - 512);
    raising.update(ms(1_500), 512, &PARAMS);
    assert!(raising.is_raised());
    charge(&mut raising, 512);
    assert!(!update(&mut raising, ms(1_500), &PARAMS), "120,000 sectors are not too many");
    charge(&mut raising, 512);
    assert!(update(&mut raising, ms(1_500), &PARAMS));
    assert_eq!(raising.state(), WrState::NotRaised);
    // The next time it has all of it again.
    assert!(arrive(&mut raising, 9_000, &back(2_000)));
    assert_eq!(raising.detection.served, 0);
}

#[test]
fn soft_real_time_ends_with_its_time() {
    let mut raising = soft(1_000);
    assert!(!update(&mut raising, ms(1_300), &PARAMS));
    // Service does not count.
    charge(&mut raising, SERVED_MAX + 512);
    assert!(!update(&mut raising, ms(1_300), &PARAMS));
    assert!(update(&mut raising, ms(1_301), &PARAMS));
    assert_eq!(raising.state(), WrState::NotRaised);
}

/// Interactive since 1 s, and soft real-time since `since` ms.
fn both(since: u64) -> WeightRaising {
    let mut raising = interactive(1_000);
    raising.detection.soft_rt_next_start = ms(since - 1);
    arrive(&mut raising, since, &back(since - 20));
    assert_eq!(
        (raising.state(), raising.period.interactive_since),
        (WrState::SoftRealTime, ms(1_000))
    );
    raising
}

#[test]
fn soft_real_time_falls_back_to_what_is_left() {
    let mut raising = both(9_000);
    assert!(update(&mut raising, ms(9_301), &PARAMS));
    assert_eq!((raising.state(), raising.period.since), (WrState::Interactive, ms(1_000)));
    assert!(!update(&mut raising, ms(11_500), &PARAMS));
    assert!(update(&mut raising, ms(11_501), &PARAMS));
    assert_eq!(raising.state(), WrState::NotRaised);

    let mut raising = both(11_300);
    assert!(update(&mut raising, ms(11_601), &PARAMS), "both are over");
    assert_eq!(raising.state(), WrState::NotRaised);

    // Back to interactive, and out of it for its service, in one step.
    let mut raising = both(9_000);
    charge(&mut raising, SERVED_MAX + 512);
    assert!(update(&mut raising, ms(9_301), &PARAMS));
    assert_eq!(raising.state(), WrState::NotRaised);
}

#[test]
fn seeks_end_soft_real_time_only() {
    let mut raising = both(9_000);
    raising.demote_seeky(ms(9_001), &PARAMS);
    assert_eq!(raising.state(), WrState::Interactive);
    raising.demote_seeky(ms(9_002), &PARAMS);
    assert_eq!(raising.state(), WrState::Interactive);
    let mut raising = soft(9_000);
    raising.demote_seeky(ms(9_001), &PARAMS);
    assert_eq!(raising.state(), WrState::NotRaised);
}

#[test]
fn all_ends_in_a_burst_and_without_low_latency() {
    let off = WrParams { enabled: false, ..PARAMS };
    for raising in [interactive(1_000), soft(1_000), both(9_000)] {
        let mut bursting = in_burst(raising);
        assert!(update(&mut bursting, ms(9_001), &PARAMS));
        let mut raising = raising;
        assert!(update(&mut raising, ms(9_001), &off));
        assert_eq!([bursting.state(), raising.state()], [WrState::NotRaised; 2]);
        assert_eq!(raising.state().wr_coeff(), 1);
    }
}

#[test]
fn waiting_for_the_device_does_not_count_as_soft_real_time() {
    // It began at 1,000 ms and was not served: the period begins with its service.
    let mut raising = soft(1_000);
    raising.select(ms(1_250), ms(980));
    assert_eq!(raising.period.since, ms(1_250));
    // Served until 1,300 ms, waiting until 1,800 ms.
    raising.select(ms(1_800), ms(1_300));
    assert_eq!(raising.period.since, ms(1_750));
    // An interactive period is not prolonged.
    let mut raising = interactive(1_000);
    raising.select(ms(1_250), ms(980));
    assert_eq!(raising.period.since, ms(1_000));
}

#[test]
fn the_begin_of_a_state_is_kept_across_its_periods() {
    let mut raising = both(9_000);
    assert_eq!(ms(9_100).nanos_since(raising.state_since()), 100 * MS);
    raising.detection.soft_rt_next_start = ms(9_100);
    arrive(&mut raising, 9_200, &back(9_100));
    assert_eq!(
        ms(9_300).nanos_since(raising.state_since()),
        300 * MS,
        "told anew, and still the same"
    );
    raising.update(ms(9_600), 0, &PARAMS);
    assert_eq!(
        (raising.state(), ms(9_600).nanos_since(raising.state_since())),
        (WrState::Interactive, 0)
    );
}

#[test]
fn a_saved_state_is_restored() {
    for raising in [interactive(1_000), soft(1_000), both(9_000)] {
        let mut other = soft_rt_next_start(raising.detection.soft_rt_next_start, soft(77));
        other.detection.soft_rt_paced_until = raising.detection.soft_rt_paced_until;
        other.restore(ms(9_500), &raising.saved());
        other.period.state_since = raising.period.state_since;
        other.detection.soft_rt_paced_until = raising.detection.soft_rt_paced_until;
        assert_eq!(other, raising);
        other.restore(ms(9_600), &OLD.saved());
        assert_eq!((other.state(), other.period.duration_ms), (WrState::NotRaised, 0));
    }
}

#[test]
fn equal_and_late_instants_are_harmless() {
    for at in [Instant::ZERO, ms(1), Instant::FAR_FUTURE] {
        let mut raising = NEW;
        arrive_as(&mut raising, at, &FIRST, &PARAMS, LowLatency::Auto);
        raising.select(at, at);
        charge(&mut raising, u64::from(u32::MAX));
        charge(&mut raising, u64::from(u32::MAX));
        raising.update(at, u64::MAX, &PARAMS);
        rest(&mut raising, at);
        let again = Activation { last_end: at, ..FIRST };
        arrive_as(&mut raising, at, &again, &PARAMS, LowLatency::Auto);
        assert!(raising.detection.soft_rt_next_start >= at);
    }
}

#[test]
fn policies_have_names() {
    for policy in LowLatency::ALL {
        assert_eq!(LowLatency::from_name(policy.name()), Some(policy));
    }
    assert_eq!(LowLatency::from_name("40"), None);
}
