//! Waits of requests outside the engine: before it for room, after it for their client.
//!
//! A request's time in the server begins when its head has arrived and ends when its reply is sent. What the engine does not
//! see of it is booked here, so that with the engine's blame all of it is: while a connection is stalled, every request that
//! has arrived on it waits for the same thing; the rest before the engine is a payload on its way, and what follows the
//! engine is a reply on its way.

use weir_counters::Counters;

/// What a stalled connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StallReason {
    /// One of its own requests to be answered: its quota.
    Itself,
    /// Memory that other requests hold, of this client or of others.
    Memory,
    /// A place in the engine's queue.
    Queue,
    /// Its replies to be sent.
    Sending,
    /// The others of the device to have their turn.
    Turn,
}

impl StallReason {
    const COUNT: usize = 5;

    /// Whether it waits for what other connections hold.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, StallReason::Memory | StallReason::Queue)
    }
}

/// Time that a connection has been stalled, by [`StallReason`], in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct StallClock([u64; StallReason::COUNT]);

/// When bytes arrived, and how long their connection had been stalled until then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    pub(super) at_ns: u64,
    clock: StallClock,
}

/// Waits summed over requests, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Waits {
    stalled: StallClock,
    /// For payload to arrive.
    pub(crate) payload_ns: u64,
    /// For replies to be taken.
    pub(crate) sending_ns: u64,
    /// From the arrival of each head to the end of the send of its reply, measured by itself.
    pub(crate) inside_ns: u64,
    /// Replies that were sent.
    pub(crate) replied_ios: u64,
    /// Open connections.
    pub(crate) connections: u64,
}

/// The waits of a cgroup's requests, which the device's thread counts and others read.
#[derive(Debug, Default)]
pub(crate) struct SharedWaits(Counters<{ SENT + 3 }>);

/// Places of [`SharedWaits`] behind those of [`StallReason`].
const PAYLOAD: usize = StallReason::COUNT;
const CONNECTIONS: usize = PAYLOAD + 1;
/// Sums over replies: of sending, of the time inside, and how many.
const SENT: usize = PAYLOAD + 2;

/// Replies in one message: how many, and sums over them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replies {
    count: u64,
    received_ns: u128,
    pushed_ns: u128,
}

impl StallClock {
    pub(super) fn now(&self, at_ns: u64) -> Received {
        Received { at_ns, clock: *self }
    }

    /// The connection has been stalled since `since_ns`, and goes on.
    pub(super) fn advance(&mut self, why: StallReason, since_ns: u64, now_ns: u64) {
        self.0[why as usize] += now_ns.saturating_sub(since_ns);
    }
}

impl SharedWaits {
    /// A request that was `received` enters the engine, or is answered at once. O(1); nothing where that is in one turn.
    pub(super) fn note_entered(&self, received: &Received, clock: &StallClock, now_ns: u64) {
        let mut rest = now_ns.saturating_sub(received.at_ns);
        if rest == 0 {
            return;
        }
        self.0.update(|sums| {
            let causes = sums.iter_mut().zip(clock.0.iter().zip(received.clock.0));
            for (sum, (after, before)) in causes {
                *sum += after - before;
                rest = rest.saturating_sub(after - before);
            }
            sums[PAYLOAD] += rest;
        });
    }

    pub(super) fn note_sent(&self, replies: Replies, now_ns: u64) {
        let since = |sum: u128| {
            let total = u128::from(replies.count) * u128::from(now_ns);
            u64::try_from(total.saturating_sub(sum)).unwrap_or(u64::MAX)
        };
        let sent = [since(replies.pushed_ns), since(replies.received_ns), replies.count];
        self.0.update(|sums| {
            sums[SENT..].iter_mut().zip(sent).for_each(|(sum, more)| *sum += more);
        });
    }

    /// A request was inside for so long before it came to count elsewhere.
    pub(super) fn note_inside(&self, inside_ns: u64) {
        self.0.add(SENT + 1, inside_ns);
    }

    pub(super) fn connected(&self) {
        self.0.add(CONNECTIONS, 1);
    }

