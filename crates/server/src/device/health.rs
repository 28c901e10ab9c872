//! Devices that are gone or were cut short: what waits for a limit fails at once, where it would fail anyway.
//!
//! A device is looked at every second while there are requests, and more often after a failure. One that fails without
//! saying so in its size, as a disk that was pulled out, is known by failures in [`AREAS_FAILED_MAX`] of [`AREAS`] areas
//! without a success in between. The next request goes to the device all the same, and when one succeeds all is well again.

use std::io;

use rustix::io::Errno;
use tracing::{error, info, warn};
use weir_engine::Instant;

use super::reactor::{DeviceIo, Reactor};
use super::request::{Origin, PendingRequest};
use super::tx::ReplyTo;
use crate::log_limit::{LogLine, LogPermit};

/// Equal parts of a device.
const AREAS: u64 = 64;
/// Areas with failures after which a device is taken to be gone. A region of bad sectors lies in one or two of them: it is
/// no reason to fail what others wait for.
const AREAS_FAILED_MAX: u32 = 8;
/// How often a device is looked at, and how often after a failure.
const LOOK_NS: u64 = 1_000_000_000;
const LOOK_AFTER_FAILURE_NS: u64 = 50_000_000;

/// What is known of a device's presence.
#[derive(Debug, Default)]
pub(super) struct DeviceHealth {
    /// One bit for each area that has had failures since the last success.
    areas_failed: u64,
    looked_ns: u64,
    /// Bytes that it lacked when it was looked at last.
    missing_bytes: u64,
}

impl DeviceHealth {
    /// Takes note of how a request at `offset` of a device of `size` bytes has ended.
    pub(super) fn note(&mut self, offset: u64, size: u64, result: &io::Result<()>) {
        let Err(error) = result else {
            self.areas_failed = 0;
            return;
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        if matches!(errno, Some(Errno::IO | Errno::NXIO | Errno::NODEV | Errno::SHUTDOWN)) {
            let area = offset / size.div_ceil(AREAS).max(1);
            self.areas_failed |= 1 << area.min(AREAS - 1);
        }
    }

    fn has_failed_all_over(&self) -> bool {
        self.areas_failed.count_ones() >= AREAS_FAILED_MAX
    }
}

impl Reactor {
    /// Looks at the device if that is due, and fails what waits for what is not there any more.
    pub(super) fn watch_device(&mut self, now: Instant) {
        let io = &mut self.io;
        let every_ns = if io.health.areas_failed != 0 { LOOK_AFTER_FAILURE_NS } else { LOOK_NS };
        let since_ns = now.as_nanos().saturating_sub(io.health.looked_ns);
        if io.requests.is_empty() || since_ns < every_ns {
            return;
        }
        let size = io.storage.disk.info().size;
        let present = io.ring.look(&io.storage.disk);
        let presence = &mut io.health;
        presence.looked_ns = now.as_nanos();
        let missing_bytes = size - present;
        let was_missing = std::mem::replace(&mut presence.missing_bytes, missing_bytes);
        if missing_bytes > was_missing {
            error!(
                device = io.name,
                size, present, "the device was cut short: what is missing fails"
            );
        } else if missing_bytes < was_missing {
            info!(device = io.name, size, present, "some of what was missing is back");
        }
        let is_gone = present == 0 || presence.has_failed_all_over();
        if is_gone || present < size {
            self.fail_waiting(now, if is_gone { 0 } else { present });
        }
    }

    /// Fails clients' requests that reach past `present` and that the device has not got yet. O(requests inside).
    fn fail_waiting(&mut self, now: Instant, present: u64) {
        let is_lost = |pending: &PendingRequest| {
            pending.extent.len > 0
                && pending.extent.offset + u64::from(pending.extent.len) > present
        };
        let waiting = self.io.requests.iter().filter(|(_, pending)| pending.ticket.is_none());
        let lost = waiting.filter(|(_, pending)| is_lost(pending));
        let lost: Vec<_> = lost.filter_map(|(key, pending)| Some((key, pending.id?))).collect();
        let mut failed = 0;
        for (key, request) in lost {
            if self.engine.withdraw(now, request).is_none() {
                continue;
            }
            failed += 1;
            let pending = &self.io.requests[key];
            if let Origin::Client(client) = &pending.origin {
                let asked = ReplyTo::new(client, pending.command);
                self.io.reply(&asked, None, None, Err(Errno::IO.into()));
            }
            self.io.forget_withdrawn(key);
        }
        let DeviceIo { log_limit, name, .. } = &mut self.io;
        if failed > 0
            && let Some(LogPermit { left_out }) = log_limit.permit(now, LogLine::WaitingFailed)
        {
            warn!(
                device = name,
                requests = failed,
                left_out,
                "the device is gone: what waited fails at once"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 64 << 20;

    #[test]
    fn a_bad_region_is_no_device_that_is_gone() {
        let mut presence = DeviceHealth::default();
        for number in 0..100 {
            presence.note((4 << 20) + number * 4096, SIZE, &Err(Errno::IO.into()));
        }
        assert!(!presence.has_failed_all_over());
    }

    #[test]
    fn failures_all_over_tell_of_a_device_that_is_gone_until_a_success() {
        let mut presence = DeviceHealth::default();
        for number in 0..8 {
            presence.note(number << 20, SIZE, &Err(Errno::NOSPC.into()));
        }
        assert!(!presence.has_failed_all_over(), "a full file system is there");
        for number in 0..8 {
            assert!(!presence.has_failed_all_over());
            presence.note(number << 20, SIZE, &Err(Errno::IO.into()));
        }
        assert!(presence.has_failed_all_over());
        presence.note(SIZE - 1, SIZE, &Ok(()));
        assert!(!presence.has_failed_all_over());
    }
}
