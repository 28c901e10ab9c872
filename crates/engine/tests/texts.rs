//! Texts of limits, weights and watermarks, as the engine reads them.

#[path = "shared/texts.rs"]
mod texts;

use weir_engine::io_max::parse_io_max;
use weir_engine::{PerDimension, Watermark, WeightKey, parse_weight};

fn read(key: &str, text: &str) -> Option<String> {
    match key {
        "max" => parse_io_max(text, PerDimension::NONE).ok().map(|limits| limits.to_string()),
        "weight" | "bfq.weight" => {
            let key = WeightKey::ALL.into_iter().find(|of| of.key() == format!("io.{key}"));
            let line = parse_weight(key.unwrap(), text).ok().filter(|line| line.device.is_none());
            Some(line?.weight?.get().to_string())
        }
        _ => text.parse::<Watermark>().ok().map(|watermark| watermark.to_string()),
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

/// What the kernel refuses is refused, and what it takes for a number is the same number.
#[test]
fn a_refused_text_changes_nothing() {
    let old = parse_io_max("rbps=7 wiops=9", PerDimension::NONE).unwrap();
    for text in texts::of("max").filter(|text| text.means.is_none()) {
        let both = format!("riops=3 {}", text.text);
        assert!(parse_io_max(&both, old).is_err(), "{both}");
    }
}
