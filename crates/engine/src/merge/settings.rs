//! Settings of merging, valid by construction.

use core::str::FromStr;
use core::time::Duration;

/// Whether decisions are taken as the kernel does, known defects included, or as Weir does.
///
/// | | `Kernel` | `Weir` |
/// |---|---|---|
/// | a delayed stable merge is judged | once | again while evidence is thin (spec/bfq D-2) |
/// | the mark of a stable merge | stays with the queue for good | ends with the pair (spec/bfq D-3) |
/// | the others of a queue that merges move | when they next ask | at once (spec/bfq D-9) |
/// | with a single busy queue | no queue merges | a new queue may join it |
/// | a seeky set parts | one member at a time, when it next asks | all members at once (spec/bfq D-26) |
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Rules {
    /// As a kernel decides, to compare with it.
    Kernel,
    /// Weir's own rules.
    #[default]
    Weir,
}

/// Time after a queue's first dispatch since it last (re)started, within which it may cooperate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MergeWindow {
    /// Cooperation is off, without any bookkeeping.
    Closed,
    /// This long, inclusive: at exactly this age a queue may still merge.
    For(Duration),
    /// Without end, as before 2017.
    Unlimited,
}

/// Times of stable merging. At most one hour each, so that sums cannot overflow.
///
/// The kernel's patch of 2021 speaks of two times, T1 and T2, and changed both to 600 ms; but T1 is used in two
/// places, of which it changed one (spec/bfq D-1). Here each place has its own setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StableTimes {
    anchor_life: Duration,
    create_window: Duration,
    late: Duration,
}

/// Error in times of stable merging.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The anchor would be replaced before a queue could merge with it.
    #[error(
        "stable_create_window of {create_window:?} is longer than stable_anchor_life of {anchor_life:?}, \
         after which there is no anchor to merge with"
    )]
    WindowOutlivesAnchor {
        /// The window that was asked for.
        create_window: Duration,
        /// The life that was asked for.
        anchor_life: Duration,
    },
    /// More than an hour.
    #[error("{setting} of {asked:?} is longer than one hour, the longest there is")]
    TooLong {
        /// The name of the setting.
        setting: &'static str,
        /// What was asked for.
        asked: Duration,
    },
    /// Neither a preset nor three numbers.
    #[error(
        "not stable merging times; expected kernel-before-2021, kernel, intent, or anchor life, creation window and \
         late evaluation in milliseconds, as in 600/180/600"
    )]
    NotTimes,
}

const HOUR: Duration = Duration::from_secs(3600);

impl StableTimes {
    /// Linux up to 5.14: 180/180/200 ms.
    pub const KERNEL_BEFORE_2021: StableTimes = StableTimes::millis(180, 180, 200);
    /// Linux since then: 600/180/600 ms. The anchor lives longer, but queues created after 180 ms still do not merge.
    pub const KERNEL: StableTimes = StableTimes::millis(600, 180, 600);
    /// What the patch of 2021 says it does: 600/600/600 ms.
    pub const INTENT: StableTimes = StableTimes::millis(600, 600, 600);

    const fn millis(anchor_life: u64, create_window: u64, late: u64) -> StableTimes {
        StableTimes {
            anchor_life: Duration::from_millis(anchor_life),
            create_window: Duration::from_millis(create_window),
            late: Duration::from_millis(late),
        }
    }

    /// Checks three times; see the getters for what they mean.
    ///
    /// # Errors
    /// A window that is longer than the anchor lives, or a time of more than an hour.
    pub fn new(
        anchor_life: Duration,
        create_window: Duration,
        late: Duration,
    ) -> Result<StableTimes, SettingsError> {
        for (setting, asked) in [
            ("stable_anchor_life", anchor_life),
            ("stable_create_window", create_window),
            ("stable_late", late),
        ] {
            if asked > HOUR {
                return Err(SettingsError::TooLong { setting, asked });
            }
        }
        if create_window > anchor_life {
            return Err(SettingsError::WindowOutlivesAnchor { create_window, anchor_life });
        }
        Ok(StableTimes { anchor_life, create_window, late })
    }

    /// `stable_anchor_life`: a queue created more than this after the anchor becomes the anchor.
    pub const fn anchor_life(&self) -> Duration {
        self.anchor_life
    }

