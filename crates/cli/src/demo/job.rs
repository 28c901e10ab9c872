//! The jobs: threads that read over NBD and note how long each read took.

use std::io;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;

use super::figures::Figures;
use super::nbd::Disk;
use crate::clock;

/// Job of one program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Job {
    /// Bytes of a read.
    pub(super) block: u32,
    /// Requests it keeps at the server.
    pub(super) queue_depth: u64,
    /// Time from an answer to the next question, in nanoseconds.
    pub(super) think_ns: u64,
    /// One pause in twenty, by chance, is longer by this.
    pub(super) hiccup_ns: u64,
}

/// Timer slack of a job's thread. The default, 50 us, would be most of the variation under Weir.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
/// The end of a pause is spun through: sleeping alone is 20 to 70 us late, and differently so each time.
const SPIN_NS: u64 = 50_000;

/// A job at work.
#[derive(Debug)]
pub(super) struct Working {
    figures: Arc<Mutex<Figures>>,
    stop: Arc<AtomicBool>,
    error: Arc<OnceLock<io::Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Working {
    /// Connects to `export` and begins.
    pub(super) fn start(job: Job, socket: &Path, export: &str) -> io::Result<Working> {
        let mut disk = Disk::connect(socket, export)?;
        let figures = Arc::new(Mutex::new(Figures::new(clock::now_ns())));
        let stop = Arc::new(AtomicBool::new(false));
        let error = Arc::new(OnceLock::new());
        let (shared, stopped, failed) =
            (Arc::clone(&figures), Arc::clone(&stop), Arc::clone(&error));
        let name = format!("job-{export}");
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            if let Err(error) = work(job, &mut disk, &shared, &stopped) {
                // Only this thread sets it.
                drop(failed.set(error));
            }
        })?;
        Ok(Working { figures, stop, error, thread: Some(thread) })
    }

    /// Measurements so far.
    pub(super) fn figures(&self) -> MutexGuard<'_, Figures> {
        lock(&self.figures)
    }

    /// The server's failure that ended it, if any.
    pub(super) fn error(&self) -> Option<&io::Error> {
        self.error.get()
    }

    /// Waits for requests in flight and ends the job.
    pub(super) fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn lock(figures: &Mutex<Figures>) -> MutexGuard<'_, Figures> {
    // Numbers are right also after a panic elsewhere.
    figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn work(job: Job, disk: &mut Disk, figures: &Mutex<Figures>, stop: &AtomicBool) -> io::Result<()> {
    // Refused at worst, and then sleeps end 50 us later.
    let _ = rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut asked_ns = vec![0; job.queue_depth as usize];
    for slot in 0..job.queue_depth {
        ask(job, disk, &mut random, &mut asked_ns[slot as usize], slot)?;
    }
    let mut at_server = job.queue_depth;
    while at_server > 0 {
        let slot = disk.wait()?;
        let now = clock::now_ns();
        let took = now - asked_ns[slot as usize];
        lock(figures).note(took);
        if stop.load(Ordering::Relaxed) {
            at_server -= 1;
            continue;
        }
        if job.think_ns > 0 {
            let hiccup = if random.below(20) == 0 { job.hiccup_ns } else { 0 };
            let until = now + job.think_ns + hiccup;
            pause_until(until);
            lock(figures).note_pause(clock::now_ns() - until);
        }
        ask(job, disk, &mut random, &mut asked_ns[slot as usize], slot)?;
    }
    Ok(())
}

fn ask(
    job: Job,
    disk: &mut Disk,
    random: &mut Random,
    asked_ns: &mut u64,
    slot: u64,
) -> io::Result<()> {
    let blocks = (disk.size() / u64::from(job.block)).max(1);
    let offset = random.below(blocks) * u64::from(job.block);
    *asked_ns = clock::now_ns();
    disk.read(slot, offset, job.block)
}

fn pause_until(at_ns: u64) {
    clock::sleep_until(at_ns.saturating_sub(SPIN_NS));
    while clock::now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// Xorshift, after Marsaglia (2003), to spread the blocks.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
