//! Figures in few columns: rates, times, bars.

use weir_units::{Bytes, Ios, Nanos};

/// Bytes in five columns: `33.6M`, as `weir set` takes them.
pub(super) fn bytes(rate: u64) -> String {
    let text = Bytes(rate).rounded().to_string();
    let text = text.replace("iB", "").replace(" B", "").replace(' ', "");
    if text == "0" { "-".into() } else { text }
}

/// Requests in five columns: `12.3k`.
pub(super) fn ios(rate: f64) -> String {
    match rate.round() as u64 {
        0 if rate > 0.0 => "<1".into(),
        0 => "-".into(),
        rate => Ios(rate).rounded().to_string(),
    }
}

/// A time in six columns: `5.98ms`; nothing was timed: `-`.
pub(super) fn time(ns: u64) -> String {
    match ns {
        0 => "-".into(),
        ns => Nanos(ns).rounded().to_string().replace(' ', ""),
    }
}

/// `▇▇▇··`: a part of the whole; any part can be seen, and only the whole fills all.
pub(super) fn bar(percent: f64, width: usize) -> String {
    let part = (percent / 100.0).clamp(0.0, 1.0);
    let most = if part < 0.995 { width.saturating_sub(1) } else { width };
    let least = usize::from(part > 0.0).min(width);
    let filled = ((part * width as f64).round() as usize).min(most).max(least);
    format!("{}{}", "▇".repeat(filled), "·".repeat(width - filled))
}

/// `97%`, and no `100%` for less.
pub(super) fn percent(percent: f64) -> String {
    match percent {
        percent if percent > 999.0 => ">999%".into(),
        percent if (99.0..100.0).contains(&percent) => "99%".into(),
        percent => format!("{percent:.0}%"),
    }
}

/// At most `width` characters, with a mark where something was cut off.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { String::new() } else { format!("{kept}…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_to_their_columns() {
        for rate in [0, 1, 999, 1000, 1023, 1024, 10_239, 999_999, 1 << 20, 35_232_153, u64::MAX] {
            assert!(bytes(rate).len() <= 5, "{}", bytes(rate));
            assert!(ios(rate as f64).len() <= 5 || rate > 1 << 50, "{}", ios(rate as f64));
        }
        for ns in [0, 1, 999, 1000, 5_980_000, 999_999_999, 10_300_000_000] {
            assert!(time(ns).len() <= 6, "{}", time(ns));
        }
        assert_eq!(
            (bytes(35_232_153), ios(12_345.0), time(5_980_000)),
            ("33.6M".into(), "12.3k".into(), "5.98ms".into())
        );
        assert_eq!((bytes(0), ios(0.3), time(0)), ("-".into(), "<1".into(), "-".into()));
    }

    #[test]
    fn bars_are_full_only_where_all_is_used() {
        let bars = [0.0, 0.1, 50.0, 99.0, 99.6, 130.0].map(|percent| bar(percent, 5));
        assert_eq!(bars, ["·····", "▇····", "▇▇▇··", "▇▇▇▇·", "▇▇▇▇▇", "▇▇▇▇▇"]);
        assert_eq!([99.7, 100.0, 4000.0].map(percent), ["99%", "100%", ">999%"]);
        assert_eq!((cut("/vms/noisy", 6), cut("ab", 0)), ("/vms/…".into(), String::new()));
    }
}
