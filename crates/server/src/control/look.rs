//! Operations that look at a server: its status, its metrics, and the latencies that are kept for both.

use std::sync::PoisonError;

use rustix::time::{ClockId, Timespec, clock_gettime};
use tokio::time::MissedTickBehavior;

use super::ask::{ANSWER_WITHIN, post, statuses, wait};
use super::host::Target;
use super::live::{KEPT_EVERY, LIVE_EVERY};
use super::metrics::{LastReload, ServerMetrics};
use super::operations::Control;
use super::refuse::Refused;
use crate::command::Command;
use crate::status::{DeviceStatus, Status};

impl<T: Target> Control<T> {
    pub(super) async fn status(&self) -> Result<Status, Refused> {
        let devices = self.devices();
        let devices = devices.all();
        // Before the devices are asked: a change meanwhile must not look as if it was seen.
        let generation = self.generation.text();
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_secs: self.started.elapsed().as_secs(),
            generation,
            listeners: self.host.listeners(),
            sandbox: self.host.sandbox(),
            recording: self.host.recording(),
            devices: statuses(&devices).await?,
            exports: self.host.exports(),
        })
    }

    pub(super) fn note_reload(&self, is_successful: bool) {
        let last = LastReload { is_successful, at: seconds_since_1970() };
        *self.last_reload.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
    }

    /// All that the metrics have. A device that does not answer is there without what its thread would tell.
    pub(super) async fn metrics(&self) -> ServerMetrics {
        let devices = self.devices();
        let deadline = tokio::time::Instant::now() + ANSWER_WITHIN;
        let asked: Vec<_> = devices
            .all()
            .into_iter()
            .map(|device| (device, post(device, &|reply| Command::Status { reply })))
            .collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (device, reply) in asked {
            let report = match reply {
                Ok(reply) => wait(device, reply, deadline).await.ok(),
                Err(_) => None,
            };
            let is_up = report.is_some();
            let report = report.unwrap_or_default();
            let metrics = device.metrics(&report);
            let status = DeviceStatus { device: device.name().into(), ..report.status };
            answers.push((is_up, status, metrics));
        }
        ServerMetrics {
            started_at: self.started_at,
            changes: self.generation.changes(),
            last_reload: *self.last_reload.lock().unwrap_or_else(PoisonError::into_inner),
            recording: self.host.recording(),
            listeners: self.host.listeners(),
            devices: answers,
            exports: self.host.export_metrics(),
        }
    }

    /// Remembers latencies as they are now: recent ones are those since one to two such times. O(cgroups that were used).
    fn sample(&self) {
        self.devices().all().into_iter().for_each(Target::sample);
        self.host.sample_exports();
    }

    /// Keeps the latencies of the last seconds known, and the samples of the last hour; takes live ones while there are listeners.
    /// Returns never.
    pub async fn keep_sampling(&self) {
        let mut ticks = tokio::time::interval(LIVE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        for number in (1..KEPT_EVERY).chain([0]).cycle() {
            ticks.tick().await;
            let is_kept = number == 0;
            if is_kept {
                self.sample();
            }
            self.sample_live(is_kept).await;
        }
    }
}

/// The present time.
pub(super) fn seconds_since_1970() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}
