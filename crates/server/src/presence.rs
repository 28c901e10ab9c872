//! Presence of clients, over all devices of a server.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// How many connections there are of a kind, as of those that have chosen an export. Device threads count, the control thread
/// waits.
#[derive(Debug, Default)]
pub(crate) struct Presence {
    connections: AtomicUsize,
    left: Notify,
}

impl Presence {
    /// A connection is there.
    pub(crate) fn enter(&self) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    /// Such a connection is over.
    pub(crate) fn leave(&self) {
        if self.connections.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.left.notify_one();
        }
    }

    /// Waits until the last connection has left; not before the first has come.
    pub(crate) async fn all_left(&self) {
        loop {
            self.left.notified().await;
            // Another may have come meanwhile.
            if self.connections.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::Presence;

    #[test]
    fn all_have_left_when_the_last_one_does() {
        let presence = Presence::default();
        let mut left = pin!(presence.all_left());
        let mut has_left =
            || left.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(());
        assert!(!has_left(), "nobody has come");
        presence.enter();
        presence.enter();
        presence.leave();
        assert!(!has_left(), "one is there");
        presence.leave();
        presence.enter();
        assert!(!has_left(), "another has come");
        presence.leave();
        assert!(has_left());
    }
}
