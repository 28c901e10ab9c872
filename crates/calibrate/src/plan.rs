//! Plan of a calibration: the next load, from what has been measured so far.

use weir_engine::Direction;
use weir_engine::utilisation::Positions;

use crate::load::{Load, Order, Step};
use crate::places::Room;

/// How a device is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Measures writes as well; this destroys the data on the device.
    pub writes: bool,
    /// Most requests at the device at once, at least 1; 256 by default.
    pub depth_max: u32,
    /// Shortest step of reads; half a second by default. Writes take four times as long, since caches absorb the first ones.
    /// A step that has not settled by then continues for up to 16 times as long.
    pub step_ns: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { writes: false, depth_max: 256, step_ns: 500_000_000 }
    }
}

impl Settings {
    /// The shortest length of a step.
    pub(crate) fn shortest_ns(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => self.step_ns,
            Direction::Write => self.step_ns.saturating_mul(4),
        }
    }

    /// Stages, in this order.
    pub(crate) fn directions(&self) -> impl Iterator<Item = Direction> {
        Direction::BOTH.into_iter().filter(|&direction| direction == Direction::Read || self.writes)
    }
}

/// Lengths of requests measured by bytes, and by number.
pub(crate) const LONG: u32 = 1 << 20;
pub(crate) const SHORT: u32 = 4096;

/// Length of the requests that the model is tested on.
const TRIED: u32 = 64 << 10;

/// Factor from one depth to the next.
const DEPTH_STEP: u32 = 4;

/// Least gain that makes the next depth worth trying.
const GAIN_MIN: f64 = 1.03;

/// Most bytes at the device at once: more only fills memory.
const IN_FLIGHT_MAX: u32 = 64 << 20;

/// Least ratio of random to sequential cost at which streams can be counted, and matter.
const RANDOM_MIN: f64 = 1.25;

/// Least distance of two streams; nearer ones would be one.
const STREAM_PART_MIN: u64 = 64 << 20;

/// Loads that give a direction's figures: long, sequential and random requests, at any depth.
pub(crate) fn shapes(direction: Direction) -> [Load; 3] {
    let one = Order::Sequential { streams: 1 };
    [(one, LONG), (one, SHORT), (Order::Random, SHORT)].map(|(order, len)| Load {
        direction,
        order,
        len,
        depth: 1,
    })
}

/// Load that a direction's model is tested on.
pub(crate) fn trial(direction: Direction) -> Load {
    Load { direction, order: Order::Random, len: TRIED, depth: 1 }
}

/// The step of that shape with the highest rate, at any depth.
pub(crate) fn best<'a>(steps: &'a [Step], shape: &Load) -> Option<&'a Step> {
    let alike = steps.iter().filter(|step| step.load.is_alike(shape));
    alike.max_by(|a, b| a.per_sec().total_cmp(&b.per_sec()))
}

/// The least depth at which requests of that shape come near their highest rate.
fn knee(steps: &[Step], shape: &Load) -> Option<u32> {
    let enough = best(steps, shape)?.per_sec() / GAIN_MIN;
    let alike = steps.iter().filter(|step| step.load.is_alike(shape));
    alike.filter(|step| step.per_sec() >= enough).map(|step| step.load.depth).min()
}

/// Number of sequential streams that the device follows.
pub(crate) fn streams(steps: &[Step]) -> u32 {
    let followed = steps.iter().filter_map(|step| match step.load.order {
        Order::Sequential { streams } if is_followed(steps, step) => Some(streams),
        _ => None,
    });
    followed.max().unwrap_or(1)
}

/// Whether the rate of streams is nearer to sequential than to random.
fn is_followed(steps: &[Step], step: &Step) -> bool {
    let [_, sequential, random] = shapes(Direction::Read);
    match (best(steps, &sequential), best(steps, &random)) {
        (Some(sequential), Some(random)) => {
            step.price_ns() <= (sequential.price_ns() + random.price_ns()) / 2.0
        }
        _ => false,
    }
}

/// The next load; `None` when all is measured.
pub(crate) fn next(settings: &Settings, room: Room, steps: &[Step]) -> Option<Load> {
    settings.directions().find_map(|direction| {
        let deeper = || shapes(direction).iter().find_map(|shape| climb(settings, steps, shape));
        let more_streams = || match direction {
            Direction::Read => spread(room, steps),
            Direction::Write => None,
        };
        deeper().or_else(more_streams).or_else(|| try_out(steps, direction))
    })
}

/// The same load at the next depth, as long as that gains.
fn climb(settings: &Settings, steps: &[Step], shape: &Load) -> Option<Load> {
    let most = settings.depth_max.min(IN_FLIGHT_MAX / shape.len).max(1);
    let done: Vec<&Step> = steps.iter().filter(|step| step.load.is_alike(shape)).collect();
    let depth = match done[..] {
        [] => 1,
        [.., before, last] if last.per_sec() < before.per_sec() * GAIN_MIN => return None,
        [.., last] if last.load.depth >= most => return None,
        [.., last] => last.load.depth.saturating_mul(DEPTH_STEP).min(most),
    };
    Some(Load { depth, ..*shape })
}

