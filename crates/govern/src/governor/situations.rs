//! Situations, one after the other: a device that limited cgroups and others share, in steps of 50 ms.

use super::*;

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;
const WATERMARK: Settings = Settings { watermark_permille: 900, mode: Mode::Proportional };

/// A tenant with requests of 64 KiB.
struct Tenant {
    id: Option<CgroupId>,
    /// MiB a second that it asks for.
    wants: f64,
    sample: CgroupSample,
}

/// A device of 20 MiB/s. Where more is asked for, shares are in proportion.
struct Plant {
    governor: Governor,
    now_ns: u64,
    tenants: Vec<Tenant>,
    device: DeviceSample,
    rate: f64,
    has_pressure: bool,
    /// Writes so far: when, and of which cgroup.
    writes: Vec<(u64, CgroupId)>,
    last: (u64, State),
}

fn bytes(mib: u64) -> IoMax {
    IoMax { rbps: Some(mib * MIB), ..IoMax::default() }
}

impl Plant {
    fn new(settings: Settings) -> Plant {
        Plant {
            governor: Governor::new(settings),
            now_ns: 0,
            tenants: Vec::new(),
            device: DeviceSample::default(),
            rate: 20.0,
            has_pressure: false,
            writes: Vec::new(),
            last: (0, State::Starting),
        }
    }

    /// A tenant with a limit in MiB a second; 0 for none.
    fn tenant(&mut self, limit: u64, wants: f64) -> usize {
        let cgroup = Cgroup { limits: bytes(limit), settings: None };
        let id = (limit > 0).then(|| self.governor.add(None, cgroup));
        self.tenants.push(Tenant { id, wants, sample: CgroupSample::default() });
        self.tenants.len() - 1
    }

    fn limit(&self, tenant: usize) -> f64 {
        let limits = self.tenants[tenant].id.map(|id| self.governor.effective(id));
        limits.and_then(|limits| limits.rbps).map_or(f64::MAX, |limit| limit as f64 / MIB as f64)
    }

    fn step(&mut self, time_ns: u64) {
        let asked: Vec<f64> =
            (0..self.tenants.len()).map(|at| self.tenants[at].wants.min(self.limit(at))).collect();
        let sum: f64 = asked.iter().sum();
        let fits = (self.rate / sum.max(1e-9)).min(1.0);
        let seconds = time_ns as f64 / 1e9;
        self.now_ns += time_ns;
        for (tenant, asked) in self.tenants.iter_mut().zip(&asked) {
            let ios = (asked * fits * seconds * 16.0).round() as u64;
            tenant.sample.counters.rios += ios;
            tenant.sample.counters.rbytes += ios * 65_536;
            self.device.counters.rios += ios;
            self.device.counters.rbytes += ios * 65_536;
            if self.has_pressure {
                let waits = if *asked < tenant.wants || fits < 1.0 { time_ns } else { 0 };
                tenant.sample.waited_ns = Some(tenant.sample.waited_ns.unwrap_or(0) + waits);
            }
            if let Some(id) = tenant.id {
                self.governor.note(id, tenant.sample);
            }
        }
        self.device.used_ns += (time_ns as f64 * (sum / self.rate).min(1.0)) as u64;
        let turn = self.governor.turn(self.now_ns, self.device);
        self.last = (turn.lambda_ppm, turn.state);
        let at = self.now_ns;
        self.writes.extend(turn.writes.iter().map(|write| (at, write.cgroup)));
    }

    fn run(&mut self, ms: u64) {
        (0..ms / 50).for_each(|_| self.step(50 * MS));
    }

    fn lambda(&self) -> f64 {
        self.last.0 as f64 / 1e6
    }
}

/// Two tenants with limits of 4 and 2 MiB/s that want all they can get.
fn two() -> Plant {
    let mut plant = Plant::new(WATERMARK);
    plant.tenant(4, 100.0);
    plant.tenant(2, 100.0);
    plant
}

