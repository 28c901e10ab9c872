//! Transcript: entries to rows, one row a request.
//!
//! Each input of the engine has a number, its *step*. A request has its row when it ends, with the step of its submission
//! and the number of its dispatch; so one row tells of two inputs and an answer. The engine's part of a turn is an input
//! too. Most come once, after all other inputs of their instant: these have neither a row nor a step.

use parquet::data_type::ByteArray;
use weir_engine::{Change, Op, Outcome};

use crate::columns::Columns;
use crate::entry::{Entry, Marks, Rare, Slot, class_name};
use crate::mirror::Mirror;
use crate::row::{Event, Row};
use crate::settings::{self, Target};

/// State between two entries.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    mirror: Mirror,
    /// By slot.
    inside: Vec<Option<Inside>>,
    /// Of the last input.
    pub(crate) step: u64,
    dispatched: u64,
    pub(crate) now_ns: u64,
    instant: AtInstant,
    /// Requests that have ended.
    pub(crate) requests: u64,
}

/// What has happened at the present instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum AtInstant {
    /// Nothing since the last turn that has a row.
    #[default]
    Fresh,
    /// Inputs, and no turn since.
    Inputs,
    /// Inputs, then a turn: without a row, unless more comes.
    Turned,
}

/// A request inside the engine.
#[derive(Clone, Debug)]
struct Inside {
    step: u64,
    submitted_ns: u64,
    dispatched_ns: Option<u64>,
    dispatched: Option<u64>,
    task: Option<u64>,
    path: Option<ByteArray>,
    op: Op,
    offset: u64,
    len: u32,
    marks: Marks,
}

impl Transcript {
    /// Whether the structure of the engine is known: before that there is nothing to write.
    pub(crate) fn has_begun(&self) -> bool {
        self.mirror.is_known()
    }

    /// What a file begins with.
    pub(crate) fn restate(&self, columns: &mut Columns) {
        self.mirror.restate(self.now_ns, columns);
    }

    /// What a file ends with: the requests inside.
    pub(crate) fn list_inside(&self, columns: &mut Columns) {
        for inside in self.inside.iter().flatten() {
            let row = Row {
                step: None,
                latency_ns: None,
                ..inside.row(Event::Submitted, inside.submitted_ns)
            };
            columns.push(row);
        }
    }

    /// The recording ends.
    pub(crate) fn end(&mut self, columns: &mut Columns) {
        if self.instant == AtInstant::Inputs {
            self.push(columns, Row::new(self.now_ns, Event::NoTurn));
        }
        self.instant = AtInstant::Fresh;
    }

