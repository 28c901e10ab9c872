//! Live samples for pages: one sampler, a history of an hour, and streams of server-sent events.
//!
//! ```text
//!  every 5 s ───────────────────────► sampler ─► history ─┐
//!  every 1 s while there are listeners ► sampler ─► newest ─┴─► each listener takes what it has not had
//! ```

mod history;
mod listener;
mod sample;
mod sampler;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub(super) use self::listener::Listener;
pub(super) use self::sample::LiveSample;

use self::history::{History, Position, event};
use self::sampler::{Reading, Sampler};
use super::ask::{ANSWER_WITHIN, post, wait};
use super::host::Target;
use super::look::seconds_since_1970;
use super::operations::Control;
use super::refuse::Refused;
use crate::command::Command;
use crate::status::DeviceStatus;

/// Time between two samples for those that listen.
pub(super) const LIVE_EVERY: Duration = Duration::from_secs(1);
/// Live samples between two that are kept.
pub(super) const KEPT_EVERY: u32 = 5;
/// Streams at once.
const LISTENERS_MAX: usize = 16;

/// Samples, and those that listen to them.
pub(super) struct Live {
    /// Tells runs of the server apart.
    run: u64,
    places: Arc<Semaphore>,
    latest: watch::Sender<Latest>,
    history: Mutex<History>,
    /// Of the samples that are kept.
    kept: Mutex<Spans>,
    /// Of those for listeners; none while there is no listener.
    live: Mutex<Option<Spans>>,
}

/// What listeners get next.
#[derive(Clone, Debug)]
enum Latest {
    Nothing,
    Sample(Bytes),
    /// The server is ending.
    End,
}

/// A sampler and the time of its last reading.
#[derive(Default)]
struct Spans {
    sampler: Sampler,
    last: Option<Instant>,
}

impl Spans {
    fn take<T: Target>(
        &mut self,
        started_at: f64,
        readings: &[Reading<'_, T>],
    ) -> Option<LiveSample> {
        let now = Instant::now();
        let span = now - self.last.replace(now).unwrap_or(now);
        let since_1970 = [seconds_since_1970(), started_at].map(|seconds| (seconds * 1e3) as u64);
        self.sampler.take(since_1970.into(), span, readings)
    }
}

impl Live {
    /// Of a run that began `started_at` seconds after 1970.
    pub(super) fn new(started_at: f64) -> Live {
        Live {
            run: (started_at * 1e3) as u64,
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
            latest: watch::Sender::new(Latest::Nothing),
            history: Mutex::default(),
            kept: Mutex::default(),
            live: Mutex::default(),
        }
    }

    /// A new listener, which has had all up to the event `last`.
    pub(super) fn listen(self: &Arc<Self>, last: Option<&str>) -> Result<Listener, Refused> {
        if matches!(*self.latest.borrow(), Latest::End) {
            return Err(Refused::silent("the server is ending"));
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refused::silent(format!("{LISTENERS_MAX} listen already"))
                .hint("close a page".to_owned())
        })?;
        let last = last.and_then(Position::parse).filter(|last| last.run == self.run);
        let next = last.map_or(0, |last| last.number.saturating_add(1));
        Ok(Listener::new(Arc::clone(self), next, place))
    }

    fn is_listened_to(&self) -> bool {
        self.places.available_permits() < LISTENERS_MAX
    }

    /// Every listener hears that the server ends, and none comes any more.
    pub(super) fn end(&self) {
        self.latest.send_replace(Latest::End);
    }

    fn publish(&self, latest: Bytes) {
        self.latest.send_if_modified(|held| match held {
            Latest::End => false,
            _ => {
                *held = Latest::Sample(latest);
                true
            }
        });
    }

    fn keep(&self, sample: LiveSample) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Position { run: self.run, number: history.end() };
        history.push(event("sample", Some(id), sample));
    }
}

impl<T: Target> Control<T> {
    /// Takes the samples of a tick, of which one in [`KEPT_EVERY`] is kept.
    pub(super) async fn sample_live(&self, is_kept: bool) {
        let is_live = self.live.is_listened_to();
        if is_kept && !is_live {
            *self.live.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if !is_kept && !is_live {
            return;
        }
        let devices = self.devices();
        let devices = devices.all();
        let statuses = statuses_that_come(&devices).await;
        let readings: Vec<Reading<'_, T>> = devices
            .into_iter()
            .zip(statuses)
            .map(|(device, status)| Reading { device, status, activity: device.activity() })
            .collect();
        if is_live {
            let mut live = self.live.live.lock().unwrap_or_else(PoisonError::into_inner);
            let sample = live.get_or_insert_default().take(self.started_at, &readings);
            if let Some(sample) = sample {
                self.live.publish(event("live", None, sample));
            }
        }
        if is_kept {
            let mut kept = self.live.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(sample) = kept.take(self.started_at, &readings) {
                self.live.keep(sample);
            }
        }
    }
}

/// What the threads of devices tell of them; nothing of those that do not answer.
async fn statuses_that_come<T: Target>(devices: &[&T]) -> Vec<Option<DeviceStatus>> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    let make = |reply| Command::Status { reply };
    let asked: Vec<_> = devices.iter().map(|device| (*device, post(*device, &make))).collect();
    let mut statuses = Vec::with_capacity(asked.len());
    for (device, reply) in asked {
        let report = match reply {
            Ok(reply) => wait(device, reply, deadline).await.ok(),
            Err(_) => None,
        };
        statuses.push(report.map(|report| report.status));
    }
    statuses
}
