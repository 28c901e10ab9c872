//! The thread that writes recordings, and what devices' threads are given for it.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tracing::{error, info, warn};
use weir_config::RecordConfig;
use weir_recording::{Device, DirectoryError, Recorded, Recorder, Settings, Status, Writer};
use weir_uring::monotonic_ns;

use crate::command::Command;
use crate::device::DeviceHandle;
use crate::status::RecordingStatus;

/// How often the thread looks whether there is something to write. It is not woken: that would cost the devices' threads a
/// lock.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often without a device that is recorded.
const REST: Duration = Duration::from_secs(3600);
/// `nice` of the thread: others go first.
const NICE: i32 = 19;

/// Recordings of a server whose configuration has `[record]`.
#[derive(Debug)]
pub(crate) struct Recordings {
    asks: Sender<Ask>,
    directory: PathBuf,
    is_on: AtomicBool,
    /// As of the thread's last look.
    status: Arc<Mutex<Status>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Ask {
    Add(Device, Recorded),
    /// Write what there is once the devices' threads have ended, and end.
    End,
}

/// Why a server does not record.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The system has no thread.
    #[error("cannot start the thread that records: {0}")]
    Thread(io::Error),
}

impl Recordings {
    /// Takes the directory and starts the thread.
    pub(crate) fn start(config: &RecordConfig) -> Result<Recordings, RecordingError> {
        let settings = Settings {
            bytes_max: config.size,
            file_ns: u64::try_from(config.file_time.as_nanos()).unwrap_or(u64::MAX),
            clock_offset_ns: clock_offset_ns(),
        };
        let writer = Writer::new(&config.directory, settings)?;
        let status = Arc::new(Mutex::new(writer.status()));
        let (asks, asked) = mpsc::channel();
        let seen = Arc::clone(&status);
        let thread = std::thread::Builder::new()
            .name("weir-record".into())
            .spawn(move || run(writer, &asked, &seen))
            .map_err(RecordingError::Thread)?;
        Ok(Recordings {
            asks,
            directory: config.directory.clone(),
            is_on: AtomicBool::new(config.start),
            status,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// What the thread of a device that starts is to have, if there is a recording.
    pub(crate) fn of_new_device(
        &self,
        device: &DeviceHandle,
        disk: Option<String>,
    ) -> Option<Recorder> {
        self.is_on.load(Ordering::SeqCst).then(|| self.recorder(device, disk, true))
    }

    fn recorder(&self, device: &DeviceHandle, disk: Option<String>, from_start: bool) -> Recorder {
        let (recorder, recorded) = Recorder::new();
        let device =
            Device { name: device.name.clone(), bytes: device.facts().size, disk, from_start };
        // A thread that has ended needs none.
        let _ = self.asks.send(Ask::Add(device, recorded));
        recorder
    }

    /// Begins a recording of `devices`, or ends it; whether that is new.
    pub(crate) fn switch(&self, is_on: bool, devices: &[DeviceHandle]) -> bool {
        if self.is_on.swap(is_on, Ordering::SeqCst) == is_on {
            return false;
        }
        for device in devices {
            let recorder = is_on.then(|| Box::new(self.recorder(device, None, false)));
            // A thread that has ended is asked for nothing more.
            let _ = device.send(Command::Record(recorder));
        }
        true
    }

    /// How it is.
    pub(crate) fn status(&self) -> RecordingStatus {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Status { files, bytes, bytes_max, requests, dropped, lost, error } = status;
        RecordingStatus {
            on: self.is_on.load(Ordering::SeqCst),
            directory: self.directory.display().to_string(),
            files,
            bytes,
            bytes_max,
            requests,
            dropped,
            lost,
            error,
        }
    }

    /// Closes the files. The devices' threads have ended.
    pub(crate) fn finish(&self) {
        let _ = self.asks.send(Ask::End);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            error!("the thread that records has panicked");
        }
    }
}

fn run(mut writer: Writer, asked: &mpsc::Receiver<Ask>, seen: &Mutex<Status>) {
    // Where that is refused it has the priority of the others.
    let _ = rustix::process::setpriority_process(None, NICE);
    let mut is_over = false;
    let mut failure = None;
    while !is_over {
        let wait = if writer.is_empty() { REST } else { LOOK_EVERY };
        match asked.recv_timeout(wait) {
            Ok(Ask::Add(device, recorded)) => {
                info!(device = device.name, "recording");
                writer.add(monotonic_ns(), device, recorded);
            }
            Ok(Ask::End) | Err(RecvTimeoutError::Disconnected) => is_over = true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        while writer.poll(monotonic_ns()) {}
        let status = writer.status();
        if status.error != failure {
            failure.clone_from(&status.error);
            if let Some(error) = &failure {
                warn!(error, lost = status.lost, "recording: a file could not be written");
            }
        }
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// From the clock of the rings to that of the world.
fn clock_offset_ns() -> i64 {
    let real = clock_gettime(ClockId::Realtime);
    let real_ns = real.tv_sec.saturating_mul(1_000_000_000).saturating_add(real.tv_nsec);
    real_ns.saturating_sub_unsigned(monotonic_ns())
}
