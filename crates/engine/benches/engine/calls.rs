//! Single calls of the engine, for `tools/callgrind-files`: the source files that each enters.
//!
//! BFQ, a limit of 200 reads a second on `/vms` and of 100 on `/vms/a`, bursts of one. Flow and cgroups have had
//! requests before, one of which had to wait, except in `submit-first`.

use std::hint::black_box;

use weir_engine::{
    Change, Config, Dimension, Engine, Extent, Instant, Limits, Op, Outcome, Path, PerDimension,
    Request, SchedulerKind, TaskId, Ticket,
};

/// The option with which this program makes one of the calls; without a name it prints all names.
pub(crate) const CALL_OPTION: &str = "--callgrind-call";

/// Name of each call, and what makes it.
const CALLS: [(&str, fn()); 6] = [
    ("submit-throttled", submit_throttled),
    ("submit", submit),
    ("submit-first", submit_first),
    ("timeout", timeout),
    ("dispatch", dispatch),
    ("complete", complete),
];

/// Makes the call `name`, or prints the names.
pub(crate) fn run(name: Option<&str>) {
    match name {
        Some(name) => {
            let call = CALLS.iter().find(|(known, _)| *known == name);
            call.expect("one of the names of the table").1();
        }
        None => CALLS.iter().for_each(|(name, _)| println!("{name}")),
    }
}

/// Runs `call`, and nothing else: callgrind collects only below this function.
#[inline(never)]
fn measured_call<T>(call: impl FnOnce() -> T) -> T {
    black_box(call())
}

/// A tenant below two limits.
struct Tenant {
    engine: Engine,
    task: TaskId,
    now: Instant,
}

impl Tenant {
    /// A tenant without a request so far.
    fn new() -> Tenant {
        let config = Config { scheduler: SchedulerKind::Bfq, ..Config::default() };
        let mut engine = Engine::new(config, Instant::ZERO);
        for (path, riops) in [("/vms", 200), ("/vms/a", 100)] {
            let path = Path::parse(path).expect("a valid path");
            let cgroup = engine.ensure_cgroup(&path).expect("a valid path");
            let max = PerDimension::NONE.with(Dimension::Riops, riops);
            let burst = PerDimension::NONE.with(Dimension::Riops, 1);
            let limits = Limits { max, burst, ..Limits::default() };
            let change = Change::SetLimits { cgroup, limits };
            engine.reconfigure(Instant::ZERO, change).expect("limits that make sense");
        }
        let path = Path::parse("/vms/a").expect("a valid path");
        let cgroup = engine.find_cgroup(&path).expect("made just now");
        let client = engine.open_client(cgroup).expect("a cgroup that exists");
        let task = engine.open_task(client).expect("a client that exists");
        Tenant { engine, task, now: Instant::ZERO }
    }

    /// A tenant that has read three times, and waited once; all is done, and a second has passed.
    fn warm() -> Tenant {
        let mut tenant = Tenant::new();
        tenant.submit();
        tenant.submit();
        tenant.serve();
        tenant.wait();
        tenant.serve();
        tenant.rest();
        tenant.submit();
        tenant.serve();
        tenant.rest();
        tenant
    }

    fn request(&self) -> Request {
        Request::new(self.task, Op::Read, Extent::new(4096, 4096), 0)
    }

    fn submit(&mut self) {
        self.engine.submit(self.now, self.request()).expect("room for it");
    }

    fn dispatch(&mut self) -> Ticket {
        self.engine.poll_dispatch(self.now).expect("a request that may go").ticket
    }

    /// Dispatches one request, and completes it a millisecond later.
    fn serve(&mut self) {
        let ticket = self.dispatch();
        self.now = self.now.plus_nanos(1_000_000);
        self.engine.complete(self.now, ticket, Outcome::Done);
    }

    /// Waits until a limit lets a request go.
    fn wait(&mut self) {
        self.now = self.engine.poll_timeout().expect("a request that waits");
        self.engine.handle_timeout(self.now);
    }

    fn rest(&mut self) {
        self.now = self.now.plus_nanos(1_000_000_000);
        self.engine.handle_timeout(self.now);
    }
}

/// The limit of the own cgroup says no.
fn submit_throttled() {
    let mut tenant = Tenant::warm();
    tenant.submit();
    let (request, now) = (tenant.request(), tenant.now);
    measured_call(|| tenant.engine.submit(now, request)).expect("room for it");
    assert_eq!(tenant.engine.device().throttled, 1);
}

/// Both limits say yes.
fn submit() {
    let mut tenant = Tenant::warm();
    let (request, now) = (tenant.request(), tenant.now);
    measured_call(|| tenant.engine.submit(now, request)).expect("room for it");
    assert_eq!(tenant.engine.device().ready, 1);
}

/// Both limits say yes, and BFQ has not seen the client.
fn submit_first() {
    let mut tenant = Tenant::new();
    let (request, now) = (tenant.request(), tenant.now);
    measured_call(|| tenant.engine.submit(now, request)).expect("room for it");
    assert_eq!(tenant.engine.device().ready, 1);
}

/// A request that waited passes both limits into BFQ.
fn timeout() {
    let mut tenant = Tenant::warm();
    tenant.submit();
    tenant.submit();
    tenant.serve();
    let due = tenant.engine.poll_timeout().expect("a request that waits");
    measured_call(|| tenant.engine.handle_timeout(due));
    assert_eq!(tenant.engine.device().ready, 1);
}

fn dispatch() {
    let mut tenant = Tenant::warm();
    tenant.submit();
    let now = tenant.now;
    measured_call(|| tenant.engine.poll_dispatch(now)).expect("a request that may go");
}

fn complete() {
    let mut tenant = Tenant::warm();
    tenant.submit();
    let ticket = tenant.dispatch();
    let now = tenant.now.plus_nanos(1_000_000);
    let is_done = measured_call(|| tenant.engine.complete(now, ticket, Outcome::Done));
    assert!(is_done, "a whole request");
}
