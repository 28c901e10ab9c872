//! Lag of a device's counters behind those of cgroups.
//!
//! Version 1 counts a request before its limit holds it, and both versions before the device has done it. When limits are
//! raised, the device does at once what cgroups have counted long ago, and that looks like requests of others. So what the
//! device has done beyond what limited cgroups have counted is others' only as far as it exceeds all that it was in the last
//! minute: a lag comes back, what others have done does not.

use crate::{Counters, DeviceSample};

const SECOND_NS: u64 = 1_000_000_000;

/// Seconds that are remembered. Counters that drift apart, as of requests that fail, hide others for as long.
const SECONDS: usize = 60;

/// Device less limited cgroups: bytes and I/Os, by direction.
type Surplus = [i128; 4];

/// Makes of a device's counters those of limited cgroups and of others.
#[derive(Debug, Default)]
pub(super) struct Lag {
    last: Option<Last>,
    /// Largest surplus of each second, the current one last.
    seconds: Vec<(u64, Surplus)>,
    counters: [u64; 4],
}

#[derive(Debug, Clone, Copy)]
struct Last {
    device: [u64; 4],
    limited: [u64; 4],
}

impl Lag {
    /// The limited cgroups are others now, or count anew.
    pub(super) fn forget(&mut self) {
        self.seconds.clear();
    }

    /// The sample without the lag. `limited` is what all limited cgroups have counted.
    pub(super) fn correct(
        &mut self,
        now_ns: u64,
        sample: DeviceSample,
        limited: Counters,
    ) -> DeviceSample {
        let (device, limited) = (array(sample.counters), array(limited));
        let last = self.last.replace(Last { device, limited });
        let Some(last) = last.filter(|last| is_after(device, last.device)) else {
            // Another device: its counters are told as they are, so that they are seen to be others.
            self.seconds.clear();
            self.counters = device;
            return sample;
        };
        let surplus: Surplus =
            std::array::from_fn(|index| i128::from(device[index]) - i128::from(limited[index]));
        let most = self.seconds.iter().map(|(_, most)| *most).reduce(larger);
        for index in 0..4 {
            let added = match most {
                Some(most) => {
                    let of_others = (surplus[index] - most[index]).max(0);
                    let of_limited = limited[index].saturating_sub(last.limited[index]);
                    of_limited.saturating_add(u64::try_from(of_others).unwrap_or(u64::MAX))
                }
                None => device[index] - last.device[index],
            };
            self.counters[index] = self.counters[index].saturating_add(added);
        }
        self.remember(now_ns / SECOND_NS, surplus);
        let [rbytes, wbytes, rios, wios] = self.counters;
        let counters = Counters { rbytes, wbytes, rios, wios };
        DeviceSample { counters, in_flight_ios: 0, ..sample }
    }

    fn remember(&mut self, second: u64, surplus: Surplus) {
        match self.seconds.last_mut() {
            Some((last, most)) if *last == second => *most = larger(*most, surplus),
            _ => self.seconds.push((second, surplus)),
        }
        if self.seconds.len() > SECONDS {
            self.seconds.remove(0);
        }
    }
}

fn array(counters: Counters) -> [u64; 4] {
    let Counters { rbytes, wbytes, rios, wios } = counters;
    [rbytes, wbytes, rios, wios]
}

fn is_after(now: [u64; 4], before: [u64; 4]) -> bool {
    now.iter().zip(before).all(|(now, before)| *now >= before)
}

fn larger(a: Surplus, b: Surplus) -> Surplus {
    std::array::from_fn(|index| a[index].max(b[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_NS: u64 = 50_000_000;

    struct Meter {
        lag: Lag,
        now_ns: u64,
        others: u64,
        limited: u64,
        seen: Option<(u64, u64)>,
    }

    impl Meter {
        fn new() -> Meter {
            let mut meter =
                Meter { lag: Lag::default(), now_ns: 0, others: 0, limited: 0, seen: None };
            meter.tick(0, 0, 0);
            meter.tick(0, 0, 0);
            meter
        }

        /// What looks like others' in the tick, of `limited` and `others` more reads; `held` of the limited are not done.
        fn tick(&mut self, limited: u64, held: u64, others: u64) -> u64 {
            self.now_ns += TICK_NS;
            self.limited += limited;
            self.others += others;
            let count = |rios| Counters { rios, ..Counters::default() };
            let counters = count(self.limited + self.others - held);
            let sample = DeviceSample { counters, used_ns: 0, in_flight_ios: 3 };
            let seen = self.lag.correct(self.now_ns, sample, count(self.limited));
            let now = (seen.counters.rios, self.limited);
            let before = self.seen.replace(now).unwrap_or(now);
            (now.0 - before.0) - (now.1 - before.1)
        }
    }

    #[test]
    fn what_a_limit_lets_go_is_not_others() {
        let mut meter = Meter::new();
        for held in [8, 8, 3, 0, 8, 1, 8, 0] {
            assert_eq!(meter.tick(10, held, 0), 0, "{held} held");
        }
    }

    #[test]
    fn what_others_do_is_seen_at_once_and_whole() {
        let mut meter = Meter::new();
        let mut seen = 0;
        for held in [0, 8, 2, 5, 8, 3, 0] {
            seen += meter.tick(10, held, 20);
        }
        assert_eq!(seen, 7 * 20);
        // Nothing is let go for minutes, and others begin.
        assert_eq!(meter.tick(10, 8, 0), 0);
        for _ in 0..3_000 {
            assert_eq!(meter.tick(1, 8, 0), 0);
        }
        assert_eq!(meter.tick(1, 8, 5), 5);
    }

    #[test]
    fn another_device_is_told_as_it_is() {
        let mut lag = Lag::default();
        let sample = |rios| DeviceSample {
            counters: Counters { rios, ..Counters::default() },
            ..DeviceSample::default()
        };
        lag.correct(0, sample(100), Counters::default());
        assert_eq!(lag.correct(TICK_NS, sample(110), Counters::default()).counters.rios, 110);
        assert_eq!(lag.correct(2 * TICK_NS, sample(7), Counters::default()), sample(7));
        assert_eq!(lag.correct(3 * TICK_NS, sample(9), Counters::default()).counters.rios, 9);
    }
}