    pub(super) fn disconnected(&self) {
        self.0.update(|sums| sums[CONNECTIONS] = sums[CONNECTIONS].saturating_sub(1));
    }

    /// What was counted, on any thread.
    pub(crate) fn read(&self) -> Waits {
        let sums = self.0.read();
        let [sending_ns, inside_ns, replied_ios] = [sums[SENT], sums[SENT + 1], sums[SENT + 2]];
        Waits {
            stalled: StallClock(std::array::from_fn(|reason| sums[reason])),
            payload_ns: sums[PAYLOAD],
            sending_ns,
            inside_ns,
            replied_ios,
            connections: sums[CONNECTIONS],
        }
    }
}

impl Waits {
    /// Adds what others have waited for. Connections are not added up: they are those of the cgroup itself.
    pub(crate) fn absorb(&mut self, other: &Waits) {
        self.stalled.0.iter_mut().zip(other.stalled.0).for_each(|(sum, more)| *sum += more);
        self.payload_ns += other.payload_ns;
        self.sending_ns += other.sending_ns;
        self.inside_ns += other.inside_ns;
        self.replied_ios += other.replied_ios;
    }

    /// Of the waits before the engine, those for one thing.
    pub(crate) fn stalled_ns(&self, why: StallReason) -> u64 {
        self.stalled.0[why as usize]
    }
}

impl Replies {
    /// A reply to a request that was received at `received_ns` is to be sent.
    pub(super) fn push(&mut self, received_ns: u64, now_ns: u64) {
        self.count += 1;
        self.received_ns += u128::from(received_ns);
        self.pushed_ns += u128::from(now_ns);
    }

    /// Their connection moves to another cgroup: how long they were inside before they were to be sent, which does not count
    /// in that one.
    pub(super) fn leave(&mut self) -> u64 {
        let inside_ns = self.pushed_ns - std::mem::replace(&mut self.received_ns, self.pushed_ns);
        u64::try_from(inside_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two requests arrive together; the second waits for memory, then for its payload, and both for their client.
    #[test]
    fn waits_add_up_to_the_time_inside() {
        let (mut clock, shared, mut replies) =
            (StallClock::default(), SharedWaits::default(), Replies::default());
        clock.advance(StallReason::Turn, 0, 5);
        let received = clock.now(100);
        shared.note_entered(&received, &clock, 100);
        assert_eq!(shared.read(), Waits::default(), "one that need not wait");
        clock.advance(StallReason::Memory, 100, 130);
        clock.advance(StallReason::Queue, 130, 170);
        shared.note_entered(&received, &clock, 200);
        replies.push(100, 150);
        replies.push(100, 260);
        shared.note_sent(replies, 300);
        let waits = shared.read();
        assert_eq!(
            (waits.stalled_ns(StallReason::Memory), waits.stalled_ns(StallReason::Queue)),
            (30, 40)
        );
        assert_eq!(
            (waits.payload_ns, waits.sending_ns, waits.stalled_ns(StallReason::Turn)),
            (30, 190, 0)
        );
        let engine_ns = (150 - 100) + (260 - 200);
        assert_eq!(waits.inside_ns, 30 + 40 + 30 + 190 + engine_ns);
        let mut sum = waits;
        sum.absorb(&waits);
        assert_eq!((sum.inside_ns, sum.replied_ios), (2 * waits.inside_ns, 4));
    }

    /// A connection moves between the push of its replies and the end of their send.
    #[test]
    fn replies_count_where_their_waits_do() {
        let (before, after, mut replies) =
            (SharedWaits::default(), SharedWaits::default(), Replies::default());
        replies.push(100, 150);
        replies.push(100, 260);
        before.note_inside(replies.leave());
        replies.push(270, 280);
        after.note_sent(replies, 300);
        let (before, after) = (before.read(), after.read());
        assert_eq!(before.inside_ns, 50 + 160);
        assert_eq!((after.inside_ns, after.sending_ns), (150 + 40 + 30, 150 + 40 + 20));
    }
}
