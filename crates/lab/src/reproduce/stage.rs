//! Playback of recorded processes, alone or with streams in the background.
//!
//! The requests of [`crate::sim`] follow from options of jobs; these follow from each other. A recorded request's
//! pause begins when all requests that it waits for are done, on this disk and under this scheduler. Engine, disk and
//! turn are the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;

use slab::Slab;
use weir_disk::{DiskModel, DiskOp, Spec};
use weir_driver::Device;
use weir_engine::settings::PriorityClass;
use weir_engine::stats::BfqStats;
use weir_engine::{
    CgroupId, Change, Class, ClientId, Config, Dispatch, Engine, Event, Extent, Instant, Op,
    Outcome, Path, Priority, Request, TaskId, Ticket,
};
use weir_fio::random::Random;

use super::recording::{Asked, Recording};

/// A reader's time for a request and its bytes, as in the lab's page cache.
const CALL_NS: u64 = 500;
const COPY_BYTES_PER_NS: u64 = 8;

#[derive(Debug, Clone)]
pub(super) struct Play<'a> {
    pub(super) disk: Spec,
    pub(super) engine: Config,
    pub(super) recording: &'a Recording,
    /// One queue for all processes, in order of arrival; else each is a client.
    pub(super) one_queue: bool,
    pub(super) background: &'a [Stream],
    /// When the recording begins, after the background.
    pub(super) begins_ns: u64,
    /// Each pause is longer by up to this, at random: processors are never equally fast.
    pub(super) late_ns: u64,
    pub(super) seed: u64,
}

/// A background process that reads or writes sequentially from `offset` on, without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) op: Op,
    /// A process waits for it.
    pub(super) sync: bool,
    /// 0 (best) to 7.
    pub(super) level: u8,
    /// First byte, and bytes until it begins again.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Bytes of a request, and requests in flight.
    pub(super) len: u32,
    pub(super) depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Played {
    /// From the recording's beginning to the end of the last synchronous request.
    pub(super) took_ns: u64,
    /// Bytes of the background in that time.
    pub(super) background_bytes: u64,
    /// Requests that went through the engine.
    pub(super) requests: u64,
    /// BFQ's counters.
    pub(super) bfq: BfqStats,
}

pub(super) fn play(play: &Play<'_>) -> Played {
    let mut stage = Stage::new(play);
    stage.run();
    Played { bfq: stage.engine.bfq_stats(), ..stage.played }
}

struct Stage<'a> {
    play: &'a Play<'a>,
    now_ns: u64,
    engine: Engine,
    device: SimDevice,
    cgroup: CgroupId,
    calendar: BinaryHeap<Reverse<(u64, u64, Who)>>,
    planned: u64,
    random: Random,
    script: Script,
    streams: Vec<Running>,
    played: Played,
}

/// Source of a request, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Recorded(u32),
    Stream(u32),
}

/// Progress of the recording.
struct Script {
    /// By request: unfinished requests that it waits for.
    missing: Vec<u32>,
    /// Requests that wait for each, one behind the other, and where those of each begin.
    waiting: Vec<u32>,
    waiting_from: Vec<u32>,
    /// By process: unfinished requests, and its client once it has come.
    left: Vec<u32>,
    clients: Vec<Option<(ClientId, TaskId)>>,
    /// Unfinished synchronous requests.
    awaited: u32,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    task: TaskId,
    next: u64,
}

struct SimDevice {
    disk: Box<dyn DiskModel>,
    flying: Slab<(Who, Option<Ticket>)>,
}

impl Device for SimDevice {
    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let Request { op, extent, tag, .. } = dispatch.request;
        self.flying[tag as usize].1 = Some(dispatch.ticket);
        let op = match op {
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            _ => DiskOp::Read,
        };
        self.disk.submit(now.as_nanos(), tag, op, extent.offset, extent.len);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}

impl Script {
    fn new(recording: &Recording) -> Script {
        let mut counts = vec![0u32; recording.asked.len() + 1];
        let mut left = vec![0; recording.processes.len()];
        for asked in &recording.asked {
            left[asked.process as usize] += 1;
            for &cause in recording.after(asked) {
                counts[cause as usize + 1] += 1;
            }
        }
        for at in 1..counts.len() {
            counts[at] += counts[at - 1];
        }
        let waiting_from = counts.clone();
        let mut waiting = vec![0; *counts.last().unwrap_or(&0) as usize];
        for (index, asked) in recording.asked.iter().enumerate() {
            for &cause in recording.after(asked) {
                let place = &mut counts[cause as usize];
                waiting[*place as usize] = index as u32;
                *place += 1;
            }
        }
        Script {
            missing: recording.asked.iter().map(|one| recording.after(one).len() as u32).collect(),
            waiting,
            waiting_from,
            clients: vec![None; left.len()],
            left,
            awaited: recording.asked.iter().filter(|asked| asked.sync).count() as u32,
        }
    }
}

