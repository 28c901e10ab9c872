//! Texts of limits, weights and watermarks, in the configuration's grammar.

#[path = "shared/texts.rs"]
mod texts;

use weir_engine::{Limits, PerDimension};
use weir_text::{WeightKey, parse_io_max, parse_watermark, parse_weight, print_watermark};

fn read(key: &str, text: &str) -> Option<String> {
    match key {
        "max" => parse_io_max(text, PerDimension::NONE).ok().map(|limits| limits.to_string()),
        "weight" | "bfq.weight" => {
            let key = WeightKey::ALL.into_iter().find(|of| of.key() == format!("io.{key}"));
            let line = parse_weight(key.unwrap(), text).ok().filter(|line| line.device.is_none());
            Some(line?.weight?.get().to_string())
        }
        _ => parse_watermark(text).ok().map(print_watermark),
    }
}

#[test]
fn a_text_means_what_it_says_or_is_refused() {
    for key in ["max", "weight", "bfq.weight", "watermark"] {
        for text in texts::of(key) {
            assert_eq!(read(key, text.text).as_deref(), text.means, "{key} {:?}", text.text);
        }
    }
}

/// The engine's own short parser reads the same grammar.
#[test]
fn limits_parse_reads_what_io_max_reads() {
    for text in texts::of("max")
        .filter(|text| text.text.split(' ').all(|word| word.len() <= weir_text::TOKEN_MAX))
    {
        let short = Limits::parse(text.text).ok().map(|limits| limits.max);
        assert_eq!(short, parse_io_max(text.text, PerDimension::NONE).ok(), "{:?}", text.text);
    }
}

/// What the kernel refuses is refused, and what it takes for a number is the same number.
#[test]
fn a_refused_text_changes_nothing() {
    let old = parse_io_max("rbps=7 wiops=9", PerDimension::NONE).unwrap();
    for text in texts::of("max").filter(|text| text.means.is_none()) {
        let both = format!("riops=3 {}", text.text);
        assert!(parse_io_max(&both, old).is_err(), "{both}");
    }
}
