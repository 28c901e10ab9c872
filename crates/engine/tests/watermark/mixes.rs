//! Random mixes of tenants: with a watermark no tenant gets less than without one.

use proptest::prelude::*;

use super::world::{Ask, MIB, Tenant, World};

/// Limits that a disk of 20 MiB/s can give to five tenants at once.
fn tenant() -> impl Strategy<Value = Tenant> {
    let max = prop_oneof![
        Just("wbps=1M"),
        Just("wbps=2M"),
        Just("wbps=3M"),
        Just("wiops=10"),
        Just("wbps=2M wiops=60"),
        Just("rwbps=2M"),
        Just("wbps=3M rwiops=60"),
    ];
    let ask = prop_oneof![
        (2_000..80_000u64).prop_map(|every_us| Ask::Open { every_us }),
        (1..5u32, 0..3_000u64).prop_map(|(depth, think_us)| Ask::Closed { depth, think_us }),
    ];
    (max, ask, 4..17u32, 0..500u64).prop_map(|(max, ask, pages, from_ms)| Tenant {
        ask,
        len: pages * 4096,
        from_ms,
        ..Tenant::limited(max)
    })
}

fn watermark() -> impl Strategy<Value = String> {
    let percent = 1..=100u32;
    prop_oneof![
        percent.clone().prop_map(|percent| format!("{percent}")),
        percent.prop_map(|percent| format!("{percent} reserve=kept")),
    ]
}

/// Tenants that get less under `watermark` than with hard limits.
fn wronged(tenants: &[Tenant], watermark: &str, depth: u32) -> Option<String> {
    let run = |watermark: &str| {
        let mut world = World::new(watermark, tenants);
        world.set_depth(depth);
        world.run(1_500);
        world.done
    };
    let (hard, steered) = (run("0"), run(watermark));
    let others: u64 = tenants.iter().map(|tenant| u64::from(tenant.len)).sum();
    let largest = tenants.iter().map(|tenant| u64::from(tenant.len)).max().unwrap_or(0);
    tenants.iter().enumerate().find_map(|(index, tenant)| {
        // When time is up its request may be behind one of each other, where it was in front of them.
        let slack = u64::from(tenant.len) + others / 4;
        let least = match tenant.ask {
            // A tenant that asks one by one, and thinks in between, finds a request of another under way that was let go early,
            // and waits for that each time.
            Ask::Closed { depth: 1, .. } => {
                let len = u64::from(tenant.len);
                let active_ns = (1_500 - tenant.from_ms) * 1_000_000;
                let each_ns = active_ns * len / hard[index].max(1) + largest * 50_000_000 / MIB;
                active_ns / each_ns * len
            }
            _ => hard[index],
        };
        (steered[index] + slack < least.min(hard[index]))
            .then(|| format!("tenant {index}: {}, not {}", steered[index], hard[index]))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// What a limit allows on a disk that can give it, a watermark allows as well to a tenant that asks for it, and delays each
    /// request of others by one request at most.
    #[test]
    fn no_tenant_gets_less_than_its_limit_allows(
        tenants in prop::collection::vec(tenant(), 1..6),
        watermark in watermark(),
    ) {
        prop_assert_eq!(wronged(&tenants, &watermark, 32), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The same for mode `gate`. While limits are lifted all compete for the disk with whatever they have, so it can give
    /// each its limit only if the tenants that wait for it go by turns, one at a time, with requests of one size.
    #[test]
    fn no_tenant_gets_less_through_a_gate(
        tenants in prop::collection::vec(tenant(), 1..6),
        percent in 1..=100u32,
    ) {
        let tenants: Vec<Tenant> =
            tenants.into_iter().map(|tenant| Tenant { len: 16_384, ..tenant }).collect();
        let watermark = format!("{percent} mode=gate period=100ms");
        prop_assert_eq!(wronged(&tenants, &watermark, 1), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// spec/throttle P19 for `proportional`: something waits for a limit only while the disk works, or rests from its
    /// work. So the time in which it is idle although something waits is bounded by its work, whatever the limits.
    /// Where the reserve is lent, a fiftieth of its work may be spent on waiting for a client that is about to come back.
    #[test]
    fn p19_what_waits_waits_for_a_busy_disk(
        tenants in prop::collection::vec(tenant(), 1..5),
        percent in 5..=99u32,
        kept in any::<bool>(),
    ) {
        let reserve = if kept { "kept" } else { "lent" };
        let mut world = World::new(&format!("{percent} reserve={reserve}"), &tenants);
        // No tenant is there for which it would not be lent.
        let percent = if kept { u64::from(percent) } else { 99 };
        for ms in (50..1_500).step_by(50) {
            world.run(ms);
            let busy_ns = world.busy_ns();
            let waited_ns = if kept { 0 } else { busy_ns / 50 };
            let owed_ns = busy_ns * (100 - percent) / percent + waited_ns;
            // A nanosecond is rounded up for each request.
            let slack = world.dispatched.len() as u64;
            prop_assert!(world.idled_ns <= owed_ns + slack, "{} of {owed_ns} ns", world.idled_ns);
        }
    }
}
