//! `io.limiter`: `pace`, `token`, `leaky`, or `slice` as a given kernel does it.

use std::time::Duration;

use weir_engine::LimiterKind;
use weir_engine::settings::{KernelProfile, SliceProfile};
use weir_units::Nanos;
use weir_units::nearest;

use crate::error::ConfigErrors;
use crate::report::{Problem, Report};
use crate::source::{Source, Span, Text};
use crate::value::cut;

/// Default ticks per second: those of Debian's and Ubuntu's kernels.
const HZ: u16 = 250;
/// Length of a slice where none is given: today's kernels, and all before 4.12.
const SLICE: Duration = Duration::from_millis(100);
/// The longest that `throttle_sample_time` allowed.
const SLICE_MAX: Duration = Duration::from_secs(1);
/// Ticks per second that kernels can be built with.
const HZS: [u16; 4] = [100, 250, 300, 1000];

const PROFILES: [(&str, KernelProfile); 6] = [
    ("K418", KernelProfile::K418),
    ("K419a", KernelProfile::K419a),
    ("K419", KernelProfile::K419),
    ("K61", KernelProfile::K61),
    ("K612", KernelProfile::K612),
    ("K615", KernelProfile::K615),
];

/// Reads a limiter as `io.limiter` and `--limiter` write it, for settings that change at run time.
///
/// # Errors
///
/// Error under the key `io.limiter`, with a suggestion.
pub fn parse_limiter(value: &str) -> Result<LimiterKind, ConfigErrors> {
    let source = Source::of_command_line("setting", value);
    let span = Span { start: 0, end: value.len() };
    let text = Text { value: value.into(), key: "io.limiter".into(), span, verbatim: true };
    let mut report = Report::default();
    read(&text, &mut report).ok_or_else(|| report.into_errors(&source))
}

/// Reads `text`: a name, and for `slice` after a colon the kernel, `hz=` and `slice=`.
pub(crate) fn read(text: &Text, report: &mut Report) -> Option<LimiterKind> {
    let (name, settings) = match text.value.split_once(':') {
        Some((name, settings)) => (name, Some(settings)),
        None => (text.value.as_str(), None),
    };
    let limiter = match name {
        "slice" => return slice(text, settings, report).map(LimiterKind::Slice),
        "pace" => LimiterKind::Pace,
        "token" => LimiterKind::Token,
        "leaky" => LimiterKind::Leaky,
        _ => {
            let hint = match nearest(name, ["pace", "slice", "token", "leaky"]) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "available: pace, slice, token and leaky".into(),
            };
            refuse(text, name, format!("there is no limiter {:?}", cut(name)), hint, report);
            return None;
        }
    };
    if let Some(settings) = settings {
        let hint = format!("write {name:?}; its burst is set with \"io.burst\"");
        refuse(text, settings, format!("the limiter {name:?} has no settings here"), hint, report);
        return None;
    }
    Some(limiter)
}

fn slice(text: &Text, settings: Option<&str>, report: &mut Report) -> Option<SliceProfile> {
    let (mut kernel, mut hz) = (Some(KernelProfile::K615), Some(HZ));
    let (mut length, mut length_word) = (Some(SLICE), text.value.as_str());
    let mut seen: Vec<&str> = Vec::new();
    for word in settings.iter().flat_map(|settings| settings.split(',')) {
        let name = word.split_once('=').map_or("kernel", |(key, _)| key);
        if seen.contains(&name) {
            kernel = None;
            let message = format!("the {name} of slice is given twice");
            refuse(text, word, message, "write it once".into(), report);
            continue;
        }
        seen.push(name);
        match word.split_once('=') {
            Some(("hz", value)) => hz = read_hz(text, value, report),
            Some(("slice", value)) => {
                (length, length_word) = (read_length(text, value, report), value);
            }
            Some((key, _)) => {
                kernel = None;
                let message = format!("unknown setting {:?} of slice", cut(key));
                refuse(text, word, message, "known: hz and slice".into(), report);
            }
            None => kernel = read_kernel(text, word, report),
        }
    }
    let (kernel, hz, length) = (kernel?, hz?, length?);
    let ticks = length.as_nanos() * u128::from(hz);
    let second = Duration::from_secs(1).as_nanos();
    if ticks == 0 || !ticks.is_multiple_of(second) {
        let message = format!("a slice of {length:?} is no whole number of ticks at hz={hz}");
        let hint = format!("a tick is 1/{hz} s");
        refuse(text, length_word, message, hint, report);
        return None;
    }
    let slice_ticks = u16::try_from(ticks / second).ok()?;
    Some(SliceProfile { kernel, hz, slice_ticks })
}

