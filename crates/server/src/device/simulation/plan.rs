//! Plan of a run, drawn from its seed: what is served, to whom, and what goes wrong.

use std::num::NonZeroU32;

use weir_cache::Settings;
use weir_engine::{Config, Dimension, Direction, LimiterKind, Limits, PerDimension, SchedulerKind};
use weir_nbd::{Context, Contexts};

use super::checker::UNIT;
use super::rng::Rng;

const MS: u64 = 1_000_000;
const SEC: u64 = 1000 * MS;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) device_bytes: u64,
    pub(super) exports: usize,
    pub(super) pool_bytes: usize,
    pub(super) cache: Option<Settings>,
    pub(super) model: Option<&'static str>,
    pub(super) engine: Config,
    /// Longest part of a long trim, of zeroes or of a prefetch.
    pub(super) part_bytes_max: u32,
    /// Limits of the cgroup of each export.
    pub(super) limits: Vec<Limits>,
    /// Limits of each client of each export.
    pub(super) client_max: Vec<PerDimension>,
    pub(super) connections_max: u32,
    pub(super) clients: Vec<ClientPlan>,
    pub(super) faults: Faults,
    /// When faults stop.
    pub(super) faults_until_ns: u64,
    pub(super) end: End,
    pub(super) drain_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// Clients finish, then the server is drained.
    Quiet,
    /// The server is drained while clients are busy; a second time some time later, if told.
    Busy { at_ns: u64, again_ns: Option<u64> },
    /// Power is lost.
    Crash { at_ns: u64 },
}

/// How often things go wrong, in 1,000 times that they could.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Faults {
    pub(super) read_fails: u64,
    pub(super) write_fails: u64,
    pub(super) flush_fails: u64,
    /// Requests that take up to seconds.
    pub(super) slow: u64,
    pub(super) reset: u64,
    /// The device is gone for some time.
    pub(super) gone: bool,
    /// The control thread changes limits, scheduler and window.
    pub(super) changes: bool,
    /// It ends exports, with the connections that they have, and serves them again.
    pub(super) closes_exports: bool,
}

#[derive(Clone, Debug)]
pub(super) struct ClientPlan {
    pub(super) export: usize,
    /// Clients of one address are one client to the server.
    pub(super) address: u8,
    pub(super) requests: u32,
    pub(super) depth: usize,
    pub(super) len_max: u64,
    pub(super) structured: bool,
    pub(super) extended: bool,
    pub(super) contexts: Contexts,
    /// Longest time between two of its steps.
    pub(super) step_ns: u64,
    /// Bytes that it takes, or sends, at once.
    pub(super) chunk: usize,
    /// It takes no replies from some point on, until faults stop.
    pub(super) stops_reading: bool,
    pub(super) starts_ns: u64,
}

