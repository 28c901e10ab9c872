//! Streams of traces in the world: their actors, and what they issue when.

use weir_engine::Op;
use weir_fio::stream::Access;

use super::calendar::Planned;
use super::flights::{Flight, Purpose};
use super::replay::Next;
use super::world::{Actor, World};
use crate::scenario::ScenarioError;

impl World {
    pub(super) fn begin_replay(&mut self, replay: u32, ends_ns: u64) -> Result<(), ScenarioError> {
        self.replays[replay as usize].begin(self.now_ns, ends_ns);
        self.feed(replay)?;
        self.end_replay_if_over(replay)
    }

    /// Reads on in a trace, and lets streams continue that have records again.
    #[inline(never)]
    fn feed(&mut self, replay: u32) -> Result<(), ScenarioError> {
        let mut fresh = Vec::new();
        while self.replays[replay as usize].is_hungry() {
            self.replays[replay as usize].read_ahead(&mut fresh)?;
            for stream in fresh.drain(..) {
                self.issue_due(replay, stream)?;
            }
        }
        Ok(())
    }

    pub(super) fn stream_goes_on(&mut self, replay: u32, stream: u32) -> Result<(), ScenarioError> {
        self.issue_due(replay, stream)?;
        // Rare, and for many requests at once.
        if self.replays[replay as usize].is_hungry() {
            self.feed(replay)?;
        }
        self.end_replay_if_over(replay)
    }

    fn issue_due(&mut self, replay: u32, stream: u32) -> Result<(), ScenarioError> {
        let actor = self.actor_of(replay, stream)?;
        loop {
            let at = &mut self.replays[replay as usize];
            let record = match at.next(stream, self.now_ns) {
                Next::Issue(record) => record,
                Next::At(at_ns) => {
                    self.calendar.plan(at_ns.min(at.stop_ns), Planned::Stream(actor));
                    return Ok(());
                }
                Next::Wait => return Ok(()),
            };
            let purpose = match record.op {
                Op::Read => Purpose::Io(Access::Read),
                Op::Write => Purpose::Io(Access::Write),
                Op::Discard => Purpose::Io(Access::Trim),
                _ => Purpose::Fsync,
            };
            let (op, offset, len) = (record.op, record.offset, record.len);
            let flight = Flight::new(purpose, op, actor, offset, len, self.now_ns);
            self.submit(Flight { metadata: record.metadata, ..flight });
        }
    }

    /// The actor of a stream, created with its first record: a client of its own, in a cgroup of its own with
    /// `home=per-job`.
    fn actor_of(&mut self, replay: u32, stream: u32) -> Result<u32, ScenarioError> {
        if let Some(actor) = self.replays[replay as usize].streams[stream as usize].actor {
            return Ok(actor);
        }
        self.new_actor_of(replay, stream)
    }

    #[cold]
    fn new_actor_of(&mut self, replay: u32, stream: u32) -> Result<u32, ScenarioError> {
        let at = &mut self.replays[replay as usize];
        let (row, cgroup) = match at.process {
            // All files of an iolog are one job's.
            Some(process) => {
                let actor = self.actors[process as usize];
                (actor.row, actor.cgroup)
            }
            None => {
                let name = at.name(stream as usize);
                let cgroup = self.cgroups.of_stream(&mut self.engine, name, &self.home)?;
                let id = self.cgroups.id(cgroup);
                let path = self.engine.cgroup_path(id).unwrap_or_default();
                let recorder = &mut self.device.recorder;
                recorder.cgroup(cgroup, id);
                (recorder.stream_row(name, path), cgroup)
            }
        };
        let id = self.cgroups.id(cgroup);
        let client = self.engine.open_client(id).expect("a cgroup that is there");
        let task = self.engine.open_task(client).expect("a client that was just opened");
        let actor = self.actors.len() as u32;
        self.actors.push(Actor { task, row, cgroup, stream: Some((replay, stream)) });
        self.replays[replay as usize].streams[stream as usize].actor = Some(actor);
        Ok(actor)
    }

    pub(super) fn end_replay_if_over(&mut self, replay: u32) -> Result<(), ScenarioError> {
        let at = &mut self.replays[replay as usize];
        if !at.ends(self.now_ns) {
            return Ok(());
        }
        self.replay_ends(replay)
    }

    #[cold]
    fn replay_ends(&mut self, replay: u32) -> Result<(), ScenarioError> {
        match self.replays[replay as usize].process {
            None => self.replays_left -= 1,
            Some(process) => {
                self.processes[process as usize].replayed();
                self.go_on(process)?;
            }
        }
        Ok(())
    }
}
