//! Simulation of a device thread: the reactor with the real engine and cache, on a simulated ring, with faults, all drawn
//! from a seed.
//!
//! ```text
//!  plan (seed) ─► world: clients, sockets, disk, clock, faults ◄─ DeviceRing ─► Reactor ─► engine, cache
//!                    │
//!                    ▼
//!                 checker: bytes that reads return, bytes that survive, answers that come
//! ```
//!
//! While faults last, only safety is checked; then they stop and everything must be answered and drained. `make test` runs
//! 2,000 seeds. A failure prints its seed and the command that runs it again.

mod checker;
mod client;
mod disk;
mod plan;
mod recorded;
mod rng;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};

use weir_config::Config;
use weir_disk::Spec;
use weir_engine::{Engine, Instant, Path};
use weir_nbd::{BlockSizes, Export, ExportId, Features};
use weir_recording::RecordedEngine;
use weir_uring::Backend;

use self::checker::{Checker, Counts};
use self::plan::Plan;
use self::recorded::Recorded;
use self::rng::Rng;
use self::world::{SimulatedRing, World};
use super::reactor::Reactor;
use super::{DeviceError, DeviceFacts, DeviceHandle, Setup, commands};
use crate::access::Peers;
use crate::command::{Command, Setting};
use crate::device;
use crate::exports::{DeviceId, ExportTable, Served};
use crate::registry::{Registry, Tables};
use crate::seats::Seats;
use crate::status::{CgroupStatus, DeviceStatus};

/// Seeds of `make test`.
const SEEDS: u64 = 2000;
/// One seed of so many is recorded and replayed.
const SEEDS_A_RECORDING: u64 = 8;
/// Seeds between two lines of progress.
const PROGRESS: u64 = 20_000;

fn exports(plan: &Plan) -> ExportTable {
    let mut table = ExportTable::default();
    let size = plan.device_bytes / plan.exports as u64;
    for number in 0..plan.exports {
        let features = Features {
            flush: true,
            fua: true,
            trim: true,
            write_zeroes: true,
            fast_zero: true,
            multi_conn: true,
            cache: true,
            ..Features::default()
        };
        let nbd = Export {
            id: ExportId(number as u32),
            name: format!("e{number}"),
            description: String::new(),
            size,
            features,
            block_sizes: BlockSizes::DEFAULT,
        };
        let cgroup = cgroup(number);
        let (device, start) = (DeviceId(0), number as u64 * size);
        let (connections_max, client_max) = (u32::MAX, plan.client_max[number]);
        let counters = Arc::default();
        let served = Served { nbd, device, cgroup, start, connections_max, client_max, counters };
        table.push(Arc::new(served));
    }
    table
}

fn cgroup(export: usize) -> Path {
    Path::parse(&format!("/e{export}")).expect("a path")
}

fn handle(plan: &Plan) -> (DeviceHandle, mpsc::Receiver<Command>) {
    let text = "[device.disk]\npath = \"memory:1M\"\n[export.e]\ndevice = \"disk\"\ncgroup = \"/\"";
    let config = Config::from_str("simulation", text).expect("a configuration");
    let facts = DeviceFacts {
        size: plan.device_bytes,
        read_only: false,
        block_bytes: 512,
        is_rotational: false,
    };
    device::prepare(DeviceId(0), &config.devices[0], Arc::new(facts))
}

fn setup(plan: &Plan, handle: DeviceHandle) -> Setup {
    let model = plan.model.map(|text| text.parse::<Spec>().expect("a model").build());
    let exports = exports(plan);
    let registry = Arc::new(Registry::default());
    registry.replace(Tables {
        devices: vec![handle.clone()],
        exports: exports.clone(),
        peers: Peers::default(),
    });
    Setup {
        name: "disk".into(),
        path: "simulated".into(),
        backend: Backend::memory(plan.device_bytes).expect("memory"),
        model,
        engine: plan.engine,
        part_bytes_max: plan.part_bytes_max,
        cache: plan.cache,
        recorder: None,
        settings: Vec::new(),
        exports: exports.iter().map(|export| export.place()).collect(),
        registry,
        handle,
        presence: Arc::default(),
        drain_ns: plan.drain_ns,
        seats: Arc::new(Seats::new(plan.connections_max, u32::MAX)),
        cgroups_max: 100,
    }
}

