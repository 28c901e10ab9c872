//! One listener: the events that a connection takes, in the order in which it is to have them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, timeout_at};

use super::{Latest, Live};

/// Longest that a stream lasts, which is less than a connection may (`bounded`); a page comes back for the rest.
const STREAM_MAX: Duration = Duration::from_secs(45);
/// A line without meaning after so much silence, so that neither side takes the other for gone.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What a page is told first: to come back soon after the end of a stream, in milliseconds.
const BEGINNING: &str = "retry: 250\n\n";

/// A stream of events. Nothing is made ahead or kept for it: what its connection has no room for it finds in the history later,
/// and of live samples it gets the newest.
pub(in super::super) struct Listener {
    live: Arc<Live>,
    /// Number of the next event of the history.
    next: u64,
    latest: watch::Receiver<Latest>,
    ends: Instant,
    has_begun: bool,
    is_over: bool,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    pub(super) fn new(live: Arc<Live>, next: u64, place: OwnedSemaphorePermit) -> Listener {
        let mut latest = live.latest.subscribe();
        // A sample from before is in the history, or older than that.
        latest.mark_unchanged();
        let ends = Instant::now() + STREAM_MAX;
        Listener { live, next, latest, ends, has_begun: false, is_over: false, _place: place }
    }

    /// The next bytes to send; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::from_static(BEGINNING.as_bytes()));
        }
        if self.is_over {
            return None;
        }
        if let Some(kept) = self.next_kept() {
            return Some(kept);
        }
        let wake = (Instant::now() + HEARTBEAT).min(self.ends);
        match timeout_at(wake, self.latest.changed()).await {
            Ok(changed) => changed.ok()?,
            Err(_) if wake < self.ends => return Some(Bytes::from_static(b":\n\n")),
            Err(_) => return None,
        }
        match &*self.latest.borrow_and_update() {
            Latest::Sample(sample) => Some(sample.clone()),
            Latest::Nothing => None,
            Latest::End => {
                self.is_over = true;
                Some(Bytes::from_static(b"event: end\ndata: {}\n\n"))
            }
        }
    }

    fn next_kept(&mut self) -> Option<Bytes> {
        let history = self.live.history.lock().unwrap_or_else(PoisonError::into_inner);
        let (number, event) = history.from(self.next)?;
        self.next = number + 1;
        Some(event)
    }

    /// Itself as a body, of which a connection takes one event when it has room for it.
    pub(in super::super) fn into_body(self) -> Body {
        let stream = futures_util::stream::unfold(self, |mut listener| async move {
            let bytes = listener.next().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), listener))
        });
        Body::from_stream(stream)
    }
}