fn nonzero(value: u64) -> NonZeroU32 {
    NonZeroU32::new(value as u32).expect("drawn from 1 on")
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Plan {
        let rng = &mut Rng::new(seed);
        let device_bytes = rng.pick(&[16 << 10, 64 << 10, 64 << 10, 256 << 10, 256 << 10, 2 << 20]);
        let exports = rng.between(1, 2) as usize;
        let has_faults = rng.chance(700);
        let mut rate =
            |often: u64| if has_faults && rng.chance(400) { rng.between(1, often) } else { 0 };
        let faults = Faults {
            read_fails: rate(200),
            write_fails: rate(200),
            flush_fails: rate(300),
            slow: rate(100),
            reset: rate(40),
            gone: rate(1000) > 800,
            changes: rate(1000) > 300,
            closes_exports: rate(1000) > 500,
        };
        let cache = rng.chance(500).then(|| Settings {
            blocks_max: nonzero(rng.pick(&[8, 16, 64, 4096])),
            expire_ns: rng.pick(&[0, MS, 100 * MS, 5 * SEC]),
            retry_ns: rng.pick(&[MS, 100 * MS, SEC]),
            request_blocks_max: nonzero(rng.pick(&[1, 4, 128])),
            requests_per_owner_max: nonzero(rng.pick(&[1, 4, 16])),
        });
        // What the cache writes back is one piece.
        let written_back =
            cache.map_or(0, |cache| u64::from(cache.request_blocks_max.get()) * 4096);
        let piece_bytes = rng.pick(&[4096, 16 << 10, 1280 << 10]).max(written_back);
        let engine = Config {
            depth: nonzero(rng.pick(&[1, 2, 8, 32])),
            scheduler: rng.pick(&[SchedulerKind::None, SchedulerKind::Bfq]),
            rotational: rng.chance(500),
            requests_max: nonzero(rng.pick(&[4, 16, 256, 65_536])),
            requests_per_task_max: nonzero(rng.pick(&[2, 8, 1024])),
            piece_bytes_max: Some(nonzero(piece_bytes)),
            ..Config::default()
        };
        let limits = (0..exports).map(|_| draw_limits(rng)).collect();
        let client_max = (0..exports).map(|_| draw_client_max(rng, cache.is_some())).collect();
        let count = rng.between(1, 6);
        let clients = (0..count).map(|_| draw_client(rng, exports, device_bytes)).collect();
        let within_ns = rng.pick(&[5 * MS, 100 * MS, 2 * SEC]);
        let at_ns = rng.below(within_ns);
        let end = match rng.below(4) {
            0 => End::Crash { at_ns },
            1 => {
                let again_ns = rng.chance(300).then(|| at_ns + rng.below(2 * SEC));
                End::Busy { at_ns, again_ns }
            }
            _ => End::Quiet,
        };
        Plan {
            device_bytes,
            exports,
            pool_bytes: rng.pick(&[4, 8, 128, 384]) << 20,
            cache,
            model: rng.chance(150).then(|| {
                rng.pick(&["null,rate=100M,latency=100us,size=4G", "hdd7200", "ssd-sata"])
            }),
            engine,
            part_bytes_max: rng.pick(&[8192, 64 << 10, 1 << 30]),
            limits,
            client_max,
            connections_max: rng.pick(&[2, 100]),
            clients,
            faults,
            faults_until_ns: rng.pick(&[50 * MS, 200 * MS, SEC]),
            end,
            drain_ns: rng.pick(&[0, 10 * MS, SEC, 30 * SEC]),
        }
    }
}

fn draw_limits(rng: &mut Rng) -> Limits {
    if rng.chance(400) {
        return Limits::default();
    }
    let max = draw_rates(rng);
    let limiter = rng.pick(&[LimiterKind::Pace, LimiterKind::Token, LimiterKind::Leaky]);
    Limits { max, limiter, ..Limits::default() }
}

/// A configuration limits no writes of a client where there is a cache.
fn draw_client_max(rng: &mut Rng, is_cached: bool) -> PerDimension {
    if rng.chance(600) {
        return PerDimension::NONE;
    }
    let mut max = draw_rates(rng);
    for dimension in Dimension::ALL {
        if is_cached && dimension.limits(Direction::Write) {
            max.set(dimension, None);
        }
    }
    max
}

fn draw_rates(rng: &mut Rng) -> PerDimension {
    let mut max = PerDimension::NONE;
    for dimension in Dimension::ALL {
        if rng.chance(250) {
            let rate = match dimension.resource() {
                weir_engine::Resource::Bytes => rng.between(256 << 10, 64 << 20),
                weir_engine::Resource::Ios => rng.between(50, 5000),
            };
            max = max.with(dimension, rate);
        }
    }
    max
}

fn draw_client(rng: &mut Rng, exports: usize, device_bytes: u64) -> ClientPlan {
    let most = device_bytes / exports as u64;
    ClientPlan {
        export: rng.below(exports as u64) as usize,
        address: rng.between(1, 3) as u8,
        requests: rng.pick(&[1, 10, 40]),
        depth: rng.pick(&[1, 4, 16]),
        len_max: rng.pick(&[UNIT, 4096, 4096, 16 << 10, 64 << 10, 1 << 20]).min(most),
        structured: rng.chance(700),
        extended: rng.chance(400),
        contexts: Context::ALL.into_iter().filter(|_| rng.chance(700)).collect(),
        step_ns: rng.pick(&[50_000, 500_000, 20 * MS]),
        chunk: rng.pick(&[7, 512, 16 << 10, 1 << 20]),
        stops_reading: rng.chance(80),
        starts_ns: rng.below(50 * MS),
    }
}
