//! Settings of BFQ as people write and read them: `key=value`, and what is wrong with it.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::BfqSettings;
use crate::io_max::nearest;
use crate::merge::{MergeWindow, Rules, Settings, SettingsError, StableTimes};
use crate::units::{Bytes, Nanos, UnitError, clip};

/// The settings by name. A number without a unit is in the unit that the kernel's file of that name has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BfqKey {
    /// `slice_idle`, milliseconds: 0 to 10 s, 8 ms by default.
    SliceIdle,
    /// `slice_idle_us`: the same setting in microseconds.
    SliceIdleUs,
    /// `strict_guarantees`: 0 or 1, 0 by default.
    StrictGuarantees,
    /// `low_latency`: 0 or 1, 1 by default.
    LowLatency,
    /// `timeout_sync`, milliseconds: 1 ms to 60 s, 125 ms by default.
    TimeoutSync,
    /// `max_budget`, sectors of 512 bytes: 0, the default, follows the device; else 16 KiB to 1 GiB.
    MaxBudget,
    /// `fifo_expire_sync`, milliseconds: 1 ms to 1 h, 125 ms by default.
    FifoExpireSync,
    /// `fifo_expire_async`, milliseconds: 1 ms to 1 h, 250 ms by default.
    FifoExpireAsync,
    /// `back_seek_max`, KiB: 0 to 1 TiB, 16 MiB by default.
    BackSeekMax,
    /// `back_seek_penalty`: 1 to 1000, 2 by default.
    BackSeekPenalty,
    /// `merge_window`, milliseconds: `off`, 0 to 1 h, or `unlimited`; 100 ms by default.
    MergeWindow,
    /// `close_bytes`: 0 to 1 TiB, 4 MiB by default.
    CloseBytes,
    /// `stable`: `off`, a preset (`kernel-before-2021`, `kernel`, `intent`) or three times in milliseconds, as in
    /// `600/180/600`; `intent` by default.
    Stable,
    /// `stable_anchor_life`, milliseconds: 0 to 1 h; the first of the three.
    StableAnchorLife,
    /// `stable_create_window`, milliseconds: 0 to 1 h; the second.
    StableCreateWindow,
    /// `stable_late`, milliseconds: 0 to 1 h; the third.
    StableLate,
    /// `evidence_insertions`: 0 to 1,000,000, 20 by default.
    EvidenceInsertions,
    /// `stable_tries_max`: 0 to 1,000,000, 64 by default.
    StableTriesMax,
    /// `merge_rules`: `weir`, the default, or `kernel`.
    MergeRules,
}

