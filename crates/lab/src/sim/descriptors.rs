//! POSIX asynchronous I/O as in glibc: a descriptor serves its requests one at a time, in order.

use std::collections::{BTreeMap, VecDeque};

use weir_fio::stream::Step;

/// Descriptors by process and file start, each with its waiting requests.
///
/// O(log descriptors) each, and no allocation once they have grown.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    queues: BTreeMap<(u32, u64), Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    is_busy: bool,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) step: Step,
    pub(super) made_ns: u64,
}

impl Descriptors {
    /// True if the request is served now; else it waits for those before it.
    pub(super) fn enter(&mut self, process: u32, file_start: u64, request: Waiting) -> bool {
        let queue = self.queues.entry((process, file_start)).or_default();
        if queue.is_busy {
            queue.waiting.push_back(request);
            return false;
        }
        queue.is_busy = true;
        true
    }

    /// A request at `offset` of the disk has ended. Returns the next one to be served.
    pub(super) fn leave(&mut self, process: u32, offset: u64) -> Option<Waiting> {
        let (_, queue) = self.queues.range_mut((process, 0)..=(process, offset)).next_back()?;
        let next = queue.waiting.pop_front();
        queue.is_busy = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_fio::stream::Access;

    #[test]
    fn each_descriptor_serves_its_requests_in_order() {
        let request = |offset| Waiting {
            step: Step::Io { access: Access::Read, file: 0, offset, len: 1 },
            made_ns: offset,
        };
        let mut descriptors = Descriptors::default();
        assert!(descriptors.enter(1, 0, request(0)));
        assert!(!descriptors.enter(1, 0, request(1)));
        assert!(!descriptors.enter(1, 0, request(2)));
        assert!(descriptors.enter(1, 100, request(3)));
        assert!(descriptors.enter(2, 0, request(4)));
        assert_eq!(descriptors.leave(1, 50), Some(request(1)));
        assert_eq!(descriptors.leave(1, 120), None);
        assert_eq!(descriptors.leave(1, 0), Some(request(2)));
        assert_eq!(descriptors.leave(1, 0), None);
        assert!(descriptors.enter(1, 0, request(5)) && descriptors.enter(1, 100, request(6)));
    }
}