#[test]
fn two_tenants_use_the_device_in_the_ratio_of_their_limits() {
    let mut plant = two();
    plant.run(400);
    assert_eq!(plant.last, (1_000_000, State::Starting));
    plant.run(2_000);
    // 97 % of 20 MiB/s.
    assert!((3.15..3.3).contains(&plant.lambda()), "{:?}", plant.last);
    assert_eq!(plant.last.1, State::Raised);
    assert!((plant.limit(0) / plant.limit(1) - 2.0).abs() < 1e-6);
    let writes = plant.writes.len();
    plant.run(60_000);
    assert!(plant.writes.len() <= writes + 2, "{:?}", plant.writes);
}

#[test]
fn an_unlimited_newcomer_finds_limits_as_written_within_200_ms() {
    for phase in 0..8 {
        let mut plant = two();
        let other = plant.tenant(0, 0.0);
        plant.run(5_000 + phase * 50);
        assert!(plant.lambda() > 3.0);
        plant.tenants[other].wants = 100.0;
        plant.run(150);
        assert_eq!(plant.last, (1_000_000, State::Others), "phase {phase}");
        assert_eq!((plant.limit(0), plant.limit(1)), (4.0, 2.0));
        // It stays, and so do they.
        let writes = plant.writes.len();
        plant.run(20_000);
        assert_eq!(plant.writes.len(), writes);
        // It goes, and within three seconds they have all of it.
        plant.tenants[other].wants = 0.0;
        plant.run(3_000);
        assert!(plant.lambda() > 3.0, "{:?}", plant.last);
    }
}

#[test]
fn a_small_unlimited_tenant_leaves_the_others_the_device_up_to_the_watermark() {
    let mut plant = two();
    plant.tenant(0, 6.0);
    plant.run(10_000);
    // 12 of 18 MiB/s.
    assert!((1.85..2.05).contains(&plant.lambda()), "{:?}", plant.last);
}

#[test]
fn limits_that_nobody_is_at_are_not_raised() {
    let mut plant = Plant::new(WATERMARK);
    plant.tenant(4, 1.0);
    plant.run(5_000);
    assert_eq!(plant.last, (1_000_000, State::Idle));
    assert_eq!(plant.writes, []);
}

#[test]
fn a_full_device_says_so() {
    let mut plant = Plant::new(WATERMARK);
    plant.tenant(30, 100.0);
    plant.run(5_000);
    assert_eq!(plant.last, (1_000_000, State::Full));
    assert_eq!(plant.writes, []);
}

#[test]
fn a_tenant_that_wants_little_does_not_hold_its_neighbour_back() {
    for has_pressure in [false, true] {
        let mut plant = two();
        plant.has_pressure = has_pressure;
        plant.tenant(2, 3.0);
        plant.run(10_000);
        // 16.4 MiB/s for limits of 6.
        assert!((2.5..2.9).contains(&plant.lambda()), "{:?}", plant.last);
    }
}

#[test]
fn raised_limits_follow_demand_down() {
    let mut plant = two();
    plant.run(5_000);
    (plant.tenants[0].wants, plant.tenants[1].wants) = (0.0, 0.0);
    plant.run(5_000);
    assert_eq!(plant.last, (1_000_000, State::Idle));
}

#[test]
fn what_is_written_by_others_is_adopted() {
    let mut plant = two();
    plant.run(5_000);
    let id = plant.tenants[1].id.unwrap();
    plant.governor.adopt(id, Cgroup { limits: bytes(4), settings: None });
    assert_eq!(plant.limit(1), 4.0, "as written, at first");
    plant.run(5_000);
    assert!((plant.limit(0) / plant.limit(1) - 1.0).abs() < 1e-6);
    assert!((plant.limit(0) / 9.7 - 1.0).abs() < 0.05, "{}", plant.limit(0));
}

#[test]
fn a_lower_level_is_raised_with_the_one_above() {
    let mut plant = Plant::new(WATERMARK);
    let top = plant.governor.add(None, Cgroup { limits: bytes(6), settings: None });
    for limit in [4, 2] {
        let at = plant.tenant(0, 100.0);
        let cgroup = Cgroup { limits: bytes(limit), settings: None };
        plant.tenants[at].id = Some(plant.governor.add(Some(top), cgroup));
    }
    for _ in 0..100 {
        let [a, b] = [0, 1].map(|at: usize| plant.tenants[at].sample.counters);
        let counters = Counters { rios: a.rios + b.rios, rbytes: a.rbytes + b.rbytes, ..a };
        plant.governor.note(top, CgroupSample { counters, waited_ns: None });
        plant.step(50 * MS);
    }
    assert!((3.1..3.3).contains(&plant.lambda()), "{:?}", plant.last);
    let above = plant.governor.effective(top).rbps.unwrap();
    assert!(above.abs_diff((6.0 * plant.lambda() * MIB as f64) as u64) < 10);
}