impl BfqKey {
    /// All of them, in an order in which they can be set one after the other: a whole before its parts.
    pub const ALL: [BfqKey; 19] = [
        BfqKey::SliceIdle,
        BfqKey::SliceIdleUs,
        BfqKey::StrictGuarantees,
        BfqKey::LowLatency,
        BfqKey::TimeoutSync,
        BfqKey::MaxBudget,
        BfqKey::FifoExpireSync,
        BfqKey::FifoExpireAsync,
        BfqKey::BackSeekMax,
        BfqKey::BackSeekPenalty,
        BfqKey::MergeWindow,
        BfqKey::CloseBytes,
        BfqKey::Stable,
        BfqKey::StableAnchorLife,
        BfqKey::StableCreateWindow,
        BfqKey::StableLate,
        BfqKey::EvidenceInsertions,
        BfqKey::StableTriesMax,
        BfqKey::MergeRules,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            BfqKey::SliceIdle => "slice_idle",
            BfqKey::SliceIdleUs => "slice_idle_us",
            BfqKey::StrictGuarantees => "strict_guarantees",
            BfqKey::LowLatency => "low_latency",
            BfqKey::TimeoutSync => "timeout_sync",
            BfqKey::MaxBudget => "max_budget",
            BfqKey::FifoExpireSync => "fifo_expire_sync",
            BfqKey::FifoExpireAsync => "fifo_expire_async",
            BfqKey::BackSeekMax => "back_seek_max",
            BfqKey::BackSeekPenalty => "back_seek_penalty",
            BfqKey::MergeWindow => "merge_window",
            BfqKey::CloseBytes => "close_bytes",
            BfqKey::Stable => "stable",
            BfqKey::StableAnchorLife => "stable_anchor_life",
            BfqKey::StableCreateWindow => "stable_create_window",
            BfqKey::StableLate => "stable_late",
            BfqKey::EvidenceInsertions => "evidence_insertions",
            BfqKey::StableTriesMax => "stable_tries_max",
            BfqKey::MergeRules => "merge_rules",
        }
    }

    /// The key of that name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<BfqKey, BfqError> {
        BfqKey::ALL.into_iter().find(|key| key.name() == name).ok_or_else(|| BfqError::UnknownKey {
            key: clip(name),
            nearest: nearest(name, BfqKey::ALL.map(BfqKey::name)),
        })
    }

    /// What it may be, for messages.
    pub const fn allowed(self) -> &'static str {
        match self {
            BfqKey::SliceIdle => "0 to 10s; a plain number is milliseconds",
            BfqKey::SliceIdleUs => "0 to 10s; a plain number is microseconds",
            BfqKey::StrictGuarantees | BfqKey::LowLatency => "0 and 1",
            BfqKey::TimeoutSync => "1ms to 60s; a plain number is milliseconds",
            BfqKey::MaxBudget => {
                "0, which follows the device, and 16KiB to 1GiB; a plain number is sectors of 512 bytes"
            }
            BfqKey::FifoExpireSync | BfqKey::FifoExpireAsync => {
                "1ms to 1h; a plain number is milliseconds"
            }
            BfqKey::BackSeekMax => "0 to 1TiB; a plain number is KiB",
            BfqKey::BackSeekPenalty => "1 to 1000",
            BfqKey::MergeWindow => "off, 0 to 1h, and unlimited; a plain number is milliseconds",
            BfqKey::CloseBytes => "0 to 1TiB",
            BfqKey::Stable => {
                "off, kernel-before-2021, kernel, intent, and anchor life, creation window and late evaluation in \
                 milliseconds, as in 600/180/600"
            }
            BfqKey::StableAnchorLife | BfqKey::StableCreateWindow | BfqKey::StableLate => {
                "0 to 1h; a plain number is milliseconds"
            }
            BfqKey::EvidenceInsertions | BfqKey::StableTriesMax => "0 to 1000000",
            BfqKey::MergeRules => "weir and kernel",
        }
    }

    fn refuse(self, value: &str) -> BfqError {
        BfqError::Value { key: self, value: clip(value) }
    }

    /// A time in nanoseconds between two others; without a unit, in units of `plain_ns`.
    fn time(self, value: &str, plain_ns: u64, range: (u64, u64)) -> Result<u64, BfqError> {
        let time = match value.parse::<Nanos>() {
            Err(UnitError::MissingUnit { .. }) => {
                value.parse().ok().and_then(|number: u64| number.checked_mul(plain_ns))
            }
            time => time.ok().map(|Nanos(time)| time),
        };
        time.filter(|time| (range.0..=range.1).contains(time)).ok_or_else(|| self.refuse(value))
    }

    fn millis(self, value: &str) -> Result<Duration, BfqError> {
        self.time(value, MS, (0, HOUR)).map(Duration::from_nanos)
    }

    /// A size in bytes of at most `most`; without a unit, in units of `plain`.
    fn size(self, value: &str, plain: u64, most: u64) -> Result<u64, BfqError> {
        let size = match value.parse::<u64>() {
            Ok(number) => number.checked_mul(plain),
            Err(_) => value.parse().ok().map(|Bytes(size)| size),
        };
        size.filter(|size| *size <= most).ok_or_else(|| self.refuse(value))
    }

    fn number(self, value: &str, least: u32, most: u32) -> Result<u32, BfqError> {
        let number = value.parse().ok();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| self.refuse(value))
    }

    fn switch(self, value: &str) -> Result<bool, BfqError> {
        match value {
            "0" | "false" => Ok(false),
            "1" | "true" => Ok(true),
            _ => Err(self.refuse(value)),
        }
    }
}

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;
const SECTOR: u64 = 512;

