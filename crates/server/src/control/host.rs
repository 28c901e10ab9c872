//! The server and its devices as the control API sees them.

use std::sync::Arc;

use weir_counters::Histogram;
use weir_engine::CgroupId;

use super::metrics::{DeviceMetrics, ExportMetrics};
use super::token::Tokens;
use crate::command::Command;
use crate::device::{DeviceHandle, DeviceReport};
use crate::recording::Recordings;
use crate::status::{DeviceStatus, ExportStatus, ListenersStatus, RecordingStatus, SandboxStatus};
use crate::tenants::Tenants;
use crate::view::DeviceActivity;

/// A device thread as the control API sees it.
pub trait Target: Send + Sync + 'static {
    /// The device's name in the configuration.
    fn name(&self) -> &str;
    /// Major and minor number, if it is a block device.
    fn number(&self) -> Option<(u32, u32)> {
        None
    }
    /// Hands it a command; false when the thread has ended.
    fn send(&self, command: Command) -> bool;
    /// The whole status, from what the thread has told of it.
    fn complete(&self, report: DeviceReport) -> DeviceStatus {
        report.status
    }
    /// Its cgroups as the metrics have them, busiest first.
    #[doc(hidden)]
    fn metrics(&self, _report: &DeviceReport) -> DeviceMetrics {
        DeviceMetrics::default()
    }
    /// Its cgroups as live samples have them.
    #[doc(hidden)]
    fn activity(&self) -> DeviceActivity {
        DeviceActivity::default()
    }
    /// Whole times of the requests of each of these cgroups and of all below it, of reads and of all others.
    #[doc(hidden)]
    fn whole_times(&self, _cgroups: &[CgroupId]) -> Vec<[Histogram; 2]> {
        Vec::new()
    }
    /// Remembers latencies as they are now, from which those of the last seconds are counted.
    fn sample(&self) {}
}

impl Target for DeviceHandle {
    fn name(&self) -> &str {
        &self.name
    }

    fn number(&self) -> Option<(u32, u32)> {
        self.number
    }

    fn send(&self, command: Command) -> bool {
        DeviceHandle::send(self, command).is_ok()
    }

    fn complete(&self, report: DeviceReport) -> DeviceStatus {
        self.board.look().device_status(report)
    }

    fn metrics(&self, report: &DeviceReport) -> DeviceMetrics {
        DeviceMetrics { cgroups: self.board.look().cgroup_metrics(&report.writeback) }
    }

    fn activity(&self) -> DeviceActivity {
        self.board.look().activity()
    }

    fn whole_times(&self, cgroups: &[CgroupId]) -> Vec<[Histogram; 2]> {
        self.board.look().whole_times(cgroups)
    }

    fn sample(&self) {
        self.board.look().sample();
    }
}

/// A server as the control API sees it.
pub trait Host<T>: Send + Sync + 'static {
    /// Its devices, as they are now.
    fn devices(&self) -> Vec<T>;
    /// Its exports, as they are now.
    fn exports(&self) -> Vec<ExportStatus> {
        Vec::new()
    }
    /// Its exports as the metrics have them.
    #[doc(hidden)]
    fn export_metrics(&self) -> Vec<ExportMetrics> {
        Vec::new()
    }
    /// Remembers latencies of exports, as [`Target::sample`] those of a device.
    fn sample_exports(&self) {}
    /// How its listeners are.
    fn listeners(&self) -> ListenersStatus {
        ListenersStatus::default()
    }
    /// What it has given up after its start.
    fn sandbox(&self) -> SandboxStatus {
        SandboxStatus::default()
    }
    /// The tokens that are taken over TCP, as they are now.
    fn tokens(&self) -> Arc<Tokens> {
        Arc::default()
    }
    /// How the recording is; `None` without one.
    fn recording(&self) -> Option<RecordingStatus> {
        None
    }
    /// Begins the recording or ends it; whether that is new.
    fn record(&self, _is_on: bool) -> bool {
        false
    }
    /// Changes of devices and exports, and what is kept; `None` where there are none.
    fn tenants(&self) -> Option<&Tenants> {
        None
    }
}

impl Host<DeviceHandle> for Arc<Tenants> {
    fn devices(&self) -> Vec<DeviceHandle> {
        self.running().devices()
    }

    fn exports(&self) -> Vec<ExportStatus> {
        self.running().exports()
    }

    fn export_metrics(&self) -> Vec<ExportMetrics> {
        self.running().export_metrics()
    }

    fn sample_exports(&self) {
        self.running().sample_exports();
    }

    fn listeners(&self) -> ListenersStatus {
        self.running().listeners()
    }

    fn sandbox(&self) -> SandboxStatus {
        self.running().sandbox.status()
    }

    fn tokens(&self) -> Arc<Tokens> {
        self.running().tokens()
    }

    fn recording(&self) -> Option<RecordingStatus> {
        self.running().recordings.as_ref().map(Recordings::status)
    }

    fn record(&self, is_on: bool) -> bool {
        let running = self.running();
        let devices = running.devices();
        running.recordings.as_ref().is_some_and(|recordings| recordings.switch(is_on, &devices))
    }

    fn tenants(&self) -> Option<&Tenants> {
        Some(self)
    }
}

/// Always the same devices.
impl<T: Target + Clone> Host<T> for Vec<T> {
    fn devices(&self) -> Vec<T> {
        self.clone()
    }
}