/// Runs one seed.
///
/// # Errors
/// What must not have happened.
fn run(seed: u64) -> Result<(), String> {
    let plan = Plan::draw(seed);
    let pool_bytes = plan.pool_bytes;
    let (handle, commands) = handle(&plan);
    let (sender, board) = (handle.sender(), Arc::clone(&handle.board));
    let world = World::new(seed, Plan::draw(seed), sender).map_err(|error| error.to_string())?;
    let setup = setup(&plan, handle);
    let now = Instant::from_nanos(world.now_ns);
    let mut engine = RecordedEngine::new(Engine::new(plan.engine, now));
    let recorded = match seed.is_multiple_of(SEEDS_A_RECORDING) {
        true => Some(Recorded::start(&mut engine, now)?),
        false => None,
    };
    for (export, limits) in plan.limits.iter().enumerate() {
        commands::set(&mut engine, now, &cgroup(export), Setting::Limits(*limits))
            .map_err(|error| format!("limits: {error}"))?;
    }
    let world = Rc::new(RefCell::new(world));
    let ring =
        SimulatedRing::new(Rc::clone(&world), pool_bytes).map_err(|error| error.to_string())?;
    let mut reactor =
        Reactor::new(setup, engine, Box::new(ring)).map_err(|error| error.to_string())?;
    let ended = reactor.run(&commands);
    if let Some(recorded) = recorded {
        recorded.check(&mut reactor.engine).map_err(|error| format!("the recording: {error}"))?;
    }
    let mut world = world.borrow_mut();
    if let Some(violation) = world.violation.take() {
        return Err(format!("{violation}; {}", describe(&reactor)));
    }
    world.deliver_rest().map_err(|error| format!("at the end: {error}"))?;
    reactor.engine.check().map_err(|error| format!("the engine: {error}"))?;
    let audit = reactor.engine.audit();
    if !audit.balances() {
        return Err(format!("the audit does not balance: {audit:?}"));
    }
    let is_cut = matches!(ended, Err(DeviceError::Cut(_)));
    let counts = match ended {
        Err(DeviceError::Ring(_)) if world.has_crashed => Counts::Durable,
        Err(DeviceError::Cut(_)) if !reactor.io.requests.is_empty() => Counts::Durable,
        Ok(()) | Err(DeviceError::Cut(_)) => Counts::Drained,
        Err(
            DeviceError::Lost { .. }
            | DeviceError::LastFlush { .. }
            | DeviceError::UntoldFlush { .. }
            | DeviceError::NotFlushed { .. },
        ) => Counts::Durable,
        Err(error) => return Err(format!("the loop ended with {error}")),
    };
    if counts == Counts::Drained {
        check_drained(&reactor, &plan)?;
    }
    // Those that a cache holds back, or that fail because the device is gone or the drain took too long, are blamed on
    // nothing.
    if !plan.faults.gone
        && !is_cut
        && plan.cache.is_none()
        && let Some(status) = &mut world.status
    {
        let report = status.try_recv().map_err(|error| format!("no status: {error}"))?;
        let status = board.look().device_status(report);
        let all_replied = plan.faults.reset == 0
            && !plan.faults.closes_exports
            && status.connections_dropped == 0;
        check_blame(&status, all_replied).map_err(|error| format!("blame: {error}"))?;
    }
    let World { disk, checker, .. } = &mut *world;
    check_image(&disk.crash(&mut Rng::new(seed)), checker, counts)
        .map_err(|error| format!("after {counts:?}: {error}"))
}

fn check_image(image: &[u64], checker: &Checker, counts: Counts) -> Result<(), String> {
    for (unit, &value) in image.iter().enumerate() {
        checker.check(unit as u64, value, u64::MAX, counts)?;
    }
    Ok(())
}

/// What the device thread has inside.
fn describe(reactor: &Reactor) -> String {
    let requests = reactor.io.requests.iter().map(|(key, pending)| {
        let state = if pending.ticket.is_some() { "dispatched" } else { "waits" };
        format!("{key} {state} {:?} {:?}", pending.command, pending.piece)
    });
    let requests: Vec<_> = requests.collect();
    format!("inside: {:?}, {:?}", requests, reactor.engine.device())
}

/// Whether nothing is left of what was served.
fn check_drained(reactor: &Reactor, plan: &Plan) -> Result<(), String> {
    let io = &reactor.io;
    let cgroups = reactor.engine.cgroup_count() as usize;
    let left = [
        ("connections", io.connections.len()),
        // Those of the exports and the root stay.
        ("cgroups of clients", cgroups - 1 - plan.exports),
        ("requests", io.requests.len()),
        ("bytes of buffers", io.ring.pool().in_use()),
    ];
    match left.into_iter().find(|&(_, count)| count > 0) {
        Some((what, count)) => {
            Err(format!("{count} {what} are left at the end; {}", describe(reactor)))
        }
        None => Ok(()),
    }
}