    pub(crate) fn apply(&mut self, entry: Entry, columns: &mut Columns) {
        match entry {
            Entry::Turn { now_ns } => self.turn(now_ns, columns),
            Entry::Submit { now_ns, offset, slot, task, len, op, marks } => {
                self.input(now_ns, columns);
                let known = self.mirror.task(task);
                let (task, path) = match known {
                    Some(task) => (Some(task.number), task.path.clone()),
                    None => (None, None),
                };
                let step = self.step + 1;
                let inside = Inside {
                    step,
                    submitted_ns: self.now_ns,
                    dispatched_ns: None,
                    dispatched: None,
                    task,
                    path,
                    op,
                    offset,
                    len,
                    marks,
                };
                match slot {
                    Some(slot) => {
                        self.step = step;
                        let at = slot.get() as usize;
                        if at >= self.inside.len() {
                            self.inside.resize_with(at + 1, || None);
                        }
                        self.inside[at] = Some(inside);
                    }
                    None => {
                        let row = inside.row(Event::Refused, self.now_ns);
                        self.push(columns, Row { submitted: None, latency_ns: None, ..row });
                    }
                }
            }
            Entry::Dispatch { slot } => {
                self.dispatched += 1;
                if let Some(inside) = self.inside.get_mut(slot as usize).and_then(Option::as_mut) {
                    inside.dispatched_ns = Some(self.now_ns);
                    inside.dispatched = Some(self.dispatched);
                }
            }
            Entry::Complete { now_ns, slot, outcome, is_whole } => {
                self.input(now_ns, columns);
                let event = match (outcome, is_whole) {
                    (Outcome::Failed, _) => Event::Failed,
                    (Outcome::Done, true) => Event::Completed,
                    (Outcome::Done, false) => Event::Piece,
                };
                self.end_request(slot, event, columns);
            }
            Entry::Withdraw { now_ns, slot } => {
                self.input(now_ns, columns);
                self.end_request(slot, Event::Withdrawn, columns);
            }
            Entry::WithdrawNext { now_ns, task, slot } => {
                self.input(now_ns, columns);
                let task = self.mirror.task(task).map(|task| task.number);
                match slot.map(Slot::get) {
                    Some(slot) => self.end_request(slot, Event::WithdrawnNext, columns),
                    None => {
                        let row = Row::new(self.now_ns, Event::WithdrawnNext);
                        self.push(columns, Row { task, ..row });
                    }
                }
            }
            Entry::Promote { now_ns, slot, task, class } => {
                self.input(now_ns, columns);
                let inside = self.inside.get(slot as usize).and_then(Option::as_ref);
                let submitted = inside.map(|inside| inside.step);
                let task = self.mirror.task(task).map(|task| task.number);
                let detail = Some(class_name(class).into());
                let row = Row::new(self.now_ns, Event::Promoted);
                self.push(columns, Row { submitted, task, detail, ..row });
            }
            Entry::Rare(rare) => self.rare(*rare, columns),
        }
    }

    /// Adds the row of an input.
    fn push(&mut self, columns: &mut Columns, row: Row) {
        self.step += 1;
        columns.push(Row { step: Some(self.step), ..row });
    }

    /// An input that has an instant.
    fn input(&mut self, now_ns: u64, columns: &mut Columns) {
        let was = std::mem::replace(&mut self.instant, AtInstant::Inputs);
        if now_ns > self.now_ns {
            if was == AtInstant::Inputs {
                self.push(columns, Row::new(self.now_ns, Event::NoTurn));
            }
            self.now_ns = now_ns;
        } else if was == AtInstant::Turned {
            self.push(columns, Row::new(self.now_ns, Event::Turn));
        }
    }

    /// An input without an instant.
    fn timeless(&mut self, columns: &mut Columns) {
        if self.instant == AtInstant::Turned {
            self.push(columns, Row::new(self.now_ns, Event::Turn));
            self.instant = AtInstant::Fresh;
        }
    }

    fn turn(&mut self, now_ns: u64, columns: &mut Columns) {
        if now_ns > self.now_ns {
            if self.instant == AtInstant::Inputs {
                self.push(columns, Row::new(self.now_ns, Event::NoTurn));
            }
            self.now_ns = now_ns;
            self.instant = AtInstant::Fresh;
        }
        match self.instant {
            AtInstant::Inputs => self.instant = AtInstant::Turned,
            was => {
                if was == AtInstant::Turned {
                    self.push(columns, Row::new(self.now_ns, Event::Turn));
                }
                self.push(columns, Row::new(self.now_ns, Event::Turn));
                self.instant = AtInstant::Fresh;
            }
        }
    }

    /// A request ends, or a piece of it does. One that came before the recording has no row.
    fn end_request(&mut self, slot: u32, event: Event, columns: &mut Columns) {
        let Some(place) = self.inside.get_mut(slot as usize) else { return };
        let Some(inside) = place else { return };
        let row = inside.row(event, self.now_ns);
        if event == Event::Piece {
            (inside.dispatched_ns, inside.dispatched) = (None, None);
        } else {
            self.requests += 1;
            *place = None;
        }
        self.push(columns, row);
    }

