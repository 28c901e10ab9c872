//! Device failures: the connections that are told of them, the log, and what is lost at the end.

use std::io;
use std::ops::Range;

use tracing::{error, warn};
use weir_engine::Instant;
use weir_nbd::Op;

use super::DeviceError;
use super::reactor::DeviceIo;
use super::request::{Client, Origin, PendingRequest};
use crate::log_limit::{LogLine, LogPermit};

/// Ranges that the last line of the log names.
const RANGES_TOLD_MAX: usize = 16;

/// What is known of a device's failures.
#[derive(Default)]
pub(super) struct Failures {
    /// Failed syncs of the device that have been booked.
    pub(super) syncs: u64,
    /// Of these, those that some client has been told of.
    syncs_told: u64,
    /// Why the last flush failed.
    last_flush: Option<io::Error>,
}

impl DeviceIo {
    /// Logs a failed request, and tells a flush of earlier failures that its connection has not been told of.
    ///
    /// The kernel says once that bytes it had acknowledged are lost, to the request that meets it; but bytes of every
    /// connection may be among them. So each connection is told by its next flush, once; a durable write that fails
    /// tells of its own bytes only.
    pub(super) fn note_outcome(
        &mut self,
        now: Instant,
        pending: &PendingRequest,
        result: io::Result<()>,
    ) -> io::Result<()> {
        if let Err(error) = &result {
            self.log_failure(now, pending, error);
        }
        let failures = self.ring.sync_failures(&self.storage.disk);
        self.failures.syncs = failures.count;
        let Origin::Client(Client { connection, serial, syncs_failed, .. }) = pending.origin else {
            return result;
        };
        // A sync made the last piece durable, and those before it, unless another sync has lost them in between.
        let is_synced = pending.command.fua && !matches!(pending.command.op, Op::Write | Op::Flush);
        if is_synced && result.is_ok() && failures.count > syncs_failed {
            return Err(io::Error::from_raw_os_error(failures.errno));
        }
        let Some(connection) = self.connections.open_mut(connection, serial) else { return result };
        let unseen = failures.count - connection.syncs_failed_seen;
        if pending.command.op == Op::Flush {
            connection.syncs_failed_seen = failures.count;
            if unseen > 0 {
                self.failures.syncs_told = failures.count;
                return result.and_then(|()| Err(io::Error::from_raw_os_error(failures.errno)));
            }
        }
        result
    }

    fn log_failure(&mut self, now: Instant, pending: &PendingRequest, error: &io::Error) {
        let op = pending.command.op;
        // An answer, not a failure: what a client asks for is not fast here.
        if matches!(op, Op::WriteZeroes { fast: true, .. }) {
            return;
        }
        let Some(LogPermit { left_out }) = self.log_limit.permit(now, LogLine::DeviceFailed) else {
            return;
        };
        let (device, offset, len) = (&self.name, pending.extent.offset, pending.extent.len);
        match pending.origin {
            Origin::Client(_) => {
                warn!(device, ?op, offset, len, left_out, %error, "the device failed a request");
            }
            Origin::Cache(_) => {
                error!(device, offset, len, left_out, %error, "cannot write back: clients are told");
            }
        }
    }

    /// The device's last flush is over.
    pub(super) fn flushed_last(&mut self, result: io::Result<()>) {
        self.failures.last_flush = result.err();
        self.shutdown.end();
    }

    /// What the device has not got at the end although clients were told that it has.
    ///
    /// # Errors
    /// Which bytes, and why.
    pub(super) fn check_loss(&mut self) -> Result<(), DeviceError> {
        let lost = self.cache.as_ref().map(|cached| (cached.lost(), cached.last_failure()));
        let loss = match (lost, self.failures.last_flush.take()) {
            (Some((ranges, source)), _) if !ranges.is_empty() => {
                let bytes = ranges.iter().map(|range| range.end - range.start).sum();
                let ranges = text_of(&ranges);
                DeviceError::Lost { bytes, ranges, source }
            }
            (_, Some(source)) => DeviceError::LastFlush { source },
            (_, None) if self.failures.syncs > self.failures.syncs_told => {
                let errno = self.ring.sync_failures(&self.storage.disk).errno;
                DeviceError::UntoldFlush { source: io::Error::from_raw_os_error(errno) }
            }
            (_, None) => return Ok(()),
        };
        error!(device = self.name, "{loss}");
        Err(loss)
    }
}

fn text_of(ranges: &[Range<u64>]) -> String {
    let told = ranges.iter().take(RANGES_TOLD_MAX);
    let told: Vec<String> = told.map(|range| format!("{}..{}", range.start, range.end)).collect();
    match ranges.len() - told.len() {
        0 => told.join(", "),
        more => format!("{} and {more} more ranges", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::text_of;

    #[test]
    fn a_loss_names_its_first_ranges_and_counts_the_rest() {
        assert_eq!(text_of(&[0..4096, 8192..8193]), "0..4096, 8192..8193");
        let many: Vec<_> = (0..20).map(|number| number * 8..number * 8 + 1).collect();
        assert!(text_of(&many).ends_with("120..121 and 4 more ranges"), "{}", text_of(&many));
    }
}