/// Why a setting is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BfqError {
    /// A word without `=`.
    #[error("{word:?} is not KEY=VALUE")]
    NoValue {
        /// The word, cut where it is long.
        word: String,
    },
    /// A key that is none of [`BfqKey::ALL`].
    #[error("bfq has no setting {key:?}")]
    UnknownKey {
        /// The key, cut where it is long.
        key: String,
        /// The key that was probably meant, if any is near.
        nearest: Option<&'static str>,
    },
    /// A value that the key cannot have.
    #[error("{} = {value}: allowed are {}", key.name(), key.allowed())]
    Value {
        /// The key.
        key: BfqKey,
        /// The value, cut where it is long.
        value: String,
    },
    /// Times of stable merging that contradict each other.
    #[error(transparent)]
    Stable(#[from] SettingsError),
    /// One of the three times while stable merging is off.
    #[error("{} is a time of stable merging, which is off", key.name())]
    StableOff {
        /// Which.
        key: BfqKey,
    },
}

impl BfqKey {
    /// `KEY=VALUE` with the default; `None` for what is told by another key.
    fn default_text(self) -> Option<String> {
        let text = BfqSettings::DEFAULT.to_string();
        let is_this = |word: &&str| word.split('=').next() == Some(self.name());
        text.split(' ').find(is_this).map(String::from)
    }
}

impl BfqError {
    /// What would be right, where that can be told.
    pub fn hint(&self) -> Option<String> {
        match self {
            BfqError::NoValue { .. } => Some("for example \"slice_idle=0 low_latency=0\"".into()),
            BfqError::UnknownKey { nearest: Some(near), .. } => {
                Some(format!("did you mean `{near}`?"))
            }
            BfqError::UnknownKey { nearest: None, .. } => {
                Some(format!("known: {}", BfqKey::ALL.map(BfqKey::name).join(", ")))
            }
            BfqError::StableOff { .. } => {
                Some("write `stable=intent`, or other times, before it".into())
            }
            BfqError::Value { key, .. } => Some(match key.default_text() {
                Some(usual) => format!("what is usual: {usual:?}"),
                None => format!("leave `{}` out for what is usual", key.name()),
            }),
            BfqError::Stable(_) => Some("600/180/600 are the kernel's".into()),
        }
    }
}

/// Settings that are being changed, key by key; only [`BfqEdit::finish`] looks at what belongs together.
#[derive(Clone, Copy, Debug)]
pub struct BfqEdit {
    settings: BfqSettings,
    /// Life of the anchor, window of creation, late evaluation; `None`: off.
    stable: Option<[Duration; 3]>,
}

