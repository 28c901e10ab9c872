//! Settings of BFQ as people write and read them: `key=value`, and what is wrong with it.

use std::str::FromStr;
use std::time::Duration;

use weir_engine::settings::{
    BfqSettings, MergeRules, MergeSettings, MergeWindow, StableTimes, StableTimesError,
};
use weir_units::{Bytes, Nanos, UnitError, clip, nearest};

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

    /// A time; without a unit, in units of `plain_ns`.
    fn time(self, value: &str, plain_ns: u64) -> Result<Duration, BfqError> {
        let time = match value.parse::<Nanos>() {
            Err(UnitError::MissingUnit { .. }) => {
                value.parse().ok().and_then(|number: u64| number.checked_mul(plain_ns))
            }
            time => time.ok().map(|Nanos(time)| time),
        };
        time.map(Duration::from_nanos).ok_or_else(|| self.refuse(value))
    }

    /// A time of merging: an hour at most.
    fn millis(self, value: &str) -> Result<Duration, BfqError> {
        let time = self.time(value, MS)?;
        if time > HOUR { Err(self.refuse(value)) } else { Ok(time) }
    }

    /// A size in bytes; without a unit, in units of `plain`.
    fn size(self, value: &str, plain: u64) -> Result<u64, BfqError> {
        let size = match value.parse::<u64>() {
            Ok(number) => number.checked_mul(plain),
            Err(_) => value.parse().ok().map(|Bytes(size)| size),
        };
        size.ok_or_else(|| self.refuse(value))
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
const HOUR: Duration = Duration::from_secs(3_600);
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
    Stable(#[from] StableTimesError),
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
        let text = print_bfq(&BfqSettings::DEFAULT);
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
    /// Without its stable times.
    merging: MergeSettings,
    /// Life of the anchor, window of creation, late evaluation; `None`: off.
    stable: Option<[Duration; 3]>,
}

impl BfqEdit {
    /// Begins with `settings`.
    pub fn new(settings: BfqSettings) -> BfqEdit {
        let merging = settings.merging();
        BfqEdit { settings, merging, stable: merging.stable.map(parts) }
    }

    /// Sets one key, blanks around the value aside.
    ///
    /// # Errors
    /// There is no such key, or it cannot have that value; nothing has changed then.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), BfqError> {
        let (key, value) = (BfqKey::parse(key)?, value.trim_ascii());
        let (old, merging) = (self.settings, &mut self.merging);
        let settings = match key {
            BfqKey::SliceIdle => old.with_slice_idle(key.time(value, MS)?),
            BfqKey::SliceIdleUs => old.with_slice_idle(key.time(value, 1_000)?),
            BfqKey::StrictGuarantees => Some(old.with_strict_guarantees(key.switch(value)?)),
            BfqKey::LowLatency => Some(old.with_low_latency(key.switch(value)?)),
            BfqKey::TimeoutSync => old.with_timeout_sync(key.time(value, MS)?),
            BfqKey::MaxBudget => match key.size(value, SECTOR)? {
                0 => old.with_max_budget(None),
                bytes => {
                    u32::try_from(bytes).ok().and_then(|bytes| old.with_max_budget(Some(bytes)))
                }
            },
            BfqKey::FifoExpireSync => old.with_fifo_expire_sync(key.time(value, MS)?),
            BfqKey::FifoExpireAsync => old.with_fifo_expire_async(key.time(value, MS)?),
            BfqKey::BackSeekMax => old.with_back_seek_max(key.size(value, 1 << 10)?),
            BfqKey::BackSeekPenalty => {
                value.parse().ok().and_then(|penalty| old.with_back_seek_penalty(penalty))
            }
            BfqKey::MergeWindow => {
                merging.merge_window = match value {
                    "off" => MergeWindow::Closed,
                    "unlimited" => MergeWindow::Unlimited,
                    _ => MergeWindow::For(key.millis(value)?),
                };
                Some(old)
            }
            BfqKey::CloseBytes => {
                let bytes = Some(key.size(value, 1)?).filter(|bytes| *bytes <= 1 << 40);
                merging.close_bytes = bytes.ok_or_else(|| key.refuse(value))?;
                Some(old)
            }
            BfqKey::Stable if value == "off" => {
                self.stable = None;
                Some(old)
            }
            BfqKey::Stable => {
                let times = StableTimes::from_str(value).map_err(|error| match error {
                    StableTimesError::NotTimes => key.refuse(value),
                    error => error.into(),
                })?;
                self.stable = Some(parts(times));
                Some(old)
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
                Some(old)
            }
            BfqKey::EvidenceInsertions => {
                merging.evidence_insertions = key.number(value, 0, 1_000_000)?;
                Some(old)
            }
            BfqKey::StableTriesMax => {
                merging.stable_tries_max = key.number(value, 0, 1_000_000)?;
                Some(old)
            }
            BfqKey::MergeRules => {
                merging.rules = match value {
                    "weir" => MergeRules::Weir,
                    "kernel" => MergeRules::Kernel,
                    _ => return Err(key.refuse(value)),
                };
                Some(old)
            }
        };
        self.settings = settings.ok_or_else(|| key.refuse(value))?;
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
        Ok(self.settings.with_merging(MergeSettings { stable, ..self.merging }))
    }
}

