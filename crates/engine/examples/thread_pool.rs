//! Rate limiter of a thread pool: workers ask the one owner of an engine before each operation.
//!
//! ```sh
//! cargo run -p weir-engine --example thread_pool
//! ```
//!
//! Two tenants share 300 operations a second, three to one. Each has four workers that would do far more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant as Clock};

use weir_engine::{
    Change, Config, Engine, Extent, Instant, Limits, Op, Outcome, Path, Request, TaskId, Ticket,
    Weight,
};

const RUN: Duration = Duration::from_secs(2);
const WORKERS: u32 = 4;

/// A message to the owner.
enum Message {
    /// A worker wants to begin an operation; the ticket comes when it may.
    Begin { task: TaskId, ticket: Sender<Ticket> },
    /// The operation is done.
    Done(Ticket),
}

/// Owns the engine until all workers are gone. `begun` is the engine's instant 0.
fn own(mut engine: Engine, begun: Clock, inbox: &Receiver<Message>) {
    let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    let mut waiting: HashMap<u64, Sender<Ticket>> = HashMap::new();
    let mut tag = 0;
    loop {
        // Sleeps until something arrives, or until a limit lets a request go.
        let due = engine.poll_timeout().map(|due| due.nanos_since(now()));
        let message = match inbox.recv_timeout(due.map_or(RUN, Duration::from_nanos)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // One reading of the clock for everything that is done with it.
        let now = now();
        for message in message.into_iter().chain(inbox.try_iter()) {
            match message {
                Message::Begin { task, ticket } => {
                    tag += 1;
                    let request = Request::new(task, Op::Read, Extent::new(0, 1), tag);
                    engine.submit(now, request).expect("fewer workers than requests_max");
                    waiting.insert(tag, ticket);
                }
                Message::Done(ticket) => {
                    engine.complete(now, ticket, Outcome::Done);
                }
            }
        }
        engine.handle_timeout(now);
        while let Some(dispatch) = engine.poll_dispatch(now) {
            let worker = waiting.remove(&dispatch.request.tag).expect("each is asked for once");
            // A worker that has gone meanwhile does not begin: its operation is over.
            if let Err(unsent) = worker.send(dispatch.ticket) {
                engine.complete(now, unsent.0, Outcome::Failed);
            }
        }
    }
}

/// Does operations for [`RUN`], each when the owner lets it.
fn work(task: TaskId, owner: &Sender<Message>, begun: Clock, done: &AtomicU32) {
    let (ticket, tickets) = mpsc::channel();
    while begun.elapsed() < RUN {
        owner.send(Message::Begin { task, ticket: ticket.clone() }).expect("it outlives workers");
        let ticket = tickets.recv().expect("the owner answers each");
        // The operation itself would be here.
        done.fetch_add(1, Ordering::Relaxed);
        owner.send(Message::Done(ticket)).expect("it outlives workers");
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of a real thread pool")]
fn main() {
    let mut engine = Engine::new(Config::default(), Instant::ZERO);
    let cgroup = |engine: &mut Engine, path| {
        engine.ensure_cgroup(&Path::parse(path).expect("a path")).expect("room for a cgroup")
    };
    let pool = cgroup(&mut engine, "/pool");
    let limits = Limits::parse("riops=300").expect("a limit");
    engine
        .reconfigure(Instant::ZERO, Change::SetLimits { cgroup: pool, limits })
        .expect("limits that make sense");
    let tenants = [("/pool/interactive", 300), ("/pool/batch", 100)].map(|(path, weight)| {
        let cgroup = cgroup(&mut engine, path);
        let weight = Weight::new(weight).expect("a weight");
        engine
            .reconfigure(Instant::ZERO, Change::SetWeight { cgroup, weight })
            .expect("a live cgroup");
        let client = engine.open_client(cgroup).expect("a live cgroup");
        let tasks = [(); WORKERS as usize].map(|()| engine.open_task(client).expect("a client"));
        (path, tasks, AtomicU32::new(0))
    });

    let begun = Clock::now();
    let (owner, inbox) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || own(engine, begun, &inbox));
        for (_, tasks, done) in &tenants {
            for &task in tasks {
                let owner = owner.clone();
                scope.spawn(move || work(task, &owner, begun, done));
            }
        }
        // The owner ends when the last worker is gone.
        drop(owner);
    });
    for (path, _, done) in &tenants {
        let rate = f64::from(done.load(Ordering::Relaxed)) / RUN.as_secs_f64();
        println!("{path:<20} {rate:.0} operations a second");
    }
}