impl BfqEdit {
    /// Sets one key, blanks around the value aside.
    ///
    /// # Errors
    /// There is no such key, or it cannot have that value; nothing has changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BfqError> {
        let (key, value) = (BfqKey::parse(key)?, value.trim_ascii());
        let settings = &mut self.settings;
        match key {
            BfqKey::SliceIdle => settings.slice_idle_ns = key.time(value, MS, (0, 10_000 * MS))?,
            BfqKey::SliceIdleUs => {
                settings.slice_idle_ns = key.time(value, 1_000, (0, 10_000 * MS))?;
            }
            BfqKey::StrictGuarantees => settings.strict_guarantees = key.switch(value)?,
            BfqKey::LowLatency => settings.low_latency = key.switch(value)?,
            BfqKey::TimeoutSync => {
                settings.timeout_sync_ns = key.time(value, MS, (MS, 60_000 * MS))?;
            }
            BfqKey::MaxBudget => {
                let bytes = key.size(value, SECTOR, 1 << 30)?;
                // 32 times a sector: budgets fall to 1/32 of it.
                let is_allowed = bytes == 0 || bytes >= 32 * SECTOR;
                let bytes = u32::try_from(bytes).ok().filter(|_| is_allowed);
                settings.max_budget_bytes = bytes.ok_or_else(|| key.refuse(value))?;
            }
            BfqKey::FifoExpireSync => {
                settings.fifo_expire_sync_ns = key.time(value, MS, (MS, HOUR))?;
            }
            BfqKey::FifoExpireAsync => {
                settings.fifo_expire_async_ns = key.time(value, MS, (MS, HOUR))?;
            }
            BfqKey::BackSeekMax => {
                settings.back_seek_max_bytes = key.size(value, 1 << 10, 1 << 40)?;
            }
            BfqKey::BackSeekPenalty => settings.back_seek_penalty = key.number(value, 1, 1_000)?,
            BfqKey::MergeWindow => {
                settings.merging.merge_window = match value {
                    "off" => MergeWindow::Closed,
                    "unlimited" => MergeWindow::Unlimited,
                    _ => MergeWindow::For(key.millis(value)?),
                };
            }
            BfqKey::CloseBytes => settings.merging.close_bytes = key.size(value, 1, 1 << 40)?,
            BfqKey::Stable if value == "off" => self.stable = None,
            BfqKey::Stable => {
                let times = StableTimes::from_str(value).map_err(|error| match error {
                    SettingsError::NotTimes => key.refuse(value),
                    error => error.into(),
                })?;
                self.stable = Some(parts(times));
            }
            BfqKey::StableAnchorLife | BfqKey::StableCreateWindow | BfqKey::StableLate => {
                let time = key.millis(value)?;
                let which = match key {
                    BfqKey::StableAnchorLife => 0,
                    BfqKey::StableCreateWindow => 1,
                    _ => 2,
                };
                let times = self.stable.as_mut().ok_or(BfqError::StableOff { key })?;
                times[which] = time;
            }
            BfqKey::EvidenceInsertions => {
                settings.merging.evidence_insertions = key.number(value, 0, 1_000_000)?;
            }
            BfqKey::StableTriesMax => {
                settings.merging.stable_tries_max = key.number(value, 0, 1_000_000)?;
            }
            BfqKey::MergeRules => {
                settings.merging.rules = match value {
                    "weir" => Rules::Weir,
                    "kernel" => Rules::Kernel,
                    _ => return Err(key.refuse(value)),
                };
            }
        }
        Ok(())
    }

    /// The settings.
    ///
    /// # Errors
    /// The window in which queues merge stably is longer than there is an anchor to merge with.
    pub fn finish(self) -> Result<BfqSettings, BfqError> {
        let stable = match self.stable {
            None => None,
            Some([life, window, late]) => Some(StableTimes::new(life, window, late)?),
        };
        let merging = Settings { stable, ..self.settings.merging };
        Ok(self.settings.with_merging(merging))
    }
}

impl BfqSettings {
    /// These settings, to be changed.
    pub fn edit(self) -> BfqEdit {
        BfqEdit { settings: self, stable: self.merging.stable.map(parts) }
    }

    /// `old`, with what the words of `text` say: `key=value`, with blanks between them; later ones win. Nothing said
    /// changes nothing.
    ///
    /// # Errors
    /// The first word that is refused, or times of stable merging that contradict each other in the end.
    pub fn parse(text: &str, old: BfqSettings) -> Result<BfqSettings, BfqError> {
        let mut edit = old.edit();
        for word in text.split_ascii_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| BfqError::NoValue { word: clip(word) })?;
            edit.set(key, value)?;
        }
        edit.finish()
    }
}

fn parts(times: StableTimes) -> [Duration; 3] {
    [times.anchor_life(), times.create_window(), times.late()]
}

