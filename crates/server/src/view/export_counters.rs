//! Counters of an export, which its device's thread counts and others read.

use std::sync::Mutex;

use weir_counters::{Counters, Histogram, SharedHistogram};
use weir_nbd::{Command, Op};

use crate::status::{ExportStatus, Latency, LatencyByDirection, Percentiles};

/// Requests of all its clients that were answered.
#[derive(Debug, Default)]
pub(crate) struct ExportCounters {
    counts: Counters<{ Count::COUNT }>,
    read_times: SharedHistogram,
    write_times: SharedHistogram,
    /// The times at the last moments of [`ExportCounters::sample`], the later first.
    samples: Mutex<[Option<[Histogram; 2]>; 2]>,
}

/// Places of the counters.
#[derive(Clone, Copy)]
enum Count {
    ReadIos,
    ReadBytes,
    WriteIos,
    WriteBytes,
    DiscardIos,
    DiscardBytes,
    OtherIos,
    FailedIos,
    Connections,
}

impl Count {
    const COUNT: usize = 9;
}

impl ExportCounters {
    /// A request was answered that was inside for `inside_ns`.
    pub(crate) fn answered(&self, command: &Command, is_failed: bool, inside_ns: u64) {
        let (ios, bytes) = match command.op {
            Op::Read { .. } => (Count::ReadIos, Some(Count::ReadBytes)),
            Op::Write | Op::WriteZeroes { .. } => (Count::WriteIos, Some(Count::WriteBytes)),
            Op::Trim => (Count::DiscardIos, Some(Count::DiscardBytes)),
            _ => (Count::OtherIos, None),
        };
        self.counts.update(|counts| {
            counts[ios as usize] += 1;
            if let (Some(bytes), false) = (bytes, is_failed) {
                counts[bytes as usize] += command.len;
            }
            counts[Count::FailedIos as usize] += u64::from(is_failed);
        });
        match command.op {
            Op::Read { .. } => self.read_times.record(inside_ns),
            _ => self.write_times.record(inside_ns),
        }
    }

    pub(crate) fn connected(&self) {
        self.counts.add(Count::Connections as usize, 1);
    }

    pub(crate) fn disconnected(&self) {
        self.counts.update(|counts| {
            let open = &mut counts[Count::Connections as usize];
            *open = open.saturating_sub(1);
        });
    }

    /// Times of reads and of others, on any thread.
    pub(crate) fn times(&self) -> [Histogram; 2] {
        [&self.read_times, &self.write_times].map(|shared| {
            let mut times = Histogram::default();
            shared.add_to(&mut times);
            times
        })
    }

    /// Remembers the times, from which those of the last seconds are counted.
    pub(crate) fn sample(&self) {
        let times = self.times();
        let mut samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let last = samples[0].replace(times);
        samples[1] = last;
    }

    /// What its clients have had, on any thread.
    pub(crate) fn status(&self) -> ExportStatus {
        let counts = self.counts.read();
        let of = |what: Count| counts[what as usize];
        let times = self.times();
        let samples = self.samples.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let before = samples[1].as_ref().or(samples[0].as_ref());
        let latency = |direction: usize| {
            let recent = before.map(|before| times[direction].since(&before[direction]));
            Latency {
                recent: Percentiles::of(recent.as_ref().unwrap_or(&times[direction])),
                total: Percentiles::of(&times[direction]),
            }
        };
        ExportStatus {
            connections: u32::try_from(of(Count::Connections)).unwrap_or(u32::MAX),
            read_ios: of(Count::ReadIos),
            read_bytes: of(Count::ReadBytes),
            write_ios: of(Count::WriteIos),
            write_bytes: of(Count::WriteBytes),
            discard_ios: of(Count::DiscardIos),
            discard_bytes: of(Count::DiscardBytes),
            other_ios: of(Count::OtherIos),
            failed_ios: of(Count::FailedIos),
            inside_ns: times.iter().map(Histogram::sum_ns).sum(),
            latency: LatencyByDirection { read: latency(0), write: latency(1) },
            ..ExportStatus::default()
        }
    }
}
