//! Recording of a simulated run, and its replay by a fresh engine.

use weir_engine::Instant;
use weir_recording::{
    Device, RecordedEngine, Recorder, Recording, Settings, Writer, replay_as_recorded,
};

/// A run that is recorded.
pub(super) struct Recorded {
    directory: tempfile::TempDir,
    writer: Writer,
}

impl Recorded {
    /// Records `engine`, which is new, from `now` on.
    pub(super) fn start(engine: &mut RecordedEngine, now: Instant) -> Result<Recorded, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let settings =
            Settings { bytes_max: 1 << 30, file_ns: u64::MAX, clock_offset_ns: 1_790_000_000 };
        let writer = Writer::new(directory.path(), settings);
        let mut writer = writer.map_err(|error| error.to_string())?;
        let (recorder, recorded) = Recorder::new();
        let device = Device { name: "disk".into(), bytes: 0, disk: None, from_start: true };
        writer.add(now.as_nanos(), device, recorded);
        engine.attach(now, recorder);
        Ok(Recorded { directory, writer })
    }

    /// Replays the run, which is over: each decision is the same.
    pub(super) fn check(mut self, engine: &mut RecordedEngine) -> Result<(), String> {
        engine.detach();
        while self.writer.poll(0) {}
        let status = self.writer.status();
        if let Some(error) = status.error {
            return Err(error);
        }
        // A long run may have more than the writer, which is not looked after meanwhile, takes at once.
        if status.dropped > 0 {
            return Ok(());
        }
        let recording = Recording::open(self.directory.path(), None);
        let recording = recording.map_err(|error| error.to_string())?;
        let replayed = replay_as_recorded(&recording).map_err(|error| error.to_string())?;
        match replayed.divergence {
            Some(divergence) => Err(divergence.to_string()),
            None => Ok(()),
        }
    }
}
