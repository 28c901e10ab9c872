//! A vocabulary for scenarios: engines, cgroups, tasks, requests, limits and settings.
//!
//! Each of these panics where the engine refuses; a scenario about refusals asks the engine itself.

use std::num::NonZeroU32;

use weir_engine::settings::BfqSettings;
use weir_engine::{
    CgroupId, Change, ClientId, Config, Engine, Extent, Instant, LimiterKind, Limits, Op, Path,
    PerDimension, Request, RequestId, SchedulerKind, TaskId, Weight,
};

pub(crate) const KIB: u32 = 1 << 10;
pub(crate) const MIB: u32 = 1 << 20;
pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// A device with a scheduler that takes `depth` requests at once.
pub(crate) fn config(scheduler: SchedulerKind, depth: u32) -> Config {
    let depth = NonZeroU32::new(depth).expect("a depth");
    Config { depth, scheduler, ..Config::default() }
}

pub(crate) fn engine(config: Config) -> Engine {
    Engine::new(config, Instant::ZERO)
}

/// An engine with `scheduler = "bfq"`.
pub(crate) fn bfq(depth: u32) -> Engine {
    engine(config(SchedulerKind::Bfq, depth))
}

/// The same for a disk that seeks, or not, and with settings as in `[device.NAME.bfq]`.
pub(crate) fn bfq_on(rotational: bool, depth: u32, settings: &str) -> Engine {
    let bfq = settings_of(BfqSettings::DEFAULT, settings);
    engine(Config { rotational, bfq, ..config(SchedulerKind::Bfq, depth) })
}

pub(crate) fn settings_of(kept: BfqSettings, changed: &str) -> BfqSettings {
    weir_text::parse_bfq(changed, kept).expect(changed)
}

/// Changes settings of bfq, such as `slice_idle=0`.
pub(crate) fn tune(engine: &mut Engine, now: Instant, changed: &str) {
    let settings = settings_of(engine.bfq_settings(), changed);
    engine.reconfigure(now, Change::SetBfq(settings)).expect("the same merge rules");
}

/// The cgroup at `path`, made with its ancestors if there is none.
pub(crate) fn cgroup(engine: &mut Engine, path: &str) -> CgroupId {
    engine.ensure_cgroup(&Path::parse(path).expect(path)).expect("room")
}

pub(crate) fn child(engine: &mut Engine, parent: CgroupId, name: &str, weight: u64) -> CgroupId {
    let cgroup = engine.create_cgroup(parent, name).expect("a name of its own");
    weigh(engine, Instant::ZERO, cgroup, weight);
    cgroup
}

pub(crate) fn weigh(engine: &mut Engine, now: Instant, cgroup: CgroupId, weight: u64) {
    let weight = Weight::new(weight).expect("a weight");
    engine.reconfigure(now, Change::SetWeight { cgroup, weight }).expect("a live cgroup");
}

/// Limits as in `io.max`, such as `rbps=4M`.
pub(crate) fn limits(limiter: LimiterKind, max: &str) -> Limits {
    let max = weir_text::parse_io_max(max, PerDimension::NONE).expect(max);
    Limits { max, limiter, ..Limits::default() }
}

pub(crate) fn limit(engine: &mut Engine, now: Instant, cgroup: CgroupId, limits: Limits) {
    engine.reconfigure(now, Change::SetLimits { cgroup, limits }).expect("valid limits");
}

/// A client with one task.
pub(crate) fn client(engine: &mut Engine, cgroup: CgroupId) -> (ClientId, TaskId) {
    let client = engine.open_client(cgroup).expect("a live cgroup");
    (client, engine.open_task(client).expect("a live client"))
}

/// A task of a client of its own.
pub(crate) fn task(engine: &mut Engine, cgroup: CgroupId) -> TaskId {
    client(engine, cgroup).1
}

pub(crate) fn read(task: TaskId, offset: u64, len: u32) -> Request {
    Request::new(task, Op::Read, Extent::new(offset, len), 0)
}

pub(crate) fn submit(engine: &mut Engine, now: Instant, request: Request) -> RequestId {
    engine.submit(now, request).expect("room")
}
