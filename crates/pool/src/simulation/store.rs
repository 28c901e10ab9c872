//! Simulated store: one value with a revision, its past, and what can happen to it.

use std::collections::VecDeque;

use crate::{Answer, Revision, Store};

#[derive(Debug, Default)]
pub(super) struct SimulatedStore {
    value: Option<(Revision, Vec<u8>)>,
    /// Never given twice, also after a loss.
    revisions: u64,
    past: VecDeque<(u64, Option<Vec<u8>>)>,
    pub(super) down_until: u64,
}

/// An answer on its way.
#[derive(Clone, Debug)]
pub(super) enum OnItsWay {
    Value(Option<(Revision, Vec<u8>)>),
    Swapped(Revision),
    Refused,
    Failed,
}

impl OnItsWay {
    pub(super) fn answer(&self) -> Answer<'_> {
        match self {
            OnItsWay::Value(value) => {
                Answer::Value(value.as_ref().map(|(revision, bytes)| (*revision, &**bytes)))
            }
            OnItsWay::Swapped(revision) => Answer::Swapped(*revision),
            OnItsWay::Refused => Answer::Refused,
            OnItsWay::Failed => Answer::Failed,
        }
    }
}

impl SimulatedStore {
    pub(super) fn execute(&mut self, now: u64, request: &Store) -> OnItsWay {
        if now < self.down_until {
            return OnItsWay::Failed;
        }
        match request {
            Store::Get => OnItsWay::Value(self.value.clone()),
            Store::Swap { expected, bytes } => {
                if *expected != self.value.as_ref().map(|(revision, _)| *revision) {
                    return OnItsWay::Refused;
                }
                OnItsWay::Swapped(self.set(now, bytes.clone()))
            }
        }
    }

    fn set(&mut self, now: u64, bytes: Vec<u8>) -> Revision {
        self.past.push_back((now, Some(bytes.clone())));
        if self.past.len() > 10_000 {
            self.past.pop_front();
        }
        self.revisions += 1;
        let revision = Revision(self.revisions);
        self.value = Some((revision, bytes));
        revision
    }

    pub(super) fn lose(&mut self, now: u64) {
        self.value = None;
        self.past.push_back((now, None));
    }

    /// Goes back to what it had at `then`.
    pub(super) fn go_back(&mut self, now: u64, then: u64) {
        let had = self.past.iter().rev().find(|(at, _)| *at <= then);
        match had.and_then(|(_, value)| value.clone()) {
            Some(bytes) => drop(self.set(now, bytes)),
            None => self.lose(now),
        }
    }
}
