//! Injection limit of a flow, and its measurement (spec/bfq 7.9).
//!
//! The rules are those of [`InjectLimit`], in nanoseconds (spec/bfq D-6). A flow keeps 14 bytes, since there may be a
//! million. There is one measurement for the device, since only the flow in service idles.

use crate::merge::waker::{InjectLimit, InjectSettings, Sample};
use crate::types::Instant;

/// An [`InjectLimit`] in half of its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, packed(2))]
pub(crate) struct PackedInjectLimit {
    /// When the limit was last lowered or reset.
    lowered: Instant,
    /// Nanoseconds from arrival to completion without injection, at most 4.29 s; 0 until known.
    baseline_ns: u32,
    limit: u16,
}

/// Time since the limit was last lowered after which a flow whose think time has become short starts anew.
const FLIP_PAUSE_NS: u64 = 100_000_000;

impl PackedInjectLimit {
    /// For a flow created at `now`: one request if it thinks long, none otherwise.
    pub(crate) const fn new(now: Instant, thinks_briefly: bool) -> PackedInjectLimit {
        PackedInjectLimit { lowered: now, baseline_ns: 0, limit: !thinks_briefly as u16 }
    }

    /// Number of requests in the device from which on nothing is injected.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> u32 {
        self.limit.into()
    }

    /// Whether another request may be injected, with `in_device` there and the device idling for this flow since
    /// `idling_since`.
    pub(crate) fn admits(
        &self,
        settings: &InjectSettings,
        now: Instant,
        idling_since: Option<Instant>,
        in_device: u32,
    ) -> bool {
        self.unpack().admits(settings, now, idling_since, in_device)
    }

    /// Resets an unmeasured limit when think time changes between short and long. A limit that was just lowered is
    /// kept.
    pub(crate) fn think_changed(&mut self, now: Instant, thinks_briefly: bool) {
        let has_rested = now.nanos_since(self.lowered) >= FLIP_PAUSE_NS;
        if self.baseline_ns == 0 && (!thinks_briefly || has_rested) {
            *self = PackedInjectLimit::new(now, thinks_briefly);
        }
    }

    fn unpack(self) -> InjectLimit {
        InjectLimit {
            limit: self.limit.into(),
            baseline_ns: (self.baseline_ns > 0).then_some(self.baseline_ns.into()),
            lowered: self.lowered,
        }
    }

    /// Stores a limit. Above 65,535 requests in the device it does not matter.
    fn pack(&mut self, limit: InjectLimit) {
        let baseline_ns = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX).max(1);
        self.lowered = limit.lowered;
        self.baseline_ns = limit.baseline_ns.map_or(0, baseline_ns);
        self.limit = u16::try_from(limit.limit).unwrap_or(u16::MAX);
    }
}

/// Measurement of the flow in service: from a request's arrival to its completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Probe {
    sample: Sample,
    /// Index of the measured request, once it is in the device.
    measured: Option<u32>,
    /// Most requests in the device at once.
    in_device_max: u32,
}

impl Probe {
    /// The only request of its process came for the flow in service; `in_device` are there already.
    pub(crate) fn arrived(
        &mut self,
        inject_limit: &mut PackedInjectLimit,
        settings: &InjectSettings,
        now: Instant,
        thinks_briefly: bool,
        in_device: u32,
    ) {
        let (mut limit, before) = (inject_limit.unpack(), self.sample);
        limit.arrived(settings, now, thinks_briefly, in_device, &mut self.sample);
        if self.sample != before {
            // A request in the device belongs to a measurement that is over.
            self.measured = None;
        }
        inject_limit.pack(limit);
    }

    /// Request `index` is dispatched; `in_device` counts it. `is_own`: it is of the flow in service.
    pub(crate) fn dispatched(&mut self, index: u32, is_own: bool, in_device: u32) {
        self.in_device_max = self.in_device_max.max(in_device);
        if is_own && self.measured.is_none() && self.sample.is_waiting() {
            self.measured = Some(index);
        }
    }

