//! The one loop that joins an engine, a clock and a device.
//!
//! ```text
//!            ┌───────────────── one turn ─────────────────┐
//!  inbox ──► submit, complete ──► handle_timeout ──► poll_dispatch ──► device
//!    ▲                                                    │
//!    └──────────── wait until poll_timeout ◄──────────────┘
//! ```
//!
//! The server runs it on io_uring, the lab in virtual time. They differ in clock, device and inbox, not in what happens
//! between two readings of the clock.

#![no_std]
#![forbid(unsafe_code)]

use core::num::NonZeroU32;

use weir_engine::{Dispatch, Engine, Event, Instant};

/// Bytes of the largest command for a device: 1,280 KiB, the kernel's default for `max_sectors_kb`. A longer request goes
/// there in pieces, so that others wait for one piece at most, about 10 ms of a disk.
pub const PIECE_BYTES_MAX: NonZeroU32 = NonZeroU32::new(1280 << 10).expect("not zero");

/// Target of dispatched requests. The inbox returns them, as calls of [`Engine::complete`].
pub trait Device {
    /// Whether one large request is faster than many adjacent small ones. If not, requests are never joined.
    const JOINS: bool = false;

    /// Starts a request, or takes it if the device joins requests. Must not wait for its completion.
    fn issue(&mut self, now: Instant, dispatch: Dispatch);

    /// Joins a request to the last one: the same operation, adjacent to its end. Each is completed by itself.
    fn join(&mut self, _now: Instant, _dispatch: Dispatch) {
        unreachable!("a device that joins nothing was given something to join");
    }

    /// Starts the taken and joined requests. Must not wait for their completion.
    fn start(&mut self, _now: Instant) {}

    /// Handles an event of the engine.
    fn record(&mut self, now: Instant, event: Event);
}

/// The engine's part of a turn, after the inbox: dispatches what may go. Returns when the next turn is due, if nothing
/// comes before.
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