/// Reads `key=value` words with blanks between them: `old` with these settings changed. The last of a repeated key wins.
///
/// # Errors
/// The first word that is refused, or times of stable merging that contradict each other in the end.
pub fn parse_bfq(text: &str, old: BfqSettings) -> Result<BfqSettings, BfqError> {
    let mut edit = BfqEdit::new(old);
    for word in text.split_ascii_whitespace() {
        let (key, value) =
            word.split_once('=').ok_or_else(|| BfqError::NoValue { word: clip(word) })?;
        edit.set(key, value)?;
    }
    edit.finish()
}

fn parts(times: StableTimes) -> [Duration; 3] {
    [times.anchor_life(), times.create_window(), times.late()]
}

/// All settings, as [`parse_bfq`] reads them.
pub fn print_bfq(settings: &BfqSettings) -> String {
    let merging = settings.merging();
    let words = vec![
        format!("slice_idle={}", word(settings.slice_idle())),
        format!("strict_guarantees={}", u8::from(settings.strict_guarantees())),
        format!("low_latency={}", u8::from(settings.low_latency())),
        format!("timeout_sync={}", word(settings.timeout_sync())),
        match settings.max_budget() {
            None => "max_budget=0".to_owned(),
            Some(bytes) => format!("max_budget={}", size(bytes.into())),
        },
        format!("fifo_expire_sync={}", word(settings.fifo_expire_sync())),
        format!("fifo_expire_async={}", word(settings.fifo_expire_async())),
        format!("back_seek_max={}", size(settings.back_seek_max())),
        format!("back_seek_penalty={}", settings.back_seek_penalty()),
        match merging.merge_window {
            MergeWindow::Closed => "merge_window=off".to_owned(),
            MergeWindow::For(window) => format!("merge_window={}", word(window)),
            MergeWindow::Unlimited => "merge_window=unlimited".to_owned(),
        },
        format!("close_bytes={}", size(merging.close_bytes)),
        match merging.stable {
            None => "stable=off".to_owned(),
            Some(StableTimes::KERNEL_BEFORE_2021) => "stable=kernel-before-2021".to_owned(),
            Some(StableTimes::KERNEL) => "stable=kernel".to_owned(),
            Some(StableTimes::INTENT) => "stable=intent".to_owned(),
            // A time may be finer than the milliseconds of `stable=`; what is not off can be set one by one.
            Some(times) => format!(
                "stable=intent stable_anchor_life={} stable_create_window={} stable_late={}",
                word(times.anchor_life()),
                word(times.create_window()),
                word(times.late())
            ),
        },
        format!("evidence_insertions={}", merging.evidence_insertions),
        format!("stable_tries_max={}", merging.stable_tries_max),
        match merging.rules {
            MergeRules::Weir => "merge_rules=weir".to_owned(),
            MergeRules::Kernel => "merge_rules=kernel".to_owned(),
        },
    ];
    words.join(" ")
}

/// A time as one word: without the blank before its unit.
fn word(time: Duration) -> String {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Nanos(nanos).to_string().replace(' ', "")
}

fn size(bytes: u64) -> String {
    Bytes(bytes).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BfqSettings, String> {
        parse_bfq(text, BfqSettings::DEFAULT).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_printed_parses_back() {
        let default = BfqSettings::DEFAULT;
        assert_eq!(
            print_bfq(&default),
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
                assert_eq!(parse_bfq(&print_bfq(&settings), old), Ok(settings), "{text}");
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
        let twice = parse_bfq("slice_idle=2 slice_idle=4", once).unwrap();
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
        let hint = parse_bfq("slice_idel=8", BfqSettings::DEFAULT).unwrap_err().hint();
        assert_eq!(hint.as_deref(), Some("did you mean `slice_idle`?"));
    }

    #[test]
    fn a_refused_key_changes_nothing() {
        let mut edit = BfqEdit::new(BfqSettings::DEFAULT);
        for (key, value) in [("slice_idle", "x"), ("stable", "1/2"), ("merge_window", "x")] {
            edit.set(key, value).unwrap_err();
        }
        assert_eq!(edit.finish(), Ok(BfqSettings::DEFAULT));
    }
}