    /// A request was injected by [`PackedInjectLimit::admits`]; called besides [`Probe::dispatched`].
    pub(crate) fn injected(&mut self) {
        self.sample.injected = true;
    }

    /// Whether request `index` is the measured one.
    pub(crate) fn measures(&self, index: u32) -> bool {
        self.measured == Some(index)
    }

    /// The measured request has completed; `in_device` still counts it. `inject_limit` is that of the flow in
    /// service.
    pub(crate) fn completed(
        &mut self,
        inject_limit: &mut PackedInjectLimit,
        now: Instant,
        in_device: u32,
    ) {
        self.measured = None;
        let mut limit = inject_limit.unpack();
        limit.completed(now, in_device, self.in_device_max, &mut self.sample);
        inject_limit.pack(limit);
    }

    /// Ends the measurement: the slot expired, or the request was withdrawn.
    pub(crate) fn reset(&mut self) {
        self.sample.reset();
        self.measured = None;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn settings() -> InjectSettings {
        InjectSettings::default()
    }

    /// Measures a request of the flow in service, with one other in the device if `injects`.
    fn measure(
        probe: &mut Probe,
        inject_limit: &mut PackedInjectLimit,
        begin_ms: u64,
        took_ms: u64,
        injects: bool,
    ) {
        if injects {
            probe.injected();
        }
        let others = u32::from(injects);
        probe.arrived(inject_limit, &settings(), at(begin_ms), true, others);
        probe.dispatched(7, true, 1 + others);
        assert!(probe.measures(7) && !probe.measures(8));
        probe.completed(inject_limit, at(begin_ms + took_ms), 1 + others);
        assert!(!probe.measures(7));
    }

    #[test]
    fn an_injection_limit_takes_14_bytes() {
        assert_eq!(size_of::<PackedInjectLimit>(), 14);
    }

    #[test]
    fn ex_19_the_limit_follows_the_latency() {
        let mut inject_limit =
            PackedInjectLimit { limit: 1, baseline_ns: 4 * MS as u32, lowered: Instant::ZERO };
        let mut probe = Probe { in_device_max: 8, ..Probe::default() };
        for (begin, took, limit, baseline) in [(100, 5, 2, 4), (200, 6, 1, 4), (300, 3, 2, 3)] {
            measure(&mut probe, &mut inject_limit, begin, took, true);
            let expected = (limit, baseline * MS as u32);
            assert_eq!((inject_limit.limit, inject_limit.baseline_ns), expected, "{took} ms");
        }
        assert_eq!({ inject_limit.lowered }, at(206));
        for round in 4..30 {
            measure(&mut probe, &mut inject_limit, round * 20 + 400, 3, true);
        }
        assert_eq!(inject_limit.limit(), 9, "one more than were in the device");
    }

    #[test]
    fn a_slot_that_ends_measures_nothing() {
        let (mut probe, mut inject_limit) = (Probe::default(), PackedInjectLimit::new(at(0), true));
        probe.arrived(&mut inject_limit, &settings(), at(10), true, 0);
        probe.dispatched(3, true, 1);
        probe.reset();
        assert!(!probe.measures(3));
        measure(&mut probe, &mut inject_limit, 30, 5, false);
        assert_eq!(
            inject_limit,
            PackedInjectLimit { lowered: at(0), baseline_ns: 5 * MS as u32, limit: 1 }
        );
    }

    #[test]
    fn others_are_not_measured() {
        let (mut probe, mut inject_limit) = (Probe::default(), PackedInjectLimit::new(at(0), true));
        probe.arrived(&mut inject_limit, &settings(), at(10), true, 0);
        probe.dispatched(3, false, 1);
        assert_eq!(probe.measured, None, "of another flow");
        probe.dispatched(4, true, 2);
        probe.dispatched(5, true, 3);
        assert_eq!(probe.measured, Some(4), "the first of its own");
    }

    #[test]
    fn a_change_of_think_time_resets_a_limit_without_baseline() {
        let known = PackedInjectLimit { lowered: at(0), baseline_ns: 1, limit: 5 };
        let unknown = PackedInjectLimit { baseline_ns: 0, ..known };
        for (what, before, now, thinks_briefly, resets) in [
            ("with a baseline", known, 1000, false, false),
            ("long at once", unknown, 1, false, true),
            ("short, too soon", unknown, 99, true, false),
            ("short, in time", unknown, 100, true, true),
        ] {
            let mut inject_limit = before;
            inject_limit.think_changed(at(now), thinks_briefly);
            let expected = match resets {
                true => PackedInjectLimit::new(at(now), thinks_briefly),
                false => before,
            };
            assert_eq!(inject_limit, expected, "{what}");
        }
    }

    #[test]
    fn a_baseline_has_an_end() {
        let (mut probe, mut inject_limit) = (Probe::default(), PackedInjectLimit::new(at(0), true));
        measure(&mut probe, &mut inject_limit, 10, 10_000, false);
        assert_eq!({ inject_limit.baseline_ns }, u32::MAX);
        let mut inject_limit = PackedInjectLimit::new(at(19_990), true);
        measure(&mut probe, &mut inject_limit, 20_000, 0, false);
        assert_eq!({ inject_limit.baseline_ns }, 1, "known, and as short as can be");
    }

    proptest! {
        /// spec/bfq 11.22: a limit is at most one above the most requests in the device, and nothing is injected from
        /// it on, except once while nothing is known. The packed form decides as the full one while latencies are
        /// below 4 s.
        #[test]
        fn limits_are_bounded(steps in prop::collection::vec(
            (0..6_u32, 0..300_u64, any::<bool>(), 0..12_u32), 1..300,
        )) {
            let (mut probe, mut inject_limit) = (Probe::default(), PackedInjectLimit::new(at(0), false));
            let mut plain = inject_limit.unpack();
            let mut plain_sample = Sample::default();
            let (mut now, mut depth_max, mut out) = (at(0), 0, Vec::new());
            for (step, wait_ms, flag, number) in steps {
                now = now.plus_nanos(wait_ms * MS / 4 + 1);
                let in_device = out.len() as u32;
                match step {
                    0 => {
                        plain.arrived(&settings(), now, flag, in_device, &mut plain_sample);
                        probe.arrived(&mut inject_limit, &settings(), now, flag, in_device);
                    }
                    1 | 2 if in_device < 10 => {
                        let index = number + 100 * (out.len() as u32 + 1);
                        out.push(index);
                        depth_max = depth_max.max(in_device + 1);
                        if step == 2 && inject_limit.admits(&settings(), now, None, in_device) {
                            prop_assert!(in_device < inject_limit.limit());
                            probe.injected();
                            plain_sample.injected = true;
                            probe.dispatched(index, false, in_device + 1);
                        } else {
                            probe.dispatched(index, true, in_device + 1);
                        }
                    }
                    3 | 4 if in_device > 0 => {
                        let index = out.swap_remove(number as usize % out.len());
                        if probe.measures(index) {
                            plain.completed(now, in_device, depth_max, &mut plain_sample);
                            probe.completed(&mut inject_limit, now, in_device);
                        }
                    }
                    5 if number == 0 => {
                        probe.reset();
                        plain_sample.reset();
                    }
                    _ => {}
                }
                prop_assert_eq!(inject_limit.unpack(), plain);
                // A flow that thinks long starts with one.
                prop_assert!(inject_limit.limit() <= (depth_max + 1).max(1));
                let one_tried = inject_limit.limit() == 0 && inject_limit.baseline_ns == 0;
                let admitted = inject_limit.admits(&settings(), now, Some(at(0)), in_device);
                prop_assert!(!admitted || in_device < inject_limit.limit().max(u32::from(one_tried)));
            }
        }
    }
}
