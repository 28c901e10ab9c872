//! Settings of BFQ as text: whatever is written is refused in few words or means something that reads back.

use proptest::prelude::*;
use weir_engine::settings::BfqSettings;
use weir_text::{BfqEdit, BfqKey, parse_bfq, print_bfq};

/// Values of which some key or other takes each, and some that none does.
fn value() -> impl Strategy<Value = String> {
    let words = [
        "0",
        "1",
        "2",
        "8",
        "32",
        "125",
        "1000",
        "off",
        "unlimited",
        "true",
        "false",
        "kernel",
        "intent",
        "weir",
        "kernel-before-2021",
        "600/180/600",
        "1/2/3",
        "180/600/200",
        "8ms",
        "1500us",
        "10s",
        "1h",
        "61min",
        "16M",
        "1GiB",
        "1TiB",
        "2TiB",
        "-1",
        "1.5",
        "",
        "=",
        "18446744073709551615",
        "18446744073709551616",
        "ms",
        "8 ms",
        "é",
        "1é",
    ];
    prop_oneof![
        3 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => ".{0,20}",
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(BfqKey::ALL.to_vec()).prop_map(|key| key.name().to_owned()),
        1 => "[a-z_]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_taken_reads_back(pairs in prop::collection::vec((key(), value()), 0..12)) {
        let mut edit = BfqEdit::new(BfqSettings::DEFAULT);
        for (key, value) in &pairs {
            if let Err(error) = edit.set(key, value) {
                // The longest has every setting in its hint, and of what was written the beginning.
                prop_assert!(error.to_string().len() < 400, "{error}");
                prop_assert!(error.hint().is_none_or(|hint| hint.len() < 400));
            }
        }
        if let Ok(settings) = edit.finish() {
            let text = print_bfq(&settings);
            for old in [BfqSettings::DEFAULT, settings] {
                prop_assert_eq!(parse_bfq(&text, old), Ok(settings), "{}", text);
            }
            let off = parse_bfq("stable=off", BfqSettings::DEFAULT).expect("it can be off");
            prop_assert_eq!(parse_bfq(&text, off), Ok(settings), "{}", text);
        }
    }

    #[test]
    fn any_text_is_read(text in ".{0,200}") {
        if let Err(error) = parse_bfq(&text, BfqSettings::DEFAULT) {
            prop_assert!(error.to_string().len() < 600, "{error}");
        }
    }
}
