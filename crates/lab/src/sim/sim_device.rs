//! Simulated device: the disk model, its commands in flight, and the recorder.

use weir_disk::{DiskModel, DiskOp};
use weir_driver::Device;
use weir_engine::{Dispatch, Event, Instant, Op};

use super::flights::Flights;
use super::govern::Governing;
use super::recorder::Recorder;

pub(super) struct SimDevice {
    pub(super) disk: Box<dyn DiskModel>,
    pub(super) flights: Flights,
    pub(super) recorder: Recorder,
    pub(super) at_disk: u32,
    /// The command that is being built.
    pub(super) command: Option<Command>,
    pub(super) governing: Option<Box<Governing>>,
}

/// A disk command of contiguous requests, by the keys of the first and last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    first: u32,
    last: u32,
    op: Op,
    offset: u64,
    bytes: u32,
}

impl Device for SimDevice {
    const JOINS: bool = true;

    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        let key = dispatch.request.tag as u32;
        let (op, extent) = (dispatch.request.op, dispatch.request.extent);
        self.take(now, key, dispatch);
        self.command =
            Some(Command { first: key, last: key, op, offset: extent.offset, bytes: extent.len });
    }

    fn join(&mut self, now: Instant, dispatch: Dispatch) {
        let key = dispatch.request.tag as u32;
        let command = self.command.as_mut().expect("something to join it to");
        self.flights[command.last as usize].joined = key;
        command.last = key;
        command.bytes += dispatch.request.extent.len;
        self.take(now, key, dispatch);
    }

    fn start(&mut self, now: Instant) {
        let Some(command) = self.command.take() else { return };
        self.at_disk += 1;
        if let Some(governing) = &mut self.governing {
            governing.counting.started(now.as_nanos());
        }
        self.recorder.in_flight(self.at_disk);
        let op = match command.op {
            Op::Read | Op::Cache | Op::Status => DiskOp::Read,
            Op::Write => DiskOp::Write,
            Op::Flush => DiskOp::Flush,
            Op::Discard => DiskOp::Discard,
            Op::WriteZeroes => DiskOp::WriteZeroes,
        };
        self.disk.submit(now.as_nanos(), command.first.into(), op, command.offset, command.bytes);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}

/// A device to which each request goes by itself, as those of a recording did.
pub(super) struct Unjoined<'d>(pub(super) &'d mut SimDevice);

impl Device for Unjoined<'_> {
    fn issue(&mut self, now: Instant, dispatch: Dispatch) {
        self.0.issue(now, dispatch);
        self.0.start(now);
    }

    fn record(&mut self, _now: Instant, _event: Event) {}
}

impl SimDevice {
    /// A request, or its first piece, goes to the disk.
    #[inline]
    fn take(&mut self, now: Instant, key: u32, dispatch: Dispatch) {
        let flight = &mut self.flights[key as usize];
        let extent = dispatch.request.extent;
        if extent.offset == flight.offset {
            flight.dispatched_ns = now.as_nanos();
        }
        flight.ticket = Some(dispatch.ticket);
        if let Some(governing) = &mut self.governing {
            governing.counting.issued(flight.actor, key, dispatch.request.op, extent);
        }
    }
}
