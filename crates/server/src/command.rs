//! Commands of the control thread to a device thread.

use tokio::sync::oneshot;
use weir_engine::settings::{LowLatency, PrioClass};
use weir_engine::{
    ChangeError, CreateError, LimiterKind, Limits, Path, SchedulerKind, Watermark, Weight,
};
use weir_nbd::ExportId;
use weir_text::BfqError;

use crate::device::{Arrived, DeviceReport, Greeting};
use crate::exports::ExportPlace;
use crate::status::DeviceStatus;

/// A command for one device thread. Each is carried out between two turns of its loop.
#[derive(Debug)]
pub enum Command {
    /// Tell how it is, but for what is read without its thread.
    Status {
        /// Gets the answer.
        reply: oneshot::Sender<DeviceReport>,
    },
    /// Tell how one cgroup and the device are set: a status with nothing but settings, and with this cgroup alone, if it is
    /// there. O(depth), where a status is O(cgroups).
    Settings {
        /// Which.
        cgroup: Path,
        /// Gets the answer.
        reply: oneshot::Sender<DeviceStatus>,
    },
    /// Change several settings, all of them or none.
    Apply {
        /// Each with its cgroup, created if need be; parents first.
        settings: Vec<(Path, Setting)>,
        /// Gets the answer; a refusal with the cgroup that is meant.
        reply: oneshot::Sender<Result<Applied, (Path, SetError)>>,
    },
    /// Remove a cgroup; its connections go on until they close.
    Remove {
        /// Which.
        cgroup: Path,
        /// Only tell whether it would be refused.
        is_trial: bool,
        /// Gets the answer.
        reply: oneshot::Sender<Result<(), SetError>>,
    },
    /// Hang a cgroup, with everything below it, under another parent.
    Move {
        /// Which.
        cgroup: Path,
        /// The new parent, which exists.
        parent: Path,
        /// Gets the answer.
        reply: oneshot::Sender<Result<(), SetError>>,
    },
    /// Answer, to show that the loop turns.
    Ping {
        /// Gets the answer.
        reply: oneshot::Sender<()>,
    },
    /// Shake hands with a connection that has been accepted.
    Greet(Greeting),
    /// Serve a connection that another thread has shaken hands with.
    Adopt(Box<Arrived>),
    /// Let connections to an export in; from now on to this place, if it is served already.
    ServeExport(ExportPlace),
    /// Serve an export no more: its connections are closed, with what waits of theirs withdrawn.
    CloseExport(ExportId),
    /// See whether the device has grown.
    Grow {
        /// Gets its size, or why that stays what it was.
        reply: oneshot::Sender<Result<u64, &'static str>>,
    },
    /// Record from now on, or no more.
    Record(Option<Box<weir_recording::Recorder>>),
    /// As [`crate::DeviceHandle::drain`].
    Drain,
}

/// What [`Command::Apply`] has changed, so that it can be taken back.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Applied {
    /// What was set before, of what has changed in cgroups that were there; the last change first.
    pub before: Vec<(Path, Setting)>,
    /// Cgroups that were not there, parents first.
    pub created: Vec<Path>,
    /// Settings of those.
    pub set_in_created: usize,
}

impl Applied {
    /// How many settings have changed.
    pub fn changed(&self) -> usize {
        self.before.len() + self.set_in_created
    }
}

/// A setting that can be changed while requests are queued.
#[derive(Clone, PartialEq, Debug)]
pub enum Setting {
    /// All limits at once.
    Limits(Limits),
    /// `io.max`, `io.burst` or `io.peak` as written: keys that are not named keep their value.
    Text {
        /// Which of the three.
        key: weir_text::LimitKey,
        /// `KEY=VALUE ...`, without the device.
        text: String,
    },
    /// `io.limiter`.
    Limiter(LimiterKind),
    /// `io.weight`.
    Weight(Weight),
    /// `io.prio.class`.
    PrioClass(PrioClass),
    /// `io.bfq.low_latency`; `None` goes by what is set above.
    LowLatency(Option<LowLatency>),
    /// `io.watermark`; `None` goes by what is set above. Of the root, the device's.
    Watermark(Option<Watermark>),
    /// The device window, whatever the cgroup.
    Depth(std::num::NonZeroU32),
    /// The scheduler of the device, whatever the cgroup.
    Scheduler(SchedulerKind),
    /// `KEY=VALUE ...` of BFQ, whatever the cgroup: keys that are not named keep their value.
    Bfq(String),
}

/// Why a setting was refused. Nothing has changed.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetError {
    /// The text is not one of limits.
    #[error(transparent)]
    Text(#[from] weir_text::IoMaxError),
    /// The text is not one of settings of BFQ.
    #[error(transparent)]
    Bfq(#[from] BfqError),
    /// The engine does not allow it.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The cgroup could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// There is no such cgroup.
    #[error("no cgroup {0}")]
    UnknownCgroup(Path),
    /// The cgroup would be one too many.
    #[error("cgroup {path} needs {missing} new cgroups, and of {max} there are {there}")]
    TooManyCgroups {
        /// What was to be created.
        path: Path,
        /// How many cgroups that takes.
        missing: usize,
        /// How many there are.
        there: usize,
        /// How many there may be.
        max: usize,
    },
    /// The cgroup, or one below it, would be too deep.
    #[error("a cgroup would be {depth} names deep, at most {max} are allowed")]
    TooDeep {
        /// How deep.
        depth: usize,
        /// What is allowed.
        max: usize,
    },
    /// Exports put their connections there.
    #[error("cgroup {0}, or one below it, is where export `{1}` leads")]
    InUse(Path, String),
    /// The cgroup has the limit of one client.
    #[error("cgroup {0} is that of a client, whose limit is its export's `client_max`")]
    OfClient(Path),
    /// A `[peer]` section puts connections there.
    #[error("cgroup {0}, or one below it, is that of peer `{1}`")]
    InUseByPeer(Path, String),
}
