//! Rate limiter of log lines that clients can cause.
//!
//! Each kind of line has a window of its own, so that a flood of one kind hides no line of another. A line that is let
//! through after others were left out tells how many.
//!
//! ```ignore
//! if let Some(LogPermit { left_out }) = io.log_limit.permit(now, LogLine::AcceptFailed) {
//!     warn!(device = io.name, left_out, %error, "cannot accept a connection");
//! }
//! ```

use std::collections::BTreeMap;

use weir_engine::Instant;

/// Lines of one kind that a window lets through.
const LINES_PER_WINDOW: u32 = 5;
/// Length of a window: a flood makes one line every two seconds.
const WINDOW_NS: u64 = 10_000_000_000;

/// Kinds of log lines that a client can cause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum LogLine {
    /// A listener failed, as without descriptors.
    AcceptFailed,
    /// A connection was refused: there are as many as there may be.
    ConnectionRefused,
    /// A client asked for an export that is not there.
    ExportUnknown,
    /// A client asked for an export that it may not use.
    ExportDenied,
    /// A connection did not come to be encrypted.
    TlsFailed,
    /// A client speaks another protocol.
    NoNbd,
    /// An accepted connection could not be served or handed to its device's thread.
    ConnectionNotServed,
    /// A connection was closed because its client broke the protocol or stalled.
    ConnectionDropped,
    /// The device failed a request.
    DeviceFailed,
    /// The device took what the write-back cache has, after it had not.
    WritesBackAgain,
    /// Requests that waited were failed, because the device is gone.
    WaitingFailed,
    /// A change that the control API was asked for was refused.
    ChangeRefused,
    /// A request to the control API over TCP had no token that is known.
    NoToken,
    /// A connection to the control API over TCP did not get through TLS.
    NoTls,
}

/// Leave to write one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogPermit {
    /// Lines of this kind that were left out since the last one; `None` where there were none. A field of the line.
    pub(crate) left_out: Option<u64>,
}

/// The windows of all kinds. O(log kinds) for a line.
#[derive(Debug, Default)]
pub(crate) struct LogLimit {
    windows: BTreeMap<LogLine, Window>,
    left_out_total: u64,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    /// Leave to write a line of this kind now; `None`, and one more left out, where its window is used up.
    pub(crate) fn permit(&mut self, now: Instant, line: LogLine) -> Option<LogPermit> {
        let window =
            self.windows.entry(line).or_insert(Window { since: now, lines: 0, left_out: 0 });
        if now.nanos_since(window.since) >= WINDOW_NS {
            (window.since, window.lines) = (now, 0);
        }
        if window.lines == LINES_PER_WINDOW {
            window.left_out += 1;
            self.left_out_total += 1;
            return None;
        }
        window.lines += 1;
        let left_out = std::mem::take(&mut window.left_out);
        Some(LogPermit { left_out: (left_out > 0).then_some(left_out) })
    }

    /// Lines left out since the start.
    pub(crate) fn left_out_total(&self) -> u64 {
        self.left_out_total
    }

    /// Lines left out that no line has told of yet.
    pub(crate) fn left_out_untold(&self) -> u64 {
        self.windows.values().map(|window| window.left_out).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_makes_a_line_every_two_seconds_and_each_left_out_is_told_once() {
        let mut limit = LogLimit::default();
        let (mut lines, mut told) = (0, 0);
        for number in 0..6000 {
            let now = Instant::from_nanos(number * 10_000_000);
            if let Some(permit) = limit.permit(now, LogLine::AcceptFailed) {
                lines += 1;
                told += permit.left_out.unwrap_or(0);
            }
        }
        assert_eq!(lines, 30, "in a minute");
        assert_eq!(told + limit.left_out_untold(), 6000 - 30);
        assert_eq!(limit.left_out_total(), 6000 - 30);
    }

    #[test]
    fn a_flood_of_one_kind_hides_no_line_of_another() {
        let mut limit = LogLimit::default();
        let now = Instant::from_nanos(7);
        while limit.permit(now, LogLine::AcceptFailed).is_some() {}
        assert_eq!(
            limit.permit(now, LogLine::ConnectionDropped),
            Some(LogPermit { left_out: None })
        );
    }
}
