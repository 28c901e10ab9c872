//! Callers: from the thread of a request to its process and cgroup.
//!
//! A thread is known by a descriptor of it (`PIDFD_GET_INFO`), so that a number that is used again is another thread, and a look costs
//! less than a microsecond. Where the kernel has no such call, `/proc` is asked. What is known is asked anew after 100 ms: a
//! process that moves to another cgroup counts there from then on.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Resource, getrlimit};
use weir_engine::{CgroupId, Engine, Instant};
use weir_uring::{open_thread, process_info};

use crate::procfs;
use crate::rule::Facts;
use crate::tree::Tree;

/// How long what is known of a thread is taken as it is.
const VALID_NS: u64 = 100_000_000;

/// Most threads that are known, each with a descriptor at most.
const THREADS_MAX: usize = 4096;

/// The caller of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Its process; 0 where it is not known.
    pub(crate) process: u32,
    /// Where it counts.
    pub(crate) cgroup: CgroupId,
}

#[derive(Debug)]
struct Known {
    thread: Option<OwnedFd>,
    asked_at: Instant,
    ids: (u32, u32),
    caller: Caller,
}

/// The threads that have made requests lately.
#[derive(Debug)]
pub(crate) struct Identities {
    known: HashMap<u32, Known>,
    known_max: usize,
    /// Whether the kernel tells a thread's process by its descriptor.
    has_info: bool,
}

impl Identities {
    pub(crate) fn new() -> Identities {
        // Open files need descriptors too.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
        let known_max = usize::try_from(descriptors).unwrap_or(THREADS_MAX).min(THREADS_MAX);
        Identities { known: HashMap::new(), known_max, has_info: true }
    }

    /// The caller with these ids (user and group). What is known of a thread that is gone stays known for a while: its data
    /// may be written back later.
    pub(crate) fn of(
        &mut self,
        thread: u32,
        ids: (u32, u32),
        now: Instant,
        tree: &mut Tree,
        engine: &mut Engine,
    ) -> Caller {
        if thread == 0 {
            return Caller { process: 0, cgroup: engine.root() };
        }
        if let Some(known) = self.known.get_mut(&thread) {
            if known.ids == ids && now.nanos_since(known.asked_at) < VALID_NS {
                return known.caller;
            }
            let process = match &known.thread {
                Some(thread) => process_info(thread.as_fd()).ok().map(|info| info.process),
                None => procfs::process_of(thread),
            };
            if let Some(process) = process {
                let cgroup = tree.place(engine, now, &mut Facts::new(process, ids.0, ids.1));
                known.caller = Caller { process, cgroup };
                (known.asked_at, known.ids) = (now, ids);
                return known.caller;
            }
            self.known.remove(&thread);
        }
        let opened = self.has_info.then(|| open_thread(thread));
        let told = match &opened {
            Some(Ok(opened)) => process_info(opened.as_fd()).map(|info| info.process).ok(),
            _ => None,
        };
        if told.is_none() && std::mem::take(&mut self.has_info) {
            // One thread may have ended; this one has not.
            let own = open_thread(std::process::id());
            self.has_info = own.is_ok_and(|own| process_info(own.as_fd()).is_ok());
        }
        let (thread_fd, process) = match told {
            Some(process) => (opened.and_then(Result::ok), Some(process)),
            None => (None, procfs::process_of(thread)),
        };
        let Some(process) = process else {
            return Caller { process: 0, cgroup: engine.root() };
        };
        let cgroup = tree.place(engine, now, &mut Facts::new(process, ids.0, ids.1));
        let caller = Caller { process, cgroup };
        self.make_room(now);
        self.known.insert(thread, Known { thread: thread_fd, asked_at: now, ids, caller });
        caller
    }

    /// The caller that a thread was, which may be gone.
    pub(crate) fn last_known(&self, thread: u32) -> Option<Caller> {
        self.known.get(&thread).map(|known| known.caller)
    }

    /// Forgets threads that were quiet for a second, and all if that is not enough.
    fn make_room(&mut self, now: Instant) {
        if self.known.len() < self.known_max {
            return;
        }
        self.known.retain(|_, known| now.nanos_since(known.asked_at) < 10 * VALID_NS);
        if self.known.len() >= self.known_max {
            self.known.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::Config;

    use super::*;
    use crate::tree::TreeSettings;

    #[test]
    fn a_thread_is_its_process_and_is_asked_for_again_when_its_user_changes() {
        let mut engine = Engine::new(Config::default(), Instant::ZERO);
        let rules = vec!["*: /users/{uid}".parse().unwrap()];
        let settings = TreeSettings { rules, ..TreeSettings::default() };
        let mut tree = Tree::new(settings, &mut engine).unwrap();
        for has_info in [true, false] {
            let mut identities = Identities { has_info, ..Identities::new() };
            let own = std::process::id();
            let mut of = |thread, uid| {
                let caller = identities.of(thread, (uid, 0), Instant::ZERO, &mut tree, &mut engine);
                (caller.process, engine.cgroup_path(caller.cgroup).unwrap())
            };
            assert_eq!(of(own, 7), (own, "/users/7".into()));
            assert_eq!(of(own, 8), (own, "/users/8".into()));
            assert_eq!(of(0, 7), (0, "/".into()));
            assert_eq!(of(u32::MAX, 7), (0, "/".into()));
            assert_eq!(identities.last_known(own).unwrap().process, own);
        }
    }
}
