//! Features of the running kernel.

use std::fmt;

use io_uring::{IoUring, Probe, opcode};

use crate::config::Setup;
use crate::error::RingError;
use crate::queue::Queue;

/// What the kernel's io_uring can do, as far as this crate cares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Support {
    /// Completions delivered in the ring's own thread when it asks (SINGLE_ISSUER, DEFER_TASKRUN; Linux 6.1).
    pub deferred: bool,
    /// Absolute deadlines when waiting (Linux 6.12).
    pub absolute_deadline: bool,
    /// Rings that take only the operations of this crate (`IORING_REGISTER_RESTRICTIONS`).
    pub restrictions: bool,
    /// Operations that are needed and missing; empty on Linux 5.19 and later.
    pub missing: Vec<&'static str>,
}

/// Asks the kernel what it offers.
///
/// # Errors
/// When no ring can be set up at all.
pub fn support() -> Result<Support, RingError> {
    let queue = Queue::new(2, Setup::Auto).map_err(RingError::from_setup)?;
    let plain = IoUring::new(2).map_err(RingError::from_setup)?;
    let mut probe = Probe::new();
    plain.submitter().register_probe(&mut probe).map_err(RingError::from_setup)?;
    let needed = [
        (opcode::Recv::CODE, "RECV"),
        (opcode::SendMsg::CODE, "SENDMSG"),
        (opcode::PollAdd::CODE, "POLL_ADD"),
        (opcode::Read::CODE, "READ"),
        (opcode::Write::CODE, "WRITE"),
        (opcode::Fsync::CODE, "FSYNC"),
        (opcode::Fallocate::CODE, "FALLOCATE"),
        (opcode::Fadvise::CODE, "FADVISE"),
        (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
        // Came with Linux 5.19, as did cancelling by file and provided buffer rings, which no probe shows.
        (opcode::Socket::CODE, "cancellation by file (Linux 5.19)"),
    ];
    let missing =
        needed.iter().filter(|(code, _)| !probe.is_supported(*code)).map(|(_, name)| *name);
    Ok(Support {
        deferred: queue.is_deferred(),
        absolute_deadline: queue.has_absolute_deadline(),
        restrictions: queue.enable().map_err(RingError::from_setup)?,
        missing: missing.collect(),
    })
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |offered| if offered { "yes" } else { "no" };
        write!(f, "deferred completions: {}, ", word(self.deferred))?;
        write!(f, "absolute deadlines: {}, ", word(self.absolute_deadline))?;
        write!(f, "restrictions: {}, ", word(self.restrictions))?;
        match self.missing.is_empty() {
            true => write!(f, "missing: nothing"),
            false => write!(f, "missing: {}", self.missing.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_prints() {
        let support = support().expect("tests need io_uring");
        assert_eq!(support.missing, Vec::<&str>::new());
        assert!(support.to_string().ends_with("missing: nothing"));
        let lacking = Support {
            deferred: false,
            absolute_deadline: true,
            restrictions: true,
            missing: vec!["RECV", "READ"],
        };
        assert_eq!(
            lacking.to_string(),
            "deferred completions: no, absolute deadlines: yes, restrictions: yes, missing: RECV, READ"
        );
    }
}
