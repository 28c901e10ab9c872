//! Workers: threads that carry requests out and reply.

use std::io;
use std::sync::Arc;
use std::thread;

use weir_fuse_proto::{Session, parse};
use weir_passthrough::Worker;

use crate::device::shared::Shared;

/// Calls that may block at the same time.
pub(super) const THREADS: usize = 16;

/// Ends the process if a worker panics: a program would wait for its reply for ever. Without the process the kernel answers
/// all that wait with an error.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

/// Starts the workers; they end when the shared state is closed.
pub(super) fn start_workers(shared: &Arc<Shared>, session: Session) -> io::Result<()> {
    for index in 0..THREADS {
        let shared = shared.clone();
        let name = format!("worker-{index}");
        thread::Builder::new().name(name).spawn(move || work(&shared, &session))?;
    }
    Ok(())
}

fn work(shared: &Shared, session: &Session) {
    let _abort = AbortOnPanic;
    let mut worker = Worker::new().expect("a thread may have a umask of its own");
    while let Some(job) = shared.pop() {
        // The device thread has looked at it already.
        if let Ok(request) = parse(job.message.bytes(), session)
            && let Some(reply) = shared.fs().answer(&request, &mut worker)
        {
            shared.reply(reply);
        }
        shared.finish(job);
    }
}