    fn rare(&mut self, rare: Rare, columns: &mut Columns) {
        match rare {
            Rare::Structure { now_ns, structure } => {
                self.now_ns = self.now_ns.max(now_ns);
                let is_first = !self.mirror.is_known();
                self.mirror.replace(&structure);
                if !is_first {
                    self.restate(columns);
                }
            }
            Rare::Cgroup { slot, parent, name } => {
                self.timeless(columns);
                self.mirror.add_cgroup(slot, Some(parent), name);
                let row = Row::new(self.now_ns, Event::CgroupCreated);
                self.push(columns, Row { cgroup: self.mirror.path(slot), ..row });
            }
            Rare::Client { slot, cgroup } => {
                self.timeless(columns);
                let client = Some(self.mirror.add_client(slot, cgroup));
                let row = Row::new(self.now_ns, Event::ClientOpened);
                self.push(columns, Row { client, cgroup: self.mirror.path(cgroup), ..row });
            }
            Rare::Task { slot, client } => {
                self.timeless(columns);
                let task = Some(self.mirror.add_task(slot, client));
                let client = self.mirror.client_number(client);
                let row = Row::new(self.now_ns, Event::TaskOpened);
                self.push(columns, Row { client, task, ..row });
            }
            Rare::CloseTask { slot } => {
                self.timeless(columns);
                let task = self.mirror.remove_task(slot);
                let row = Row::new(self.now_ns, Event::TaskClosed);
                self.push(columns, Row { task, ..row });
            }
            Rare::CloseClient { slot } => {
                self.timeless(columns);
                let client = self.mirror.remove_client(slot);
                let row = Row::new(self.now_ns, Event::ClientClosed);
                self.push(columns, Row { client, ..row });
            }
            Rare::Change { now_ns, change } => {
                self.input(now_ns, columns);
                self.change(&change, columns);
            }
            Rare::Dropped { entries } => {
                // What is inside is not known any more, nor where in a turn the gap ends.
                self.inside.clear();
                self.instant = AtInstant::Fresh;
                self.step += entries;
                let detail = Some(entries.to_string().as_str().into());
                let row = Row::new(self.now_ns, Event::Dropped);
                self.push(columns, Row { detail, ..row });
            }
        }
    }

    fn change(&mut self, change: &Change, columns: &mut Columns) {
        match *change {
            Change::Move { cgroup, parent } => {
                let row = Row::new(self.now_ns, Event::CgroupMoved);
                let row = Row {
                    cgroup: self.mirror.path(cgroup.slot()),
                    detail: self.mirror.path(parent.slot()),
                    ..row
                };
                self.mirror.move_cgroup(cgroup.slot(), parent.slot());
                return self.push(columns, row);
            }
            Change::Remove { cgroup } => {
                let row = Row::new(self.now_ns, Event::CgroupRemoved);
                let row = Row { cgroup: self.mirror.path(cgroup.slot()), ..row };
                self.mirror.remove_cgroup(cgroup.slot());
                return self.push(columns, row);
            }
            _ => self.mirror.note_config(change),
        }
        let (target, setting) = settings::print(change).expect("all other changes set something");
        let detail = Some(format!("{} {}", setting.0, setting.1).as_str().into());
        let mut row = Row { detail, ..Row::new(self.now_ns, Event::Set) };
        match target {
            Target::Device => {}
            Target::Cgroup(cgroup) => {
                row.cgroup = self.mirror.path(cgroup.slot());
                self.mirror.set_cgroup(cgroup.slot(), setting);
            }
            Target::Client(client) => {
                row.client = self.mirror.client_number(client.slot());
                self.mirror.set_client(client.slot(), setting);
            }
        }
        self.push(columns, row);
    }
}

impl Inside {
    fn row(&self, event: Event, now_ns: u64) -> Row {
        Row {
            time_ns: now_ns,
            step: None,
            event,
            cgroup: self.path.clone(),
            op: Some(self.op),
            offset: Some(self.offset),
            length: Some(self.len.into()),
            latency_ns: Some(now_ns - self.submitted_ns),
            wait_ns: self.dispatched_ns.map(|at_ns| at_ns - self.submitted_ns),
            submitted: Some(self.step),
            dispatched: self.dispatched,
            client: None,
            task: self.task,
            detail: self.marks.text().map(|text| text.as_str().into()),
        }
    }
}
