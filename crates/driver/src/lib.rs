//! The one loop that joins an engine, a clock and a device.
//!
//! ```text
//!            ┌───────────────── one turn ─────────────────┐
//!  inbox ──► submit, complete ──► handle_timeout ──► poll_dispatch ──► device
//!    ▲                                                    │
//!    └──────────── wait until poll_timeout ◄──────────────┘
//! ```
//!
//! The server turns it on io_uring, the lab in virtual time. They differ in clock, device and inbox, not in what
//! happens between two readings of the clock; so what is tried in the lab is what serves.

#![no_std]
#![forbid(unsafe_code)]

use core::num::NonZeroU32;

use weir_engine::{Dispatch, Engine, Event, Instant};

/// Bytes of the largest command for a device: 1,280 KiB, the kernel's default for `max_sectors_kb`. A longer request goes
/// there in pieces, so that it does not keep the device from others for longer than a disk takes for one, about 10 ms.
pub const PIECE_BYTES_MAX: NonZeroU32 = NonZeroU32::new(1280 << 10).expect("not zero");

/// Where dispatched requests go. The inbox brings them back, as calls of [`Engine::complete`].
pub trait Device {
    /// Whether it does better with one large request than with many small ones that lie side by side. Where not, nothing
    /// is ever joined.
    const JOINS: bool = false;

    /// Starts a request; where the device joins them, it takes it, to be started with those that are joined to it. It must
    /// not wait for it.
    fn issue(&mut self, now: Instant, dispatch: Dispatch);

    /// Joins a request to the one taken last: the same operation, which goes on where that one ends. Each is completed by
    /// itself all the same.
    fn join(&mut self, _now: Instant, _dispatch: Dispatch) {
        unreachable!("a device that joins nothing was given something to join");
    }

    /// Starts what was taken and joined. It must not wait for it.
    fn start(&mut self, _now: Instant) {}

    /// Takes note of what the engine tells about itself.
    fn record(&mut self, now: Instant, event: Event);
}

/// The engine's part of a turn, after the inbox has been drained into it: what may go, goes. Answers when the next
/// turn is due, if nothing comes before.
///
/// One reading of the clock serves the whole turn. O(requests dispatched).
pub fn turn<D: Device>(engine: &mut Engine, now: Instant, device: &mut D) -> Option<Instant> {
    engine.handle_timeout(now);
    while let Some(dispatch) = engine.poll_dispatch(now) {
        device.issue(now, dispatch);
        if D::JOINS {
            while let Some(dispatch) = engine.poll_joined(now) {
                device.join(now, dispatch);
            }
            device.start(now);
        }
    }
    while let Some(event) = engine.poll_event() {
        device.record(now, event);
    }
    engine.poll_timeout()
}