fn read_hz(text: &Text, value: &str, report: &mut Report) -> Option<u16> {
    let hz = value.parse().ok().filter(|hz| HZS.contains(hz));
    if hz.is_none() {
        let message = format!("{:?} is no tick rate that kernels are built with", cut(value));
        refuse(text, value, message, "allowed: 100, 250, 300 and 1000".into(), report);
    }
    hz
}

fn read_length(text: &Text, value: &str, report: &mut Report) -> Option<Duration> {
    let length = match value.parse::<Nanos>() {
        Ok(length) => length.duration(),
        Err(error) => {
            refuse(text, value, error.to_string(), error.hint(), report);
            return None;
        }
    };
    if length > SLICE_MAX {
        let hint = "kernels use \"100ms\", and \"20ms\" on SSDs from 4.12 to 6.9".into();
        refuse(text, value, "a slice is at most 1 s".into(), hint, report);
        return None;
    }
    Some(length)
}

/// A profile's name, or the version of a kernel.
fn read_kernel(text: &Text, word: &str, report: &mut Report) -> Option<KernelProfile> {
    if let Some((_, kernel)) =
        PROFILES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word))
    {
        return Some(kernel);
    }
    let (newest_major, newest_minor) = NEWEST;
    let (message, hint) = match version(word) {
        Some(version) if is_released(version) => return Some(of_version(version)),
        Some(version) if version > NEWEST => (
            format!("Linux {} is newer than any whose throttling is known", cut(word)),
            format!(
                "the newest is {newest_major}.{newest_minor}; to have that one write \"slice:K615\""
            ),
        ),
        Some(_) => (
            format!("there is no Linux {}", cut(word)),
            "write a version that was released, such as \"slice:6.12\"".into(),
        ),
        None => (
            format!("{:?} is no kernel", cut(word)),
            "write a version such as \"slice:6.12\", or K418, K419a, K419, K61, K612 or K615"
                .into(),
        ),
    };
    refuse(text, word, message, hint, report);
    None
}

/// The newest kernel that a profile stands for.
const NEWEST: (u16, u16) = (7, 0);

/// Whether there is a kernel of this major and minor version that limits I/O, up to [`NEWEST`]: 2.6.37 was the first.
fn is_released((major, minor): (u16, u16)) -> bool {
    match major {
        2 => minor == 6,
        3 | 5 | 6 => minor <= 19,
        4 => minor <= 20,
        _ => (major, minor) <= NEWEST && major >= 2,
    }
}

/// Major and minor of `6.12`, `6.12.3` or `6.12.3-amd64`.
fn version(word: &str) -> Option<(u16, u16)> {
    let number = |part: Option<&str>| -> Option<u16> {
        part.filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
    };
    let mut parts = word.split(['.', '-']);
    let version = (number(parts.next())?, number(parts.next())?);
    (version.0 >= 2).then_some(version)
}

/// The profile of a kernel (the table at the head of docs/spec/throttle.md). The stable updates of 4.19 to 5.2 have the
/// fix of 5.3, so those count as K419; their first releases are named K419a.
fn of_version(version: (u16, u16)) -> KernelProfile {
    match version {
        (0..=3, _) | (4, 0..=18) => KernelProfile::K418,
        (4 | 5, _) | (6, 0) => KernelProfile::K419,
        (6, 1..=11) => KernelProfile::K61,
        (6, 12..=14) => KernelProfile::K612,
        _ => KernelProfile::K615,
    }
}