impl<'a> Stage<'a> {
    fn new(play: &'a Play<'a>) -> Stage<'a> {
        let mut config = play.engine;
        config.rotational = play.disk.is_rotational();
        config.requests_per_task_max = config.requests_max.max(NonZeroU32::MIN);
        let mut engine = Engine::new(config, Instant::ZERO);
        let path = Path::parse("/main").expect("a path");
        let cgroup = engine.ensure_cgroup(&path).expect("room for one cgroup");
        let mut stage = Stage {
            play,
            now_ns: 0,
            engine,
            device: SimDevice { disk: play.disk.build(), flying: Slab::new() },
            cgroup,
            calendar: BinaryHeap::new(),
            planned: 0,
            random: Random::new(play.seed),
            script: Script::new(play.recording),
            streams: Vec::new(),
            played: Played::default(),
        };
        for (index, stream) in play.background.iter().enumerate() {
            let (_, task) = stage.open(stream.level);
            stage.streams.push(Running { task, next: stream.offset });
            for _ in 0..stream.depth {
                stage.plan(0, Who::Stream(index as u32));
            }
        }
        for (index, asked) in play.recording.asked.iter().enumerate() {
            if play.recording.after(asked).is_empty() {
                let at_ns = play.begins_ns + stage.pause_ns(asked);
                stage.plan(at_ns, Who::Recorded(index as u32));
            }
        }
        stage
    }

    fn run(&mut self) {
        let mut timeout = self.turn();
        while self.script.awaited > 0 {
            let times = [
                timeout.map(Instant::as_nanos),
                self.device.disk.next_event(),
                self.calendar.peek().map(|Reverse((at_ns, ..))| *at_ns),
            ];
            let next_ns = times.into_iter().flatten().min();
            let next_ns = next_ns.expect("something is under way as long as something is awaited");
            self.now_ns = self.now_ns.max(next_ns);
            while let Some(tag) = self.device.disk.poll_complete(self.now_ns) {
                self.completed(tag);
            }
            while let Some(&Reverse((at_ns, _, who))) = self.calendar.peek()
                && at_ns <= self.now_ns
            {
                self.calendar.pop();
                self.ask(who);
            }
            timeout = self.turn();
        }
        debug_assert_eq!(self.engine.check(), Ok(()));
    }

    fn turn(&mut self) -> Option<Instant> {
        weir_driver::turn(&mut self.engine, Instant::from_nanos(self.now_ns), &mut self.device)
    }

    fn plan(&mut self, at_ns: u64, who: Who) {
        self.calendar.push(Reverse((at_ns, self.planned, who)));
        self.planned += 1;
    }

    fn pause_ns(&mut self, asked: &Asked) -> u64 {
        asked.pause_ns + self.random.below(self.play.late_ns + 1)
    }

    fn open(&mut self, level: u8) -> (ClientId, TaskId) {
        let client = self.engine.open_client(self.cgroup).expect("a cgroup that is there");
        let priority = Priority::new(PriorityClass::BestEffort, level).expect("a level below 8");
        let change = Change::SetPriority { client, priority };
        let done = self.engine.reconfigure(Instant::from_nanos(self.now_ns), change);
        done.expect("a client that was just opened");
        (client, self.engine.open_task(client).expect("a client that was just opened"))
    }

    fn ask(&mut self, who: Who) {
        match who {
            Who::Recorded(index) => {
                let asked = self.play.recording.asked[index as usize];
                let place = if self.play.one_queue { 0 } else { asked.process as usize };
                let (_, task) = self.script.clients[place].unwrap_or_else(|| {
                    let open = self.open(self.play.recording.processes[place].level);
                    self.script.clients[place] = Some(open);
                    open
                });
                let extent = Extent::new(asked.offset, asked.len);
                let class = if asked.metadata { Class::Metadata } else { Class::Data };
                let request = Request::new(task, asked.op, extent, 0);
                self.submit(who, Request { sync: asked.sync, class, ..request });
            }
            Who::Stream(index) => {
                let stream = self.play.background[index as usize];
                let running = &mut self.streams[index as usize];
                if running.next + u64::from(stream.len) > stream.offset + stream.size {
                    running.next = stream.offset;
                }
                let (task, offset) = (running.task, running.next);
                running.next += u64::from(stream.len);
                let request = Request::new(task, stream.op, Extent::new(offset, stream.len), 0);
                self.submit(who, Request { sync: stream.sync, ..request });
            }
        }
    }

    fn submit(&mut self, who: Who, request: Request) {
        let request = Request { tag: self.device.flying.insert((who, None)) as u64, ..request };
        let taken = self.engine.submit(Instant::from_nanos(self.now_ns), request);
        taken.expect("the engine has room for all that is under way at a time");
        self.played.requests += 1;
    }

    fn completed(&mut self, tag: u64) {
        let (who, ticket) = self.device.flying.remove(tag as usize);
        let ticket = ticket.expect("only what is at the disk ends there");
        self.engine.complete(Instant::from_nanos(self.now_ns), ticket, Outcome::Done);
        match who {
            Who::Stream(index) => {
                let len = u64::from(self.play.background[index as usize].len);
                if self.now_ns >= self.play.begins_ns {
                    self.played.background_bytes += len;
                }
                self.plan(self.now_ns + CALL_NS + len / COPY_BYTES_PER_NS, who);
            }
            Who::Recorded(index) => self.done(index),
        }
    }

    /// A recorded request is done: those that waited only for it begin their pause.
    fn done(&mut self, index: u32) {
        let recording = self.play.recording;
        let asked = &recording.asked[index as usize];
        if asked.sync {
            self.script.awaited -= 1;
            self.played.took_ns = self.now_ns - self.play.begins_ns;
        }
        let from = self.script.waiting_from[index as usize];
        let to = self.script.waiting_from[index as usize + 1];
        for at in from..to {
            let next = self.script.waiting[at as usize];
            self.script.missing[next as usize] -= 1;
            if self.script.missing[next as usize] == 0 {
                let pause_ns = self.pause_ns(&recording.asked[next as usize]);
                self.plan(self.now_ns + pause_ns, Who::Recorded(next));
            }
        }
        let process = asked.process as usize;
        self.script.left[process] -= 1;
        if self.script.left[process] == 0
            && !self.play.one_queue
            && let Some((client, task)) = self.script.clients[process].take()
        {
            self.engine.close_task(task);
            self.engine.close_client(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::SchedulerKind;

    const MS: u64 = 1_000_000;

    fn played(text: &str, change: impl FnOnce(&mut Play<'_>)) -> Played {
        beside(&[], text, change)
    }

    fn beside(background: &[Stream], text: &str, change: impl FnOnce(&mut Play<'_>)) -> Played {
        let recording = Recording::parse(text).unwrap();
        let mut stage = Play {
            disk: "null,latency=1ms".parse().unwrap(),
            engine: Config::default(),
            recording: &recording,
            one_queue: false,
            background,
            begins_ns: 0,
            late_ns: 0,
            seed: 1,
        };
        change(&mut stage);
        play(&stage)
    }

    /// Two processes: the second waits for both writes of the first, each of 1 ms and begun 2 ms apart, and thinks.
    const CHAIN: &str = "process a 4\nprocess b 4\n0 Ws 0 8 0 -\n0 Ws 8 8 2000 -\n1 Rs 0 8 500 1,2\n\
                         1 Wa 0 8 9000 1\n";

    #[test]
    fn a_request_begins_when_all_it_waits_for_is_done() {
        // 2 + 1 ms, half a millisecond, 1 ms; no process waits for the last write.
        assert_eq!(played(CHAIN, |_| {}).took_ns, 4 * MS + MS / 2);
        let late = played(CHAIN, |play| play.late_ns = MS).took_ns;
        assert!((4 * MS + MS / 2..=6 * MS + MS / 2).contains(&late), "{late}");
        assert_eq!(late, played(CHAIN, |play| play.late_ns = MS).took_ns);
        // On a slower disk the pauses stay and the waiting grows.
        let slow = played(CHAIN, |play| play.disk = "null,latency=3ms".parse().unwrap());
        assert_eq!(slow.took_ns, 2 * MS + 3 * MS + MS / 2 + 3 * MS);
    }

    #[test]
    fn the_background_begins_before_the_recording() {
        let reader = Stream {
            op: Op::Read,
            sync: true,
            level: 4,
            offset: 0,
            size: 8192,
            len: 4096,
            depth: 1,
        };
        let alone = played(CHAIN, |play| play.begins_ns = 10 * MS);
        assert_eq!((alone.took_ns, alone.background_bytes), (4 * MS + MS / 2, 0));
        let streams = [reader, Stream { offset: 8192, depth: 2, ..reader }];
        let with = |scheduler| {
            beside(&streams, CHAIN, |play| {
                play.begins_ns = 10 * MS;
                play.engine.scheduler = scheduler;
            })
        };
        // Three reads in the background take a millisecond and about one microsecond, again and again.
        let none = with(SchedulerKind::None);
        assert_eq!((none.took_ns, none.background_bytes), (4 * MS + MS / 2, 5 * 3 * 4096));
        assert_eq!(none.requests, 15 * 3 + 3);
        // Under any scheduler a request begins only after those it waits for.
        let bfq = with(SchedulerKind::Bfq);
        assert!(bfq.took_ns >= none.took_ns && bfq.background_bytes > 0, "{bfq:?}");
        assert!(bfq.bfq.selections > 0 && none.bfq.selections == 0);
    }

    #[test]
    fn one_queue_is_served_in_order_of_arrival() {
        // One request at a time: a's three, then b's; in turn, b's comes second.
        let text =
            "process a 4\nprocess b 4\n0 Wa 0 8 0 -\n0 Wa 8 8 0 -\n0 Wa 16 8 0 -\n1 Rs 24 8 0 -\n";
        let narrow = |one_queue| {
            played(text, |play| {
                play.engine.depth = NonZeroU32::MIN;
                play.one_queue = one_queue;
            })
        };
        assert_eq!((narrow(true).took_ns, narrow(false).took_ns), (4 * MS, 2 * MS));
    }
}
