//! Playback of recorded processes, alone or with streams in the background.
//!
//! Requests of jobs follow from options; these follow from each other. A recorded request's pause begins when all requests
//! that it waits for are done, on this disk and under this scheduler.

use std::ops::ControlFlow;
use std::sync::Arc;

use weir_disk::Spec;
use weir_engine::settings::PriorityClass;
use weir_engine::stats::BfqStats;
use weir_engine::{Change, ClientId, Config, Instant, Op, Path, Priority};
use weir_fio::JobFile;
use weir_fio::random::Random;

use super::calendar::Planned;
use super::flights::{Flight, Purpose};
use super::recording::{Asked, Recording};
use super::setup;
use super::world::{Actor, CALL_NS, COPY_BYTES_PER_NS, World};
use crate::scenario::{Home, Machine, PathDelay, Scenario, Work};

#[derive(Debug, Clone)]
pub(crate) struct Play {
    pub(crate) disk: Spec,
    pub(crate) engine: Config,
    pub(crate) recording: Arc<Recording>,
    /// One queue for all processes, in order of arrival; else each is a client.
    pub(crate) one_queue: bool,
    pub(crate) background: Vec<Stream>,
    /// When the recording begins, after the background.
    pub(crate) begins_ns: u64,
    /// Each pause is longer by up to this, at random: processors are never equally fast.
    pub(crate) late_ns: u64,
    pub(crate) seed: u64,
}

/// A background process that reads or writes sequentially from `offset` on, without end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) op: Op,
    /// A process waits for it.
    pub(crate) sync: bool,
    /// 0 (best) to 7.
    pub(crate) level: u8,
    /// First byte, and bytes until it begins again.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// Bytes of a request, and requests in flight.
    pub(crate) len: u32,
    pub(crate) depth: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Played {
    /// From the recording's beginning to the end of the last synchronous request.
    pub(crate) took_ns: u64,
    /// Bytes of the background in that time.
    pub(crate) background_bytes: u64,
    pub(crate) requests: u64,
    pub(crate) bfq: BfqStats,
}

/// Plays a recording until its last synchronous request is done.
pub(crate) fn play(play: Play) -> Played {
    let scenario = Scenario {
        title: String::new(),
        disk: play.disk,
        engine: play.engine,
        cgroups: Vec::new(),
        home: Home::Shared(Path::parse("/main").expect("a path")),
        cache: Default::default(),
        machine: Machine::default(),
        path_delay: PathDelay::default(),
        seed: play.seed,
        forks: Vec::new(),
        until_ns: None,
        timed_changes: Vec::new(),
        govern: None,
        work: Work::Jobs(JobFile { jobs: Vec::new(), ignored: Vec::new() }),
    };
    let mut world = setup::world(&scenario).expect("nothing to refuse without jobs");
    world.begin_playback(play);
    world.run_events(&mut |_| ControlFlow::Continue(())).expect("requests take time");
    let playback = world.playback.expect("it was begun");
    Played { requests: world.requests, bfq: world.engine.bfq_stats(), ..playback.played }
}

/// Progress of a recording and its background. Requests have numbers: those of the recording, and then a number for each
/// stream.
pub(super) struct Playback {
    play: Play,
    random: Random,
    /// By request: unfinished requests that it waits for.
    missing: Vec<u32>,
    /// Requests that wait for each, one behind the other, and where those of each begin.
    waiting: Vec<u32>,
    waiting_from: Vec<u32>,
    /// By process: unfinished requests, and its client and actor once it has come.
    left: Vec<u32>,
    clients: Vec<Option<(ClientId, u32)>>,
    /// By stream: its actor and its next offset.
    streams: Vec<(u32, u64)>,
    /// Unfinished synchronous requests.
    awaited: u32,
    played: Played,
}

impl Playback {
    fn new(play: Play) -> Playback {
        let recording = &play.recording;
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
        Playback {
            missing: recording.asked.iter().map(|one| recording.after(one).len() as u32).collect(),
            waiting,
            waiting_from,
            clients: vec![None; left.len()],
            left,
            streams: Vec::new(),
            awaited: recording.asked.iter().filter(|asked| asked.sync).count() as u32,
            random: Random::new(play.seed),
            played: Played::default(),
            play,
        }
    }

    fn pause_ns(&mut self, asked: Asked) -> u64 {
        asked.pause_ns + self.random.below(self.play.late_ns + 1)
    }
}

impl World {
    fn begin_playback(&mut self, play: Play) {
        let mut playback = Box::new(Playback::new(play));
        let recording = playback.play.recording.clone();
        let cgroup = self.cgroups.of_stream(&mut self.engine, "", &self.home);
        let id = self.cgroups.id(cgroup.expect("room for one cgroup"));
        self.device.recorder.cgroup(0, id);
        let numbers = recording.asked.len() as u32..;
        for (number, stream) in numbers.zip(playback.play.background.clone()) {
            let (_, actor) = self.open_client(stream.level);
            playback.streams.push((actor, stream.offset));
            for _ in 0..stream.depth {
                self.calendar.plan(0, Planned::Play(number));
            }
        }
        for (number, &asked) in (0..).zip(&recording.asked) {
            if recording.after(&asked).is_empty() {
                let at_ns = playback.play.begins_ns + playback.pause_ns(asked);
                self.calendar.plan(at_ns, Planned::Play(number));
            }
        }
        self.replays_left = 1;
        self.playback = Some(playback);
    }