impl fmt::Display for BfqSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let merging = &self.merging;
        write!(f, "slice_idle={}", Word(Nanos(self.slice_idle_ns)))?;
        write!(f, " strict_guarantees={}", u8::from(self.strict_guarantees))?;
        write!(f, " low_latency={}", u8::from(self.low_latency))?;
        write!(f, " timeout_sync={}", Word(Nanos(self.timeout_sync_ns)))?;
        match self.max_budget() {
            None => f.write_str(" max_budget=0")?,
            Some(bytes) => write!(f, " max_budget={}", Word(Bytes(bytes.into())))?,
        }
        write!(f, " fifo_expire_sync={}", Word(Nanos(self.fifo_expire_sync_ns)))?;
        write!(f, " fifo_expire_async={}", Word(Nanos(self.fifo_expire_async_ns)))?;
        write!(f, " back_seek_max={}", Word(Bytes(self.back_seek_max_bytes)))?;
        write!(f, " back_seek_penalty={}", self.back_seek_penalty)?;
        match merging.merge_window {
            MergeWindow::Closed => f.write_str(" merge_window=off")?,
            MergeWindow::For(window) => write!(f, " merge_window={}", word(window))?,
            MergeWindow::Unlimited => f.write_str(" merge_window=unlimited")?,
        }
        write!(f, " close_bytes={}", Word(Bytes(merging.close_bytes)))?;
        match merging.stable {
            None => f.write_str(" stable=off")?,
            Some(StableTimes::KERNEL_BEFORE_2021) => f.write_str(" stable=kernel-before-2021")?,
            Some(StableTimes::KERNEL) => f.write_str(" stable=kernel")?,
            Some(StableTimes::INTENT) => f.write_str(" stable=intent")?,
            // A time may be finer than the milliseconds of `stable=`; what is not off can be set one by one.
            Some(times) => write!(
                f,
                " stable=intent stable_anchor_life={} stable_create_window={} stable_late={}",
                word(times.anchor_life()),
                word(times.create_window()),
                word(times.late())
            )?,
        }
        write!(f, " evidence_insertions={}", merging.evidence_insertions)?;
        write!(f, " stable_tries_max={}", merging.stable_tries_max)?;
        let rules = match merging.rules {
            Rules::Weir => "weir",
            Rules::Kernel => "kernel",
        };
        write!(f, " merge_rules={rules}")
    }
}

