//! Share of each cgroup in the time of a device with a model.

use weir_engine::utilisation::{Capacity, CostFigures, CostModel};
use weir_engine::{CgroupId, Config, Engine, Extent, Instant, Op, Outcome, Path, Request, TaskId};

use crate::support;

/// Pages of 4 KiB take 1/1024 s, requests in order as little as their pages, and random ones 1/32 s.
fn engine(is_measured: bool) -> Engine {
    let figures = CostFigures::new(4 << 20, 1024, 32).unwrap();
    let capacity = Capacity { costs: CostModel::new(figures, figures), streams: 1 };
    let config = Config { capacity: is_measured.then_some(capacity), ..Config::default() };
    Engine::new(config, Instant::ZERO)
}

fn client(engine: &mut Engine, path: &str) -> (CgroupId, TaskId) {
    let cgroup = support::cgroup(engine, path);
    (cgroup, support::task(engine, cgroup))
}

fn serve(engine: &mut Engine, task: TaskId, op: Op, extent: Extent) {
    engine.submit(Instant::ZERO, Request::new(task, op, extent, 0)).unwrap();
    while let Some(dispatch) = engine.poll_dispatch(Instant::ZERO) {
        engine.complete(Instant::ZERO, dispatch.ticket, Outcome::Done);
    }
}

#[test]
fn a_request_is_counted_at_its_price_for_its_cgroup() {
    let mut engine = engine(true);
    let (random, random_task) = client(&mut engine, "/vms/random");
    let (stream, stream_task) = client(&mut engine, "/vms/stream");
    for number in 0..4 {
        // As many requests of each, and far from each other.
        serve(&mut engine, random_task, Op::Read, Extent::new((1 + number) << 32, 4096));
        serve(&mut engine, stream_task, Op::Write, Extent::new(0, 1 << 20));
    }
    serve(&mut engine, stream_task, Op::Flush, Extent::new(0, 0));
    let modelled = |cgroup| engine.counters(cgroup, true).unwrap().modelled_ns;
    // A random page is 1/32 s; a mebibyte, begun far from the last request, 1/32 s and 255 pages more.
    let ms = 1_000_000_000.0 / 1024.0;
    let near = |found: u64, wanted: f64| (found as f64 - wanted).abs() < 100.0;
    assert!(near(modelled(random), 4.0 * 32.0 * ms), "{}", modelled(random));
    assert!(near(modelled(stream), 4.0 * (32.0 + 255.0) * ms), "{}", modelled(stream));
    let parent = engine.ensure_cgroup(&Path::parse("/vms").unwrap()).unwrap();
    let all = engine.counters(parent, true).unwrap().modelled_ns;
    assert_eq!(
        all,
        engine.counters(random, true).unwrap().modelled_ns
            + engine.counters(stream, true).unwrap().modelled_ns
    );
}

#[test]
fn no_time_is_counted_without_a_model() {
    let mut engine = engine(false);
    let (cgroup, task) = client(&mut engine, "/vms");
    serve(&mut engine, task, Op::Read, Extent::new(1 << 32, 4096));
    assert_eq!(engine.counters(cgroup, true).unwrap().modelled_ns, 0);
}