/// Twice as many streams, as long as they are followed.
fn spread(room: Room, steps: &[Step]) -> Option<Load> {
    let [_, one, random] = shapes(Direction::Read);
    if best(steps, &random)?.price_ns() < best(steps, &one)?.price_ns() * RANDOM_MIN {
        return None;
    }
    let most_asked = steps.iter().filter_map(|step| match step.load.order {
        Order::Sequential { streams } => Some((streams, is_followed(steps, step))),
        Order::Random => None,
    });
    let streams = match most_asked.max() {
        Some((streams, false)) if streams > 1 => return None,
        asked => asked.map_or(1, |(streams, _)| streams) * 2,
    };
    let has_room = room.size() / u64::from(streams) >= STREAM_PART_MIN;
    let depth = knee(steps, &one)?;
    (has_room && streams as usize <= Positions::STREAMS_MAX).then_some(Load {
        order: Order::Sequential { streams },
        depth,
        ..one
    })
}

/// The test load, once, at the depth of random requests.
fn try_out(steps: &[Step], direction: Direction) -> Option<Load> {
    let shape = trial(direction);
    let [.., random] = shapes(direction);
    let depth = knee(steps, &random)?;
    best(steps, &shape).is_none().then_some(Load { depth, ..shape })
}

/// Upper bound of the number of steps.
pub(crate) fn steps_max(settings: &Settings) -> usize {
    let depths = |most: u32| {
        1 + std::iter::successors(Some(1), |&depth| {
            (depth < most).then_some(depth.saturating_mul(DEPTH_STEP).min(most))
        })
        .skip(1)
        .count()
    };
    let of_direction = |direction| {
        let climbs = shapes(direction)
            .iter()
            .map(|shape| depths(settings.depth_max.min(IN_FLIGHT_MAX / shape.len).max(1)))
            .sum::<usize>();
        climbs + 1
    };
    let streams = Positions::STREAMS_MAX.ilog2() as usize;
    settings.directions().map(of_direction).sum::<usize>() + streams
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS: Settings = Settings { writes: false, depth_max: 256, step_ns: 1 };

    /// Loads that are given to a device with this service time, in order.
    fn asked(settings: Settings, size: u64, price_ns: impl Fn(&Load) -> u64) -> Vec<String> {
        let room = Room::new(size, 512).unwrap();
        let mut steps = Vec::new();
        while let Some(load) = next(&settings, room, &steps) {
            let elapsed_ns = price_ns(&load) * 1000;
            steps.push(Step { load, requests: 1000, elapsed_ns, is_steady: true });
            assert!(steps.len() <= steps_max(&settings), "{steps:?}");
        }
        steps.iter().map(|step| format!("{} at {}", step.load, step.load.depth)).collect()
    }

    #[test]
    fn depths_rise_while_that_gains_and_streams_while_they_are_followed() {
        // Sequential requests do not gain, random ones do up to 16; five streams are followed.
        let price = |load: &Load| match load.order {
            Order::Sequential { streams: 1..=5 } => u64::from(load.len),
            Order::Sequential { .. } => 100_000,
            Order::Random => 100_000 / u64::from(load.depth.min(10)),
        };
        let wanted = [
            "sequential reads of 1 MiB at 1",
            "sequential reads of 1 MiB at 4",
            "sequential reads of 4 KiB at 1",
            "sequential reads of 4 KiB at 4",
            "random reads of 4 KiB at 1",
            "random reads of 4 KiB at 4",
            "random reads of 4 KiB at 16",
            "random reads of 4 KiB at 64",
            "2 streams of reads of 4 KiB at 1",
            "4 streams of reads of 4 KiB at 1",
            "8 streams of reads of 4 KiB at 1",
            "random reads of 64 KiB at 16",
        ];
        assert_eq!(asked(READS, 1 << 40, price), wanted);
        // A small device has no room for as many streams.
        let seen = asked(READS, 128 << 20, price);
        assert_eq!(seen.iter().filter(|step| step.contains("streams")).count(), 1);
    }

    #[test]
    fn where_order_does_not_matter_no_streams_are_counted() {
        let writes = Settings { writes: true, depth_max: 6, ..READS };
        let seen = asked(writes, 1 << 40, |load| 1_000_000 / u64::from(load.depth));
        let depths: Vec<u32> =
            seen.iter().map(|step| step.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(depths, [1, 4, 6, 1, 4, 6, 1, 4, 6, 6, 1, 4, 6, 1, 4, 6, 1, 4, 6, 6]);
        assert!(seen[10].contains("writes") && seen.iter().all(|step| !step.contains("streams")));
    }

    #[test]
    fn long_requests_are_not_piled_up() {
        let seen = asked(READS, 1 << 40, |load| 1_000_000_000 / u64::from(load.depth));
        let deepest = |what: &str| seen.iter().rfind(|step| step.contains(what)).unwrap().clone();
        assert_eq!(deepest("1 MiB"), "sequential reads of 1 MiB at 64");
        assert_eq!(deepest("random reads of 4 KiB"), "random reads of 4 KiB at 256");
        assert_eq!(seen.len() + 6, steps_max(&READS));
    }
}
