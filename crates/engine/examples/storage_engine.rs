//! Storage engine: foreground reads and background compaction share one file, through a pool of two I/O threads.
//!
//! ```sh
//! cargo run -p weir-engine --example storage_engine
//! ```
//!
//! The same load runs twice: compaction without a limit, and with one of 32 MiB a second for reads and writes together. The
//! engine decides which request an I/O thread gets next, so that a read waits for at most two others.

use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant as Clock};

use weir_engine::{
    CgroupId, Change, Config, Engine, Extent, Instant, Limits, Op, Outcome, Path, Request, TaskId,
    Ticket, Weight,
};

type Failure = Box<dyn Error + Send + Sync>;

const RUN: Duration = Duration::from_millis(700);
const IO_THREADS: u32 = 2;
const FILE_BYTES: u64 = 64 << 20;
const READ_BYTES: u32 = 4 << 10;
const COMPACTION_BYTES: u32 = 256 << 10;

/// An operation on the file. The answer goes to the thread that asked.
struct Io {
    op: Op,
    extent: Extent,
    buffer: Vec<u8>,
    answer: Sender<Vec<u8>>,
}

/// A message to the owner of the engine.
enum Message {
    Submit(TaskId, Io),
    Done(Ticket, Io),
    /// No operation is outstanding, and none will come.
    End,
}

/// A dispatched operation on its way to an I/O thread.
type Job = (Ticket, Io);

/// Owns the engine until [`Message::End`]; the I/O threads end with it. The request's tag is the slot of its operation.
fn own(mut engine: Engine, begun: Clock, inbox: &Receiver<Message>, device: &Sender<Job>) {
    let now = || Instant::from_nanos(begun.elapsed().as_nanos() as u64);
    let mut slots: Vec<Option<Io>> = Vec::new();
    loop {
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
                Message::Submit(task, io) => {
                    let slot = slots.iter().position(Option::is_none).unwrap_or_else(|| {
                        slots.push(None);
                        slots.len() - 1
                    });
                    let request = Request::new(task, io.op, io.extent, slot as u64);
                    engine.submit(now, request).expect("each thread has one request");
                    slots[slot] = Some(io);
                }
                Message::Done(ticket, io) => {
                    engine.complete(now, ticket, Outcome::Done);
                    io.answer.send(io.buffer).expect("each thread waits for its answer");
                }
                Message::End => {
                    assert!(engine.audit().balances(), "what was charged was done");
                    return;
                }
            }
        }
        engine.handle_timeout(now);
        while let Some(dispatch) = engine.poll_dispatch(now) {
            let io = slots[dispatch.request.tag as usize].take().expect("submitted once");
            device.send((dispatch.ticket, io)).expect("I/O threads outlive the owner's requests");
        }
    }
}

/// Does what the engine has dispatched. `Config::depth` is the number of these threads.
fn serve(file: &File, jobs: &Mutex<Receiver<Job>>, owner: &Sender<Message>) {
    loop {
        let job = jobs.lock().expect("no thread panics").recv();
        let Ok((ticket, mut io)) = job else { return };
        let result = match io.op {
            Op::Write => file.write_all_at(&io.buffer, io.extent.offset),
            _ => file.read_exact_at(&mut io.buffer, io.extent.offset),
        };
        result.expect("the file is there");
        if owner.send(Message::Done(ticket, io)).is_err() {
            return;
        }
    }
}

/// One operation, and how long it took with its wait.
fn operate(
    owner: &Sender<Message>,
    task: TaskId,
    op: Op,
    offset: u64,
    buffer: Vec<u8>,
) -> (Vec<u8>, Duration) {
    let begun = now();
    let (answer, answers) = mpsc::channel();
    let extent = Extent::new(offset, buffer.len() as u32);
    owner.send(Message::Submit(task, Io { op, extent, buffer, answer })).expect("it outlives us");
    (answers.recv().expect("each operation is answered"), begun.elapsed())
}

