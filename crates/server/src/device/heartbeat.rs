//! Heartbeat of a device thread, for a watchdog: its loop turns.
//!
//! A thread that answers a command has finished a turn. A slow or hung disk does not keep it from that, because requests are at
//! the device without the thread. Some calls of the kernel do not return before the disk answers (the extents of a file, the
//! size of a device that is gone). There the kernel holds the thread in an uninterruptible sleep: no other process would get
//! further, and a kill would not even end this one. So that is no silence.

use std::time::Duration;

use tokio::sync::oneshot;

use super::DeviceHandle;
use crate::command::Command;

/// Result of [`DeviceHandle::heartbeat`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heartbeat {
    /// The loop turns.
    Turns,
    /// The thread waits for the kernel, which waits for the disk.
    HeldByKernel,
    /// The thread does not answer, and nothing holds it.
    Silent,
    /// The thread has ended.
    Ended,
}

impl DeviceHandle {
    /// Asks the thread to answer `within` a time. Needs a tokio runtime with time.
    pub async fn heartbeat(&self, within: Duration) -> Heartbeat {
        let (reply, answer) = oneshot::channel();
        if self.send(Command::Ping { reply }).is_err() {
            return Heartbeat::Ended;
        }
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(())) => Heartbeat::Turns,
            Ok(Err(_)) => Heartbeat::Ended,
            Err(_) if self.is_held_by_kernel() => Heartbeat::HeldByKernel,
            Err(_) => Heartbeat::Silent,
        }
    }

    /// Whether the thread is in state D of proc(5).
    fn is_held_by_kernel(&self) -> bool {
        let Some(id) = self.thread.get() else { return false };
        let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
        stat.is_ok_and(|stat| state(&stat) == Some('D'))
    }
}

/// State of a thread from its `stat`: the letter behind its name, which is in parentheses and may contain some.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

#[cfg(test)]
mod tests {
    use super::state;

    #[test]
    fn the_state_is_behind_the_last_parenthesis() {
        assert_eq!(state("12 (weir-disk) S 1 2"), Some('S'));
        assert_eq!(state("12 (weir-a) R (b)) D 1 2"), Some('D'));
        assert_eq!(state(""), None);
    }
}