/// Whether the waits that each cgroup is told of add up to the time that its requests were inside: to more, where some were
/// not replied to because their connection had ended.
fn check_blame(status: &DeviceStatus, all_replied: bool) -> Result<(), String> {
    for cgroup in &status.cgroups {
        let limits = cgroup.wait.limits.iter().map(|limit| limit.wait_ns.sum());
        let beside = cgroup.wait.beside_limits().into_iter().map(|(_, wait_ns)| wait_ns);
        let blamed_ns: u64 = limits.chain(beside).sum();
        let is_right = match all_replied {
            true => blamed_ns == cgroup.inside_ns,
            false => blamed_ns >= cgroup.inside_ns,
        };
        if !is_right {
            let CgroupStatus { cgroup, inside_ns, replied_ios, wait, .. } = cgroup;
            return Err(format!(
                "{blamed_ns} ns are blamed on causes and {replied_ios} requests of {cgroup} were inside for \
                 {inside_ns}: {wait:?}"
            ));
        }
    }
    Ok(())
}

/// Runs one seed; what went wrong, if anything.
fn failure(seed: u64) -> Option<String> {
    match std::panic::catch_unwind(|| run(seed)) {
        Ok(result) => result.err(),
        Err(panic) => Some(match panic.downcast::<String>() {
            Ok(text) => format!("panic: {text}"),
            Err(panic) => format!("panic: {:?}", panic.downcast::<&str>()),
        }),
    }
}

/// Runs seeds from `first` on, on all cores, and tells of one that fails.
fn run_seeds(first: u64, count: u64) {
    let next = AtomicU64::new(first);
    let failed = OnceLock::new();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let done = seed - first;
            if done >= count || failed.get().is_some() {
                return;
            }
            if done > 0 && done.is_multiple_of(PROGRESS) {
                eprintln!("{done} of {count} seeds");
            }
            if let Some(failure) = failure(seed) {
                failed.get_or_init(|| (seed, failure));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    if let Some((seed, failure)) = failed.get() {
        let plan = Plan::draw(*seed);
        panic!("{plan:#?}\nseed {seed}: {failure}\n  again: make soak SEED={seed} SEEDS=1");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_answer_and_every_byte_is_right_under_faults() {
    run_seeds(number("WEIR_SEED").unwrap_or(0), number("WEIR_SEEDS").unwrap_or(SEEDS));
}

/// A client got a limit, and with it a cgroup, while requests of it were inside: these count where they were submitted.
#[test]
fn requests_count_in_the_cgroup_that_they_were_submitted_in() {
    run_seeds(72_156, 1);
}

/// Such a request had waited for memory, or for its payload, before it was submitted.
#[test]
fn waits_before_a_request_was_submitted_count_in_the_same_cgroup() {
    run_seeds(557_619, 1);
    run_seeds(625_928, 1);
}

/// A sync failed and lost the first piece of zeroes with FUA, between that and the last one, whose sync succeeded.
#[test]
fn durable_zeroes_fail_when_a_sync_has_failed_between_their_pieces() {
    run_seeds(152_260, 1);
}

/// A slow client was dropped for the memory that it held: what it was not replied to had waited, and was not inside.
#[test]
fn waits_are_more_than_the_time_inside_where_a_connection_was_dropped() {
    run_seeds(386_733, 1);
}

/// A client tries to send every 25 µs, for as long as the server is held back by a low limit.
#[test]
fn a_client_that_cannot_send_is_no_loop_without_progress() {
    run_seeds(642_017, 1);
}

/// Bytes that a failed sync had lost, and a connection that came later was not told of; then zeroes in the same place failed.
#[test]
fn a_request_that_fails_is_no_loss_of_what_was_acknowledged_before_it() {
    run_seeds(709_622, 1);
}

/// A read at the device waited for 64 KiB. There were 2.9 MB, but no such piece, and what had the rest waited for the device.
#[test]
fn a_read_does_not_wait_for_memory_that_is_left_in_pieces() {
    run_seeds(952_057, 1);
}

/// The recording ended with a request at the device, and with no turn to come: its dispatch is told of in the last row.
#[test]
fn a_request_at_the_device_when_a_recording_ends_is_compared() {
    run_seeds(520_664, 1);
}

/// A drain is cut while the device has a slow request of a client that is gone: others are answered where they wait.
#[test]
fn requests_that_a_cut_drain_answers_are_blamed_on_nothing() {
    run_seeds(566_898, 1);
}
