//! Flow in service: its slot, and idling for it.

use super::counters::IdlingCause;
use crate::merge::Position;
use crate::types::Instant;

/// The flow in service and its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService {
    pub(crate) flow: u32,
    pub(crate) since: Instant,
    /// Budget timeout: the slot may end from here on, whatever is left of the budget.
    pub(crate) deadline: Instant,
    /// Present while the device idles for the flow's next request.
    pub(crate) idle: Option<Idle>,
    /// End of its last request in this slot.
    pub(crate) last_end: Option<Position>,
    /// Requests of other flows injected since its last dispatch.
    pub(crate) injected: u32,
    /// Requests dispatched in this slot.
    pub(crate) sent: u32,
    /// Whether requests of other flows were at the device in this slot.
    pub(crate) is_shared: bool,
    /// Whether it returned within [`super::idling`]'s short time when the device last idled for it in this slot.
    pub(crate) returns: bool,
    /// When it returned after idling. Its service since then counts as gain of that idling.
    pub(crate) back: Option<Instant>,
}

/// Idling for the flow in service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    /// From here on other flows' requests may be injected.
    pub(crate) inject_from: Instant,
    pub(crate) cause: IdlingCause,
    /// Time that the device was empty while requests of other flows waited, without the period from `lost_since`.
    pub(crate) lost_ns: u64,
    /// Begin of such a period, while it lasts.
    pub(crate) lost_since: Option<Instant>,
}