    /// A client of its own, with this level, and its actor.
    fn open_client(&mut self, level: u8) -> (ClientId, u32) {
        let client = self.engine.open_client(self.cgroups.id(0)).expect("a cgroup that is there");
        let priority = Priority::new(PriorityClass::BestEffort, level).expect("a level below 8");
        let change = Change::SetPriority { client, priority };
        let done = self.engine.reconfigure(Instant::from_nanos(self.now_ns), change);
        done.expect("a client that was just opened");
        let task = self.engine.open_task(client).expect("a client that was just opened");
        self.actors.push(Actor { task, row: 0, cgroup: 0, stream: None });
        (client, self.actors.len() as u32 - 1)
    }

    pub(super) fn play(&mut self, number: u32) {
        let mut playback = self.playback.take().expect("it plans its own requests");
        let play = &playback.play;
        let now_ns = self.now_ns;
        let flight = |op, actor, offset, len| {
            let issued_ns = u64::from(number);
            Flight { issued_ns, ..Flight::new(Purpose::Played, op, actor, offset, len, now_ns) }
        };
        let flight = match play.recording.asked.get(number as usize) {
            Some(asked) => {
                let place = if play.one_queue { 0 } else { asked.process as usize };
                let level = play.recording.processes[place].level;
                let (_, actor) =
                    *playback.clients[place].get_or_insert_with(|| self.open_client(level));
                let flight = flight(asked.op, actor, asked.offset, asked.len);
                Flight { sync: asked.sync, metadata: asked.metadata, ..flight }
            }
            None => {
                let index = number as usize - play.recording.asked.len();
                let stream = play.background[index];
                let (actor, next) = &mut playback.streams[index];
                if *next + u64::from(stream.len) > stream.offset + stream.size {
                    *next = stream.offset;
                }
                let offset = *next;
                *next += u64::from(stream.len);
                Flight { sync: stream.sync, ..flight(stream.op, *actor, offset, stream.len) }
            }
        };
        self.playback = Some(playback);
        self.submit(flight);
    }

    /// A request is done. Those that waited only for it begin their pause.
    pub(super) fn played(&mut self, flight: &Flight) {
        let mut playback = self.playback.take().expect("its request has ended");
        let recording = playback.play.recording.clone();
        match recording.asked.get(flight.issued_ns as usize) {
            Some(asked) => {
                self.recorded_ended(&mut playback, &recording, flight.issued_ns as usize, asked);
            }
            None => {
                let len = u64::from(flight.len);
                if self.now_ns >= playback.play.begins_ns {
                    playback.played.background_bytes += len;
                }
                let at_ns = self.now_ns + CALL_NS + len / COPY_BYTES_PER_NS;
                self.calendar.plan(at_ns, Planned::Play(flight.issued_ns as u32));
            }
        }
        self.playback = Some(playback);
    }

    fn recorded_ended(
        &mut self,
        playback: &mut Playback,
        recording: &Recording,
        number: usize,
        asked: &Asked,
    ) {
        if asked.sync {
            playback.awaited -= 1;
            playback.played.took_ns = self.now_ns - playback.play.begins_ns;
            self.replays_left = u32::from(playback.awaited > 0);
        }
        for at in playback.waiting_from[number]..playback.waiting_from[number + 1] {
            let next = playback.waiting[at as usize];
            playback.missing[next as usize] -= 1;
            if playback.missing[next as usize] == 0 {
                let pause_ns = playback.pause_ns(recording.asked[next as usize]);
                self.calendar.plan(self.now_ns + pause_ns, Planned::Play(next));
            }
        }
        let process = asked.process as usize;
        playback.left[process] -= 1;
        if playback.left[process] == 0
            && !playback.play.one_queue
            && let Some((client, actor)) = playback.clients[process].take()
        {
            self.engine.close_task(self.actors[actor as usize].task);
            self.engine.close_client(client);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use weir_engine::SchedulerKind;

    use super::*;

    const MS: u64 = 1_000_000;

    fn played(text: &str, change: impl FnOnce(&mut Play)) -> Played {
        beside(&[], text, change)
    }

    fn beside(background: &[Stream], text: &str, change: impl FnOnce(&mut Play)) -> Played {
        let recording = Recording::parse(text).unwrap();
        let mut given = Play {
            disk: "null,latency=1ms".parse().unwrap(),
            engine: Config::default(),
            recording: Arc::new(recording),
            one_queue: false,
            background: background.to_vec(),
            begins_ns: 0,
            late_ns: 0,
            seed: 1,
        };
        change(&mut given);
        play(given)
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