#[test]
fn a_subtree_has_a_watermark_of_its_own() {
    let mut plant = two();
    let id = plant.tenants[1].id.unwrap();
    let settings = Some(Settings { watermark_permille: 0, mode: Mode::Proportional });
    plant.governor.adopt(id, Cgroup { limits: bytes(2), settings });
    let other = plant.tenant(0, 2.0);
    plant.run(10_000);
    assert_eq!(plant.limit(1), 2.0, "never raised while others are there");
    assert!(plant.limit(0) > 12.0, "{}", plant.limit(0));
    plant.tenants[other].wants = 0.0;
    plant.governor.remove(id);
    plant.tenants[1].id = None;
    plant.tenants[1].wants = 0.0;
    plant.run(5_000);
    assert!(plant.limit(0) > 18.0, "{}", plant.limit(0));
}

#[test]
fn in_gate_mode_limits_go_while_no_other_needs_the_device() {
    let mut plant = Plant::new(Settings { mode: Mode::Gate, ..WATERMARK });
    plant.tenant(4, 100.0);
    let other = plant.tenant(0, 0.0);
    plant.run(1_000);
    assert_eq!(plant.last, (u64::MAX, State::Raised));
    assert_eq!(plant.limit(0), f64::MAX);
    plant.tenants[other].wants = 100.0;
    plant.run(200);
    assert_eq!((plant.last.0, plant.limit(0)), (1_000_000, 4.0));
    plant.run(5_000);
    assert_eq!(plant.limit(0), 4.0);
    plant.governor.set_settings(WATERMARK);
    plant.tenants[other].wants = 0.0;
    plant.run(10_000);
    assert!((4.5..5.0).contains(&plant.lambda()), "{:?}", plant.last);
}

#[test]
fn samples_may_be_late_and_two_at_one_instant() {
    let mut plant = two();
    let other = plant.tenant(0, 0.0);
    for step in 0..200u64 {
        plant.step([0, 3, 50, 120, 1_400][(step % 5) as usize] * MS);
    }
    assert!((3.1..3.4).contains(&plant.lambda()), "{:?}", plant.last);
    plant.tenants[other].wants = 100.0;
    plant.step(1_400 * MS);
    plant.step(100 * MS);
    assert_eq!(plant.last.0, 1_000_000);
}

#[test]
fn other_counters_are_no_work() {
    let mut plant = two();
    plant.run(5_000);
    // The cgroup is made anew; then the device is.
    plant.tenants[0].sample = CgroupSample::default();
    plant.run(1_000);
    assert!((3.1..3.4).contains(&plant.lambda()), "{:?}", plant.last);
    plant.device = DeviceSample::default();
    plant.step(50 * MS);
    assert_eq!(plant.last, (1_000_000, State::Starting));
    plant.run(3_000);
    assert!((3.1..3.4).contains(&plant.lambda()), "{:?}", plant.last);
}

#[test]
fn a_steady_turn_of_many_cgroups_makes_no_writes() {
    let mut governor = Governor::new(WATERMARK);
    let ids: Vec<CgroupId> = (0..1_000)
        .map(|_| governor.add(None, Cgroup { limits: bytes(1), settings: None }))
        .collect();
    let capacity = governor.writes.capacity();
    for turn in 1..100 {
        for &id in &ids {
            governor.note(id, CgroupSample::default());
        }
        let used_ns = turn * 10 * MS;
        let turn = governor.turn(turn * 50 * MS, DeviceSample { used_ns, ..Default::default() });
        assert_eq!(turn.writes, []);
    }
    assert_eq!(governor.writes.capacity(), capacity);
}