fn refuse(text: &Text, part: &str, message: String, hint: String, report: &mut Report) {
    report.add(Problem::new(text.place_of(part), &text.key, message).hint(hint));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<LimiterKind> {
        parse_limiter(value).inspect_err(|errors| assert!(!errors.errors().is_empty())).ok()
    }

    #[test]
    fn kernels_by_version_and_by_name() {
        use KernelProfile::*;
        for (text, kernel, hz, slice_ticks) in [
            ("slice", K615, 250, 25),
            ("slice:2.6", K418, 250, 25),
            ("slice:4.18,hz=250,slice=20ms", K418, 250, 5),
            ("slice:4.19.325", K419, 250, 25),
            ("slice:5.15", K419, 250, 25),
            ("slice:6.0", K419, 250, 25),
            ("slice:6.1.0-38-amd64", K61, 250, 25),
            ("slice:6.11", K61, 250, 25),
            ("slice:6.12", K612, 250, 25),
            ("slice:6.15", K615, 250, 25),
            ("slice:7.0", K615, 250, 25),
            ("slice:K419a,hz=1000", K419a, 1000, 100),
            ("slice:k61,slice=1s", K61, 250, 250),
            ("slice:hz=100", K615, 100, 10),
        ] {
            let profile = SliceProfile { kernel, hz, slice_ticks };
            assert_eq!(parse(text), Some(LimiterKind::Slice(profile)), "{text}");
        }
    }

    #[test]
    fn an_error_alone_has_its_hint() {
        let errors = parse_limiter("pase").unwrap_err();
        let expected = "setting: io.limiter: there is no limiter \"pase\" (did you mean \"pace\"?)";
        assert_eq!(errors.errors()[0].to_string(), expected);
        assert_eq!(errors.errors()[0].key, "io.limiter");
    }

    #[test]
    fn a_kernel_that_is_not_known_is_refused_with_those_that_are() {
        for (text, expected) in [
            (
                "slice:99.99",
                "Linux 99.99 is newer than any whose throttling is known (the newest is 7.0; to have that one write \
                 \"slice:K615\")",
            ),
            (
                "slice:4.21",
                "there is no Linux 4.21 (write a version that was released, such as \"slice:6.12\")",
            ),
            ("slice:6.1,6.12", "the kernel of slice is given twice (write it once)"),
        ] {
            let errors = parse_limiter(text).unwrap_err();
            let told = errors.errors()[0].to_string();
            assert_eq!(told, format!("setting: io.limiter: {expected}"));
        }
    }

    #[test]
    fn the_others_have_no_settings() {
        assert_eq!(parse("pace"), Some(LimiterKind::Pace));
        assert_eq!(parse("token"), Some(LimiterKind::Token));
        assert_eq!(parse("leaky"), Some(LimiterKind::Leaky));
        for text in [
            "",
            "Pace",
            "pace:",
            "pace:burst=1",
            "slice:",
            "slice:6",
            "slice:x.y",
            "slice:+6.1",
            "slice:1.0",
            "slice:2.4",
            "slice:2.7",
            "slice:3.20",
            "slice:4.21",
            "slice:6.20",
            "slice:7.1",
            "slice:99.99",
            "slice:65535.65535",
            "slice:6.1,6.12",
            "slice:K61,6.12",
            "slice:hz=100,hz=250",
            "slice:slice=100ms,slice=20ms",
            "slice:6.12 ",
            " slice:6.12",
            "slice:hz=99",
            "slice:slice=2s",
            "slice:slice=0s",
            "slice:slice=1ms",
            "slice:slice=10",
            "slice:x=1",
            "slice:slice=10ms,hz=250",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