fn word(time: Duration) -> Word<Nanos> {
    Word(Nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

/// A quantity as one word: without the blank before its unit.
struct Word<T>(T);

impl<T: fmt::Display> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{}", self.0).replace(' ', ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn parse(text: &str) -> Result<BfqSettings, String> {
        BfqSettings::parse(text, BfqSettings::DEFAULT).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_printed_parses_back() {
        let default = BfqSettings::DEFAULT;
        assert_eq!(
            default.to_string(),
            "slice_idle=8ms strict_guarantees=0 low_latency=1 timeout_sync=125ms max_budget=0 fifo_expire_sync=125ms \
             fifo_expire_async=250ms back_seek_max=16MiB back_seek_penalty=2 merge_window=100ms close_bytes=4MiB \
             stable=off evidence_insertions=20 stable_tries_max=64 merge_rules=weir"
        );
        for text in [
            "",
            "slice_idle=0 low_latency=0 strict_guarantees=1",
            "slice_idle_us=1500 timeout_sync=1 max_budget=32 fifo_expire_sync=1h fifo_expire_async=1000us",
            "merge_window=unlimited stable=off merge_rules=kernel close_bytes=0 back_seek_max=0",
            "merge_window=off stable=kernel stable_tries_max=0 evidence_insertions=0 back_seek_penalty=1000",
            "merge_window=1500us stable=600/180/600 stable_late=200500us",
        ] {
            let settings = parse(text).expect(text);
            // Whatever it was before: everything is said.
            for old in [default, parse("stable=intent slice_idle=1 merge_rules=kernel").unwrap()] {
                assert_eq!(BfqSettings::parse(&settings.to_string(), old), Ok(settings), "{text}");
            }
        }
    }

    #[test]
    fn plain_numbers_are_in_the_kernels_units() {
        for (plain, with_unit) in [
            ("slice_idle=3", "slice_idle=3ms"),
            ("slice_idle_us=1500", "slice_idle=1500us"),
            ("timeout_sync=200", "timeout_sync=200ms"),
            ("max_budget=2048", "max_budget=1M"),
            ("fifo_expire_async=1000", "fifo_expire_async=1s"),
            ("back_seek_max=32768", "back_seek_max=32MiB"),
            ("merge_window=50", "merge_window=50ms"),
            ("close_bytes=8192", "close_bytes=8K"),
            ("stable=intent stable_late=300", "stable=600/600/300"),
            ("low_latency=false", "low_latency=0"),
            ("stable=kernel", "stable=600/180/600"),
        ] {
            assert_eq!(parse(plain).unwrap(), parse(with_unit).unwrap(), "{plain}");
            assert_ne!(parse(plain).unwrap(), BfqSettings::DEFAULT, "{plain}");
        }
    }

    #[test]
    fn later_words_win_and_nothing_else_changes() {
        let once = parse("slice_idle=0 timeout_sync=50").unwrap();
        let twice = BfqSettings::parse("slice_idle=2 slice_idle=4", once).unwrap();
        assert_eq!(twice.slice_idle(), Duration::from_millis(4));
        assert_eq!(twice.timeout_sync(), Duration::from_millis(50));
        // On the way the window is longer than the anchor's life; in the end it is not.
        let times = parse("stable=intent stable_anchor_life=100 stable_create_window=100").unwrap();
        assert_eq!(times.merging().stable, "100/100/600".parse().ok());
    }

    #[test]
    fn refusals_name_key_value_and_range() {
        for (text, message) in [
            ("slice_idle", "\"slice_idle\" is not KEY=VALUE"),
            ("slice_idel=8", "bfq has no setting \"slice_idel\""),
            (
                "slice_idle=-1",
                "slice_idle = -1: allowed are 0 to 10s; a plain number is milliseconds",
            ),
            (
                "slice_idle=10001",
                "slice_idle = 10001: allowed are 0 to 10s; a plain number is milliseconds",
            ),
            (
                "timeout_sync=0",
                "timeout_sync = 0: allowed are 1ms to 60s; a plain number is milliseconds",
            ),
            (
                "timeout_sync=18446744073709551615",
                "timeout_sync = 18446744073709551615: allowed are 1ms to 60s; a plain number is milliseconds",
            ),
            ("low_latency=2", "low_latency = 2: allowed are 0 and 1"),
            (
                "max_budget=31",
                "max_budget = 31: allowed are 0, which follows the device, and 16KiB to 1GiB; a plain number is \
                 sectors of 512 bytes",
            ),
            (
                "max_budget=2G",
                "max_budget = 2G: allowed are 0, which follows the device, and 16KiB to 1GiB; a plain number is \
                 sectors of 512 bytes",
            ),
            ("back_seek_penalty=0", "back_seek_penalty = 0: allowed are 1 to 1000"),
            (
                "back_seek_max=2T",
                "back_seek_max = 2T: allowed are 0 to 1TiB; a plain number is KiB",
            ),
            ("merge_rules=mine", "merge_rules = mine: allowed are weir and kernel"),
            (
                "merge_window=never",
                "merge_window = never: allowed are off, 0 to 1h, and unlimited; a plain number is milliseconds",
            ),
            (
                "stable=600/180",
                "stable = 600/180: allowed are off, kernel-before-2021, kernel, intent, and anchor life, creation \
                 window and late evaluation in milliseconds, as in 600/180/600",
            ),
            (
                "stable=kernel stable_create_window=700",
                "stable_create_window of 700ms is longer than stable_anchor_life of 600ms, after which there is no \
                 anchor to merge with",
            ),
            ("stable=off stable_late=1", "stable_late is a time of stable merging, which is off"),
        ] {
            assert_eq!(parse(text), Err(message.to_string()), "{text}");
        }
        let long = parse(&["slice_idle=", &"9".repeat(100_000)].concat()).unwrap_err();
        assert!(long.len() < 200, "{long}");
        let hint = BfqSettings::parse("slice_idel=8", BfqSettings::DEFAULT).unwrap_err().hint();
        assert_eq!(hint.as_deref(), Some("did you mean `slice_idle`?"));
    }

    #[test]
    fn a_refused_key_changes_nothing() {
        let mut edit = BfqSettings::DEFAULT.edit();
        for (key, value) in [("slice_idle", "x"), ("stable", "1/2"), ("merge_window", "x")] {
            edit.set(key, value).unwrap_err();
        }
        assert_eq!(edit.finish(), Ok(BfqSettings::DEFAULT));
    }
}
