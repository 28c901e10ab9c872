//! Defects of the kernels (spec/throttle 1.12), and their conditions.

use weir_model::kernel::{Direction, Flags, Kernel, Limit, Profile};

/// Bios a second of one group that is always backlogged, over 30 seconds after 10 to warm up.
fn saturated(profile: Profile, iops: u64) -> f64 {
    let mut kernel = Kernel::new(profile, 1000, 100);
    let group = kernel.add_group(Kernel::ROOT);
    kernel.set_limits(0, group, [Limit { bps: None, iops: Some(iops) }, Limit::default()]);
    for _ in 0..iops * 80 {
        kernel.submit(0, group, Direction::Read, 4096, Flags::default());
    }
    kernel.run_until(10_000);
    let seconds = 30;
    let dispatched = kernel.run_until(10_000 + seconds * 1000).len();
    assert!(kernel.queued() > 0, "{}: the backlog has run out", profile.name);
    dispatched as f64 / seconds as f64
}

fn assert_near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} a second, not {expected}");
}

#[test]
fn slices_give_whole_operations() {
    for profile in Profile::ALL {
        for (limit, reached) in [(15, 10.0), (99, 90.0), (1234, 1230.0)] {
            let found = saturated(profile, limit);
            assert_near(found, reached, 0.005 * reached, &format!("{} at {limit}", profile.name));
        }
    }
}

#[test]
fn few_operations_a_second_depend_on_the_kernel() {
    for profile in [Profile::K419, Profile::K61] {
        assert_near(saturated(profile, 5), 3.33, 0.05, profile.name);
        assert_near(saturated(profile, 2), 1.1, 0.05, profile.name);
    }
    assert_near(saturated(Profile::K612, 5), 5.0, 0.05, "K612 at 5");
    assert_near(saturated(Profile::K612, 2), 2.0, 0.05, "K612 at 2");
    assert_near(saturated(Profile::K612, 7), 5.0, 0.05, "K612 at 7");
}

#[test]
fn k615_forgives_what_it_should_have_counted() {
    assert_near(saturated(Profile::K615, 7), 11.0, 0.5, "K615 at 7");
}

#[test]
fn a_least_wait_outlasts_the_slice() {
    for (profile, eleventh) in [(Profile::K61, 100), (Profile::K612, 106), (Profile::K615, 106)] {
        let mut kernel = Kernel::new(profile, 1000, 100);
        let group = kernel.add_group(Kernel::ROOT);
        kernel.set_limits(0, group, [Limit { bps: None, iops: Some(100) }, Limit::default()]);
        for _ in 0..10 {
            kernel.submit(0, group, Direction::Read, 4096, Flags::default());
        }
        kernel.submit(95, group, Direction::Read, 4096, Flags::default());
        assert_eq!(kernel.run_until(1000).last(), Some(&(eleventh, 10)), "{}", profile.name);
    }
}

#[test]
fn a_remainder_pays_what_its_kernel_says() {
    // Ten bios exhaust the first slice; a remainder follows.
    for profile in Profile::ALL {
        let mut kernel = Kernel::new(profile, 1000, 100);
        let group = kernel.add_group(Kernel::ROOT);
        let limit = Limit { bps: Some(1 << 20), iops: Some(100) };
        kernel.set_limits(0, group, [Limit::default(), limit]);
        for _ in 0..10 {
            kernel.submit(0, group, Direction::Write, 512, Flags::default());
        }
        let flags = Flags { meta: false, remainder: true };
        let remainder = kernel.submit(0, group, Direction::Write, 1 << 30, flags);
        let expected = match profile.name {
            "K418" | "K419a" | "K419" => 0,
            _ => 100,
        };
        let log = kernel.run_until(1000);
        assert!(log.contains(&(expected, remainder)), "{}: {log:?}", profile.name);
    }
}

#[test]
fn a_remainder_passes_bios_that_wait_for_bytes_in_k615() {
    for (profile, overtakes) in [(Profile::K612, false), (Profile::K615, true)] {
        let mut kernel = Kernel::new(profile, 1000, 100);
        let group = kernel.add_group(Kernel::ROOT);
        let limit = Limit { bps: Some(1024), iops: Some(100) };
        kernel.set_limits(0, group, [Limit::default(), limit]);
        let large = kernel.submit(0, group, Direction::Write, 10 * 1024, Flags::default());
        let flags = Flags { meta: false, remainder: true };
        let remainder = kernel.submit(0, group, Direction::Write, 4096, flags);
        let log = kernel.run_until(20_000);
        assert_eq!(log.len(), 2, "{}: {log:?}", profile.name);
        assert_eq!(log[0].1 == remainder, overtakes, "{}: {log:?}", profile.name);
        assert!(log.iter().any(|&(tick, id)| id == large && tick == 10_000), "{log:?}");
    }
}

#[test]
fn a_removed_group_drains_or_lets_go() {
    for (profile, leaves) in [(Profile::K612, 10_000), (Profile::K615, 50)] {
        let mut kernel = Kernel::new(profile, 1000, 100);
        let group = kernel.add_group(Kernel::ROOT);
        let limit = Limit { bps: Some(1024), iops: None };
        kernel.set_limits(0, group, [Limit::default(), limit]);
        let bio = kernel.submit(0, group, Direction::Write, 10 * 1024, Flags::default());
        kernel.remove_group(50, group);
        assert_eq!(kernel.run_until(20_000), [(leaves, bio)], "{}", profile.name);
    }
}
