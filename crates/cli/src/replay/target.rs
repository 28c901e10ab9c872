//! Target of a replay: a file or block device, or an NBD server.

use std::io;
use std::sync::mpsc::Sender;

use weir_engine::Op;

use super::disk::Disk;
use super::fit::Room;
use super::nbd::Nbd;
use super::uri::NbdUri;
use super::{Intent, Message};
use crate::failure::Failure;

/// Requests under way at once, over all streams: a limit of this program's threads and of a server's patience.
pub(super) const IN_FLIGHT_MAX: usize = 256;

/// So much of a target's beginning must be zeroes for it to look empty: labels, boot records and superblocks of all common
/// file systems and volume managers lie within.
pub(super) const EMPTY_HEAD: u64 = 1 << 20;

/// A request for the target, with an extent of [`Room::fit`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    /// Comes back with the [`Done`].
    pub(super) number: u64,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) number: u64,
    /// By the monotonic clock.
    pub(super) at_ns: u64,
    pub(super) result: io::Result<()>,
}

/// A target that is open and may be used as intended.
pub(super) enum Target {
    Disk(Disk),
    Nbd(Nbd),
}

impl Target {
    /// Opens `name`, and checks that it may be written to if intended. Results of requests go to `done`.
    pub(super) fn open(
        name: &str,
        intent: Intent,
        done: Sender<Message>,
    ) -> Result<Target, Failure> {
        match NbdUri::parse(name) {
            Some(Ok(uri)) => Nbd::connect(name, &uri, intent, done).map(Target::Nbd),
            Some(Err(error)) => Err(Failure::wrong(format!("{name}: {error}"))),
            None => Disk::open(name, intent, done).map(Target::Disk),
        }
    }

    pub(super) fn room(&self) -> Room {
        match self {
            Target::Disk(disk) => disk.room(),
            Target::Nbd(nbd) => nbd.room(),
        }
    }

    /// Whether the target supports the operation.
    pub(super) fn can(&self, op: Op) -> bool {
        match self {
            Target::Disk(_) => true,
            Target::Nbd(nbd) => nbd.can(op),
        }
    }

    /// Starts a request; at most [`IN_FLIGHT_MAX`] may be under way.
    pub(super) fn start(&mut self, job: Job) -> io::Result<()> {
        match self {
            Target::Disk(disk) => disk.start(job),
            Target::Nbd(nbd) => nbd.start(job),
        }
    }
}

/// The refusal to write where something is.
pub(super) fn looks_used(name: &str) -> Failure {
    Failure::wrong(format!(
        "{name} does not look empty, and replaying writes destroys what is on it"
    ))
    .hint("--read-only leaves writes out; --force writes all the same".to_owned())
}

/// The refusal of a target without a block.
pub(super) fn no_room(name: &str, size: u64) -> Failure {
    Failure::wrong(format!("{name} has {size} bytes, less than one block"))
        .hint("a file can be given a size: truncate -s 1G FILE".to_owned())
}