/// Reads pages in no order until `end`; the answer is the latency of each.
fn read_pages(owner: &Sender<Message>, task: TaskId, end: Clock) -> Vec<Duration> {
    let (mut latencies, mut random) = (Vec::new(), 1_u64);
    let mut page = vec![0; READ_BYTES as usize];
    while now() < end {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (random >> 33) % (FILE_BYTES / u64::from(READ_BYTES)) * u64::from(READ_BYTES);
        let took;
        (page, took) = operate(owner, task, Op::Read, offset, page);
        latencies.push(took);
    }
    latencies
}

/// Reads runs and writes them back until `end`; the answer is the bytes moved.
fn compact(owner: &Sender<Message>, task: TaskId, end: Clock) -> u64 {
    let mut moved = 0;
    let mut run = vec![0; COMPACTION_BYTES as usize];
    while now() < end {
        let offset = moved % FILE_BYTES;
        for op in [Op::Read, Op::Write] {
            (run, _) = operate(owner, task, op, offset, run);
            moved += u64::from(COMPACTION_BYTES);
        }
    }
    moved
}

/// A cgroup with a weight, and the task of its one client.
fn tenant(engine: &mut Engine, path: &str, weight: u64) -> Result<(CgroupId, TaskId), Failure> {
    let cgroup = engine.ensure_cgroup(&Path::parse(path)?)?;
    let weight = Weight::new(weight)?;
    engine.reconfigure(Instant::ZERO, Change::SetWeight { cgroup, weight })?;
    let client = engine.open_client(cgroup)?;
    Ok((cgroup, engine.open_task(client)?))
}

fn run(file: &File, name: &str, limit: &str) -> Result<(), Failure> {
    let depth = IO_THREADS.try_into()?;
    let mut engine = Engine::new(Config { depth, ..Config::default() }, Instant::ZERO);
    let (_, foreground) = tenant(&mut engine, "/foreground", 1000)?;
    let (cgroup, background) = tenant(&mut engine, "/background", 100)?;
    let limits = Limits::parse(limit)?;
    engine.reconfigure(Instant::ZERO, Change::SetLimits { cgroup, limits })?;

    let begun = now();
    let end = begun + RUN;
    let (owner, inbox) = mpsc::channel();
    let (device, jobs) = mpsc::channel();
    let jobs = Arc::new(Mutex::new(jobs));
    let (mut latencies, moved) = thread::scope(|scope| {
        scope.spawn(move || own(engine, begun, &inbox, &device));
        for _ in 0..IO_THREADS {
            let (jobs, owner) = (Arc::clone(&jobs), owner.clone());
            scope.spawn(move || serve(file, &jobs, &owner));
        }
        let compaction = {
            let owner = owner.clone();
            scope.spawn(move || compact(&owner, background, end))
        };
        let latencies = read_pages(&owner, foreground, end);
        let moved = compaction.join().expect("no panic");
        owner.send(Message::End).expect("it ends now");
        (latencies, moved)
    });
    latencies.sort_unstable();
    let p99 = latencies[latencies.len() * 99 / 100];
    let rate = moved as f64 / RUN.as_secs_f64() / f64::from(1 << 20);
    println!(
        "{name:<22} {} reads, p99 {:.2} ms; compaction {rate:.0} MiB a second",
        latencies.len(),
        p99.as_secs_f64() * 1e3
    );
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the clock of a real program")]
fn now() -> Clock {
    Clock::now()
}

fn main() -> Result<(), Failure> {
    let path = std::env::temp_dir().join(format!("weir-storage-engine-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    // On Unix the file stays until it is closed, and nothing is left whatever happens.
    fs::remove_file(&path)?;
    for run in 0..FILE_BYTES / u64::from(COMPACTION_BYTES) {
        let bytes = vec![1; COMPACTION_BYTES as usize];
        file.write_all_at(&bytes, run * u64::from(COMPACTION_BYTES))?;
    }
    run(&file, "no limit", "rwbps=max")?;
    run(&file, "background at 32 MiB/s", "rwbps=32M")
}
