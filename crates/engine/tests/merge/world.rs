//! A minimal scheduler around merging: queues, service and lateness, driven by tests.

use weir_engine::Instant;
use weir_engine::merge_internals::cooperation::{Device, QueueFacts, ServedQueue, Start};
use weir_engine::merge_internals::stable::Evidence;
use weir_engine::merge_internals::{
    Ask, Check, Kind, Merging, Position, PositionTree, PriorityClass, QueueId, Settings, Traits,
};

/// Bytes in a sector, the unit of the timelines in spec/bfq 7.12 to 7.14.
pub(crate) const SECTOR: u64 = 512;

pub(crate) const TRAITS: Traits =
    Traits { group: 0, class: PriorityClass::BestEffort, level: 4, sync: true };

/// Milliseconds with one decimal, as in the tables of spec/bfq 7.12 to 7.14, since an origin that leaves room before
/// it.
pub(crate) fn at(millis: f64) -> Instant {
    let micros = (millis * 1000.0).round() as i64;
    Instant::from_nanos((100_000_000 + micros) as u64 * 1000)
}

#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) id: QueueId,
    pub(crate) traits: Traits,
    pub(crate) start: Start,
    pub(crate) seeky: bool,
    pub(crate) busy: bool,
    pub(crate) boosts: bool,
    pub(crate) insertions: u32,
    pub(crate) queued: Vec<u64>,
}

pub(crate) struct World {
    pub(crate) merging: Merging<u32>,
    pub(crate) position_tree: PositionTree,
    pub(crate) queues: Vec<Queue>,
    pub(crate) in_service: Option<(QueueId, Option<Position>)>,
    pub(crate) queueing_flash: bool,
}

pub(crate) fn id(index: u32) -> QueueId {
    QueueId { index, generation: 0 }
}

impl World {
    pub(crate) fn new(settings: Settings) -> World {
        World {
            merging: Merging::new(settings),
            position_tree: PositionTree::new(),
            queues: Vec::new(),
            in_service: None,
            queueing_flash: false,
        }
    }

    /// The next queue, whose process is called P1 if it is the first.
    pub(crate) fn open(&mut self, now: Instant, traits: Traits) -> QueueId {
        let id = id(self.queues.len() as u32);
        self.queues.push(Queue {
            id,
            traits,
            start: Start::NEW,
            seeky: false,
            busy: false,
            boosts: true,
            insertions: 0,
            queued: Vec::new(),
        });
        let opened = self.merging.open(now, id, traits, self.queueing_flash);
        if let Some(merge) = opened.merge {
            self.merging.merge(merge, |id| id.index);
        }
        id
    }

    pub(crate) fn facts(&self, id: QueueId) -> QueueFacts {
        let queue = &self.queues[id.index as usize];
        QueueFacts {
            queue: id,
            traits: queue.traits,
            seeky: queue.seeky,
            busy: queue.busy,
            start: queue.start,
        }
    }

    /// The check that the process of `asker` makes before it reads at a sector.
    pub(crate) fn check(&mut self, now: Instant, asker: QueueId, sector: u64) -> Check {
        // With the kernel's rules a process may still be somewhere else: it is told so, and moves.
        let using = self.merging.representative(asker).unwrap();
        let (facts, queue) = (self.facts(using), &self.queues[using.index as usize]);
        let in_service = self
            .in_service
            .map(|(queue, last_end)| ServedQueue { facts: self.facts(queue), last_end });
        let device = Device {
            queueing_flash: self.queueing_flash,
            busy_queues: self.queues.iter().filter(|queue| queue.busy).count() as u32,
            in_service,
        };
        let evidence = Evidence {
            just_created: queue.insertions == 0,
            insertions: queue.insertions,
            boosts_throughput: queue.boosts,
        };
        let place = Position(sector * SECTOR);
        let ask = Ask { queue: asker, facts, at: place, evidence };
        let close = self.merging.settings().close_bytes;
        let nearest = self.position_tree.nearest(using, facts.traits.group, place, close);
        let nearest = nearest.map(|id| self.facts(id));
        self.merging.check(now, &ask, &device, || nearest)
    }

    /// The process of `asker` reads at a sector. Says in a few words where the request goes, and why.
    pub(crate) fn insert(&mut self, now: Instant, asker: QueueId, sector: u64) -> String {
        let name = |id: QueueId| format!("Q{}", id.index + 1);
        let (story, to) = match self.check(now, asker, sector) {
            Check::Stay(refusal) => {
                let to = self.merging.representative(asker).unwrap();
                let reason = refusal.map_or("cancelled", |reason| reason.key());
                (format!("{} {reason}", name(to)), to)
            }
            Check::Follow(to) => (format!("follows to {}", name(to)), to),
            Check::Merge(merge) => {
                let to = self.merging.merge(merge, |id| id.index);
                let kind = match merge.kind {
                    Kind::Cooperation => "close",
                    Kind::StableAtCreation => "created together",
                    Kind::StableLate => "stable",
                };
                (format!("{} -> {} {kind}", name(merge.from), name(to)), to)
            }
        };
        let queue = &mut self.queues[to.index as usize];
        if !queue.busy {
            queue.busy = true;
            queue.start.restart();
        }
        queue.insertions += 1;
        queue.queued.push(sector);
        self.place(to);
        story
    }

    /// The queue that holds the device dispatches a request that ends `sectors` after `sector`.
    pub(crate) fn dispatch(&mut self, now: Instant, id: QueueId, sector: u64, sectors: u64) {
        let queue = &mut self.queues[id.index as usize];
        let slot = queue.queued.iter().position(|queued| *queued == sector).unwrap();
        queue.queued.remove(slot);
        queue.start.serve(now);
        self.in_service = Some((id, Some(Position((sector + sectors) * SECTOR))));
        self.place(id);
    }

    /// The queue gives the device back.
    pub(crate) fn expire(&mut self, id: QueueId) {
        let queue = &mut self.queues[id.index as usize];
        queue.busy = !queue.queued.is_empty();
        if self.in_service.is_some_and(|(served, _)| served == id) {
            self.in_service = None;
        }
    }

    /// The request that a queue would dispatch next: nearest to the head, backwards counting double.
    pub(crate) fn next(&self, id: QueueId) -> Option<u64> {
        let head = self.in_service.and_then(|(_, end)| end).map_or(0, |end| end.0 / SECTOR);
        let distance = |sector: u64| match sector.checked_sub(head) {
            Some(forward) => forward,
            None => 2 * (head - sector),
        };
        let queued = &self.queues[id.index as usize].queued;
        queued.iter().copied().min_by_key(|sector| distance(*sector))
    }

    pub(crate) fn place(&mut self, id: QueueId) {
        let group = self.queues[id.index as usize].traits.group;
        match self.next(id) {
            Some(sector) => {
                self.position_tree.place(id, group, Position(sector * SECTOR));
            }
            None => self.position_tree.remove(id),
        }
    }

    /// Where each process's requests go, one digit a process.
    pub(crate) fn map(&self) -> String {
        let to = |queue: &Queue| self.merging.representative(queue.id).unwrap().index + 1;
        self.queues.iter().map(|queue| to(queue).to_string()).collect()
    }
}
