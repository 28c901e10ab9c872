//! Rows of a recording and the names of their events.

use parquet::data_type::ByteArray;
use weir_engine::Op;

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Event {
    /// A request, completed by the device.
    Completed,
    /// A request that the device has failed.
    Failed,
    /// A piece of a long request is done; the request goes on.
    Piece,
    /// A request that was withdrawn before it went to the device.
    Withdrawn,
    /// [`Event::Withdrawn`] by its task; without a request the task had none.
    WithdrawnNext,
    /// A request that was inside when the file ended.
    Submitted,
    /// A request that found the engine or its task full.
    Refused,
    /// A request that something waits for now.
    Promoted,
    /// The engine was called for what is due, and at an instant that has nothing else, or more than once.
    Turn,
    /// The engine was not called for what is due at this instant.
    NoTurn,
    /// Entries that found no room in memory.
    Dropped,
    /// Configuration of the engine.
    Engine,
    /// A cgroup came into being.
    CgroupCreated,
    /// A cgroup was removed.
    CgroupRemoved,
    /// A cgroup was moved; `detail` is its new parent.
    CgroupMoved,
    /// A setting of a cgroup, a client or the device.
    Set,
    /// A client came.
    ClientOpened,
    /// A client went.
    ClientClosed,
    /// A connection came.
    TaskOpened,
    /// A connection went.
    TaskClosed,
}

impl Event {
    /// All of them, in order.
    pub const ALL: [Event; 20] = [
        Event::Completed,
        Event::Failed,
        Event::Piece,
        Event::Withdrawn,
        Event::WithdrawnNext,
        Event::Submitted,
        Event::Refused,
        Event::Promoted,
        Event::Turn,
        Event::NoTurn,
        Event::Dropped,
        Event::Engine,
        Event::CgroupCreated,
        Event::CgroupRemoved,
        Event::CgroupMoved,
        Event::Set,
        Event::ClientOpened,
        Event::ClientClosed,
        Event::TaskOpened,
        Event::TaskClosed,
    ];

    /// The name in the column `event`.
    pub const fn name(self) -> &'static str {
        match self {
            Event::Completed => "completed",
            Event::Failed => "failed",
            Event::Piece => "piece",
            Event::Withdrawn => "withdrawn",
            Event::WithdrawnNext => "withdrawn_next",
            Event::Submitted => "submitted",
            Event::Refused => "refused",
            Event::Promoted => "promoted",
            Event::Turn => "turn",
            Event::NoTurn => "no_turn",
            Event::Dropped => "dropped",
            Event::Engine => "engine",
            Event::CgroupCreated => "cgroup_created",
            Event::CgroupRemoved => "cgroup_removed",
            Event::CgroupMoved => "cgroup_moved",
            Event::Set => "set",
            Event::ClientOpened => "client_opened",
            Event::ClientClosed => "client_closed",
            Event::TaskOpened => "task_opened",
            Event::TaskClosed => "task_closed",
        }
    }

    /// The event of that name.
    pub fn from_name(name: &[u8]) -> Option<Event> {
        Event::ALL.into_iter().find(|event| event.name().as_bytes() == name)
    }
}

/// A row. Columns that it does not have are `None`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// Of the engine's clock.
    pub(crate) time_ns: u64,
    /// Number of the input; `None` for what repeats or only tells.
    pub(crate) step: Option<u64>,
    pub(crate) event: Event,
    pub(crate) cgroup: Option<ByteArray>,
    pub(crate) op: Option<Op>,
    pub(crate) offset: Option<u64>,
    pub(crate) length: Option<u64>,
    pub(crate) latency_ns: Option<u64>,
    pub(crate) wait_ns: Option<u64>,
    /// Step of the submission.
    pub(crate) submitted: Option<u64>,
    /// Number of the dispatch.
    pub(crate) dispatched: Option<u64>,
    pub(crate) client: Option<u64>,
    pub(crate) task: Option<u64>,
    pub(crate) detail: Option<ByteArray>,
}

impl Row {
    pub(crate) const fn new(time_ns: u64, event: Event) -> Row {
        Row {
            time_ns,
            step: None,
            event,
            cgroup: None,
            op: None,
            offset: None,
            length: None,
            latency_ns: None,
            wait_ns: None,
            submitted: None,
            dispatched: None,
            client: None,
            task: None,
            detail: None,
        }
    }

    pub(crate) fn cgroup(&self) -> Option<&str> {
        text(&self.cgroup)
    }

    pub(crate) fn detail(&self) -> Option<&str> {
        text(&self.detail)
    }
}

/// Columns have been checked to be UTF-8 when they were read.
fn text(bytes: &Option<ByteArray>) -> Option<&str> {
    bytes.as_ref().and_then(|bytes| bytes.as_utf8().ok())
}