    /// `stable_create_window`: a queue created at most this after the anchor merges with it, now or later.
    ///
    /// Between this and [`StableTimes::anchor_life`] a new queue does neither.
    pub const fn create_window(&self) -> Duration {
        self.create_window
    }

    /// `stable_late`: a delayed merge is judged when the queue, and its last split, is older than this.
    pub const fn late(&self) -> Duration {
        self.late
    }
}

impl FromStr for StableTimes {
    type Err = SettingsError;

    /// A preset's name, or three times in milliseconds: `600/180/600`.
    fn from_str(text: &str) -> Result<StableTimes, SettingsError> {
        match text {
            "kernel-before-2021" => return Ok(StableTimes::KERNEL_BEFORE_2021),
            "kernel" => return Ok(StableTimes::KERNEL),
            "intent" => return Ok(StableTimes::INTENT),
            _ => {}
        }
        let mut times = [Duration::ZERO; 3];
        let mut parts = text.split('/');
        for time in &mut times {
            let millis = parts.next().and_then(|part| part.parse::<u32>().ok());
            *time = Duration::from_millis(millis.ok_or(SettingsError::NotTimes)?.into());
        }
        if parts.next().is_some() {
            return Err(SettingsError::NotTimes);
        }
        StableTimes::new(times[0], times[1], times[2])
    }
}

/// Settings of merging on one device, valid by construction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// Rules of decisions.
    pub rules: Rules,
    /// `merge_window`: 100 ms by default.
    pub merge_window: MergeWindow,
    /// Largest distance in bytes at which queues may cooperate, inclusive: 4 MiB by default (8192 sectors).
    pub close_bytes: u64,
    /// The times of stable merging; `None` turns it off.
    pub stable: Option<StableTimes>,
    /// Insertions below which the evidence about a queue is thin; 20 by default.
    ///
    /// A new queue counts as sequential, and 20 is the least number of requests with which it can be found seeky.
    /// Only with [`Rules::Weir`].
    pub evidence_insertions: u32,
    /// How often a delayed stable merge is postponed for thin evidence before it is cancelled: 64 by default.
    ///
    /// Each request may ask twice, before and after it is coalesced. Only with [`Rules::Weir`].
    pub stable_tries_max: u32,
}

impl Settings {
    /// Weir's own rules. Stable merging does what the patch of 2021 says it does.
    pub const WEIR: Settings = Settings {
        rules: Rules::Weir,
        merge_window: MergeWindow::For(Duration::from_millis(100)),
        close_bytes: 8192 * 512,
        stable: Some(StableTimes::INTENT),
        evidence_insertions: 20,
        stable_tries_max: 64,
    };

    /// As Linux 6.1 and 6.12 decide.
    pub const KERNEL: Settings =
        Settings { rules: Rules::Kernel, stable: Some(StableTimes::KERNEL), ..Settings::WEIR };

    /// As Linux decided between the arrival of stable merging and June 2021.
    pub const KERNEL_BEFORE_2021: Settings =
        Settings { stable: Some(StableTimes::KERNEL_BEFORE_2021), ..Settings::KERNEL };
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::WEIR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn times_are_presets_or_three_numbers() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("kernel-before-2021", Ok((180, 180, 200))),
            ("kernel", Ok((600, 180, 600))),
            ("intent", Ok((600, 600, 600))),
            ("600/180/600", Ok((600, 180, 600))),
            ("0/0/0", Ok((0, 0, 0))),
            ("600/180", Err(SettingsError::NotTimes)),
            ("600/180/600/1", Err(SettingsError::NotTimes)),
            ("600/-1/600", Err(SettingsError::NotTimes)),
            (
                "180/600/200",
                Err(SettingsError::WindowOutlivesAnchor {
                    create_window: ms(600),
                    anchor_life: ms(180),
                }),
            ),
            (
                "1/1/3600001",
                Err(SettingsError::TooLong { setting: "stable_late", asked: ms(3_600_001) }),
            ),
        ] {
            let times = text.parse().map(|times: StableTimes| {
                let millis = |time: Duration| time.as_millis();
                (millis(times.anchor_life()), millis(times.create_window()), millis(times.late()))
            });
            assert_eq!(times, expected, "{text}");
        }
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        let error = "180/600/200".parse::<StableTimes>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "stable_create_window of 600ms is longer than stable_anchor_life of 180ms, \
             after which there is no anchor to merge with"
        );
    }
}
