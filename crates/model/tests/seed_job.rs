//! The job of the 2018 tail-latency change: one reader at queue depth 1 with a think time, under riops=100
//! (spec/throttle 1.13).

use weir_model::kernel::{Direction, Flags, Kernel, Limit, Profile};

/// One read: when it was submitted, and how long it waited, in microseconds.
struct Read {
    submitted: u64,
    waited: u64,
}

/// The job with a device that takes no time. `think` answers the pause before each next read.
fn job(mut kernel: Kernel, tick_us: u64, run_us: u64, mut think: impl FnMut() -> u64) -> Vec<Read> {
    let group = kernel.add_group(Kernel::ROOT);
    let limit = Limit { bps: None, iops: Some(100) };
    kernel.set_limits(0, group, [limit, Limit::default()]);
    let mut reads = Vec::new();
    let mut submitted = 0;
    while submitted < run_us {
        let tick = submitted / tick_us;
        kernel.run_until(tick);
        let id = kernel.submit(tick, group, Direction::Read, 4096, Flags::default());
        let dispatched = loop {
            let until = kernel.next_timer().unwrap_or(tick);
            if let Some(&(at, _)) = kernel.run_until(until).iter().find(|(_, bio)| *bio == id) {
                // Dispatched by its own submission, or by a timer, which fires when its tick begins.
                break if at == tick { submitted } else { at * tick_us };
            }
        };
        reads.push(Read { submitted, waited: dispatched - submitted });
        submitted = dispatched + think();
    }
    reads
}

/// The reads that had to wait, as `submit->dispatch` in milliseconds.
fn waits(profile: Profile, hz: u64, slice_ticks: u64, count: usize) -> String {
    let reads = job(Kernel::new(profile, hz, slice_ticks), 1_000_000 / hz, 1_000_000, || 4_000);
    let waited = reads.iter().filter(|read| read.waited > 0).take(count);
    let lines = waited.map(|read| {
        format!("{}->{}", read.submitted / 1000, (read.submitted + read.waited) / 1000)
    });
    lines.collect::<Vec<_>>().join(", ")
}

#[test]
fn slices_of_20_ms() {
    assert_eq!(waits(Profile::K418, 1000, 20, 5), "8->31, 39->51, 59->71, 79->91, 99->111");
    assert_eq!(waits(Profile::K419A, 1000, 20, 5), "8->21, 29->41, 49->61, 69->81, 89->101");
    for profile in [Profile::K419, Profile::K612, Profile::K615] {
        let expected = "8->20, 28->40, 48->60, 68->80, 88->100";
        assert_eq!(waits(profile, 1000, 20, 5), expected, "{}", profile.name);
    }
}

#[test]
fn slices_of_100_ms() {
    assert_eq!(waits(Profile::K418, 1000, 100, 3), "40->111, 151->211, 251->311");
    for profile in [Profile::K419, Profile::K612, Profile::K615] {
        let expected = "40->100, 140->200, 240->300";
        assert_eq!(waits(profile, 1000, 100, 3), expected, "{}", profile.name);
    }
}

#[test]
fn longer_ticks() {
    assert_eq!(waits(Profile::K418, 250, 5, 3), "8->32, 40->52, 60->72");
    assert_eq!(waits(Profile::K419, 250, 5, 3), "8->20, 28->40, 48->60");
    assert_eq!(waits(Profile::K418, 100, 2, 3), "8->40, 52->80, 92->120");
    assert_eq!(waits(Profile::K419, 100, 2, 3), "8->20, 28->40, 48->60");
}

/// Figures of a minute with disturbed think times and timers one tick late, in microseconds.
struct Minute {
    sorted: Vec<u64>,
}

impl Minute {
    fn of(profile: Profile, seed: u64) -> Minute {
        let mut kernel = Kernel::new(profile, 1000, 20);
        kernel.set_lateness(1);
        let mut dice = seed;
        let think = || 4_080 + if next(&mut dice).is_multiple_of(10) { 1_000 } else { 0 };
        let mut sorted: Vec<u64> =
            job(kernel, 1000, 60_000_000, think).iter().map(|read| read.waited).collect();
        sorted.sort_unstable();
        Minute { sorted }
    }

    fn per_mille(&self, share: usize) -> u64 {
        self.sorted[self.sorted.len() * share / 1000]
    }

    fn mean(&self) -> u64 {
        self.sorted.iter().sum::<u64>() / self.sorted.len() as u64
    }

    fn iops(&self) -> u64 {
        self.sorted.len() as u64 / 60
    }
}

/// splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[test]
fn the_tail_before_the_commit() {
    for seed in 0..5 {
        let minute = Minute::of(Profile::K418, seed);
        assert_eq!(minute.per_mille(500), 0, "seed {seed}");
        assert_eq!(minute.per_mille(600), 11_840, "seed {seed}");
        assert_eq!(minute.per_mille(900), 11_840, "seed {seed}");
        assert_eq!(minute.per_mille(950), 22_680, "seed {seed}");
        assert!((22_000..=24_500).contains(&minute.per_mille(990)), "seed {seed}");
        assert!((5_700..=6_100).contains(&minute.mean()), "seed {seed}: {}", minute.mean());
        assert!((99..=100).contains(&minute.iops()), "seed {seed}: {}", minute.iops());
    }
}

#[test]
fn the_tail_after_the_commit() {
    for seed in 0..5 {
        let minute = Minute::of(Profile::K419A, seed);
        assert_eq!(minute.per_mille(500), 0, "seed {seed}");
        for share in [600, 900, 950, 990, 995] {
            assert_eq!(minute.per_mille(share), 11_840, "seed {seed}, {share} per mille");
        }
        assert!((5_700..=6_100).contains(&minute.mean()), "seed {seed}: {}", minute.mean());
        assert!((99..=100).contains(&minute.iops()), "seed {seed}: {}", minute.iops());
    }
}
