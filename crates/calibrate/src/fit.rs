//! Fit of the linear model to measured rates.

use weir_engine::utilisation::{CostFigures, CostModel};
use weir_engine::{Direction, Op};

use crate::load::{Load, Order, Step};
use crate::places::{PAGE, Room};
use crate::plan::{self, LONG};

/// A device in the figures of the linear model, with its streams and latency.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// Bytes on the device.
    pub size: u64,
    /// Figures of reads alone.
    pub reads: CostFigures,
    /// Figures of writes alone, if measured.
    pub writes: Option<CostFigures>,
    /// Sequential streams that it follows at once, 1 to 64.
    pub streams: u32,
    /// Latency of a lone random read beyond its price; it overlaps with other requests.
    pub latency_ns: u64,
}

impl Model {
    /// Prices of requests. Without measured writes, a write costs as much as a read.
    pub fn costs(&self) -> CostModel {
        CostModel::new(self.reads, self.writes.unwrap_or(self.reads))
    }
}

/// A load that the model was not fitted to: predicted and measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Check {
    /// Measured rate.
    pub step: Step,
    /// Requests a second, by the model.
    pub foretold_per_sec: f64,
}

impl Check {
    /// Relative error: 0.1 is 10 % more than predicted, -0.1 is 10 % less.
    pub fn deviation(&self) -> f64 {
        self.step.per_sec() / self.foretold_per_sec - 1.0
    }
}

/// Result of a calibration.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The figures.
    pub model: Model,
    /// All steps, in order.
    pub steps: Vec<Step>,
    /// Test of the model on other loads: random requests of 64 KiB.
    pub checks: Vec<Check>,
}

/// The largest figures that a disk of the linear model can have.
const BYTES_PER_SEC_MAX: f64 = (1u64 << 40) as f64;
const IOPS_MAX: f64 = 1e9;

/// The model for these results; `None` if a load is missing.
pub(crate) fn fit(room: Room, steps: Vec<Step>) -> Option<Outcome> {
    let reads = figures(&steps, Direction::Read)?;
    let writes = figures(&steps, Direction::Write);
    let mut model =
        Model { size: room.size(), reads, writes, streams: plan::streams(&steps), latency_ns: 0 };
    let [.., random] = plan::shapes(Direction::Read);
    let alone = steps.iter().find(|step| step.load == random)?;
    model.latency_ns = (alone.latency_ns() - price_ns(&model, &random)).max(0.0) as u64;
    let checks = Direction::BOTH
        .into_iter()
        .filter_map(|direction| plan::best(&steps, &plan::trial(direction)))
        .map(|step| Check { step: *step, foretold_per_sec: 1e9 / price_ns(&model, &step.load) })
        .collect();
    Some(Outcome { model, steps, checks })
}

/// Price of a request of the load.
fn price_ns(model: &Model, load: &Load) -> f64 {
    let op = match load.direction {
        Direction::Read => Op::Read,
        Direction::Write => Op::Write,
    };
    let is_sequential = matches!(load.order, Order::Sequential { .. });
    model.costs().price(op, load.len, is_sequential).units() as f64 * 1e9 / (1u64 << 37) as f64
}

/// The figures of a direction, from the best rate of each of its loads.
///
/// The rate in bytes is that of an endless request: the difference in time between a long and a short sequential request
/// is the time of the pages between them. If the long one takes no longer, the rate is its own.
fn figures(steps: &[Step], direction: Direction) -> Option<CostFigures> {
    let [long, short, random] = plan::shapes(direction);
    let best = |shape| plan::best(steps, shape);
    let (long, short, random) = (best(&long)?, best(&short)?, best(&random)?);
    let pages = f64::from(LONG) / PAGE as f64;
    let slope = (long.price_ns() - short.price_ns()) / (pages - 1.0);
    let page = if slope > 0.0 { slope } else { long.price_ns() / pages };
    let figure = |rate: f64, most: f64| rate.round().clamp(1.0, most) as u64;
    CostFigures::new(
        figure(PAGE as f64 * 1e9 / page, BYTES_PER_SEC_MAX).max(PAGE),
        figure(short.per_sec(), IOPS_MAX),
        figure(random.per_sec(), IOPS_MAX),
    )
}
