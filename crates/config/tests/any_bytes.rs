//! Whatever the text, an answer comes back, its errors lie inside the text, and pictures can be drawn.

mod harness;

use proptest::prelude::*;
use weir_config::{Config, SingleExport};

/// Words that files are made of, so that random files get past the parser.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("[device.disk0]\n"),
        Just("[device.disk1]\n"),
        Just("[device]\n"),
        Just("[[device]]\n"),
        Just("[cgroup.\"/vm1\"]\n"),
        Just("[cgroup.\"/vm1/db\"]\n"),
        Just("[export.vm1]\n"),
        Just("[server]\n"),
        Just("path = \"memory:1M\"\n"),
        Just("path = \"emulated:null,rate=4M\"\n"),
        Just("path = \"/x\"\n"),
        Just("device = \"disk0\"\n"),
        Just("device.disk0.path = 'memory:1K'\n"),
        Just("cgroup = \"/vm1\"\n"),
        Just("\"io.max\" = \"disk0 rbps=4M riops=5\"\n"),
        Just("\"io.max\" = ['* rbps=4M', \"disk1 riops=\\u0035\"]\n"),
        Just("\"io.burst\" = '''any rbps=1M'''\n"),
        Just("\"io.peak\" = \"disk0 riops=9\"\n"),
        Just("\"io.weight\" = 0x10\n"),
        Just("\"io.limiter\" = \"slice:5.15,hz=100\"\n"),
        Just("range = \"1..\"\n"),
        Just("block_size = \"min=512 preferred=4096 max=32M\"\n"),
        Just("rotational = \"auto\"\n"),
        Just("listen = \"127.0.0.1:1\"\n"),
        Just("removed = true\n"),
        Just("replaces = true\n"),
        Just("\"io.watermark\" = \"inherit\"\n"),
        Just("depth = "),
        Just("= "),
        Just("{ ios = 1 }\n"),
        Just("\"\n"),
        Just("\u{e4}\u{1f4be}"),
        Just("\r\n"),
        Just("\u{feff}"),
    ];
    proptest::collection::vec(
        prop_oneof![8 => word.prop_map(String::from), 1 => "block_size = \"(min|max|preferred)=\\PC{0,6} [a-z]{0,4}=?[0-9]{0,12}[kKMGT]?\"\n", 1 => "\\PC{0,8}", 1 => "[\x00-\x7f]{0,8}"],
        0..24,
    )
    .prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn no_file_panics(text in words()) {
        if let Err(errors) = Config::from_str("weir.toml", &text) {
            prop_assert!(!errors.errors().is_empty());
            for error in errors.errors() {
                let lines = text.lines().count() + 1;
                prop_assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)));
                prop_assert!(!error.to_string().contains(char::is_control));
                let hint = error.hint.as_deref().unwrap_or_default();
                prop_assert!(!hint.is_empty(), "nothing is suggested for {error}");
                prop_assert!(!hint.contains(char::is_control), "{hint:?}");
            }
            let plain = errors.render(false);
            prop_assert!(!plain.chars().any(|c| c.is_control() && c != '\n'), "{plain:?}");
            prop_assert!(errors.render(true).len() >= plain.len());
        }
    }

    #[test]
    fn no_files_over_each_other_panic(texts in proptest::collection::vec(words(), 1..4)) {
        harness::any_texts(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    }

    /// Each may be cut anywhere, as by a disk that was full.
    #[test]
    fn no_half_of_a_file_panics(at in any::<prop::sample::Index>(), over in words()) {
        let whole = include_str!("../examples/weir.toml");
        let half = String::from_utf8_lossy(&whole.as_bytes()[..at.index(whole.len())]);
        harness::any_texts(&[whole, &half, &over]);
        harness::any_texts(&[&half, &over]);
    }

    #[test]
    fn no_bytes_panic(text in "\\PC{0,200}|(?s-u:[\x00-\x7f]{0,200})") {
        harness::any_bytes(text.as_bytes());
    }

    #[test]
    fn no_flag_panics(values in proptest::collection::vec(proptest::option::of("\\PC{0,30}|[rw]?(bps|iops)=[0-9]{1,25}[kKMGB]{0,2}"), 7)) {
        let mut values = values.into_iter();
        let mut next = || values.next().flatten();
        let single = SingleExport {
            image: next().map_or("memory:1M".into(), |text| format!("emulated:{text}")),
            max: next(),
            burst: next(),
            peak: next(),
            weight: next(),
            limiter: next(),
            listen: next().into_iter().collect(),
            ..SingleExport::default()
        };
        if let Err(errors) = Config::single(&single) {
            for error in errors.errors() {
                prop_assert!(error.hint.is_some(), "nothing is suggested for {error}");
            }
            let _ = errors.render(true);
        }
    }
}

/// A file of another kind: an error for each word, a hundred of which are kept.
#[test]
fn many_errors_are_counted_not_kept() {
    let text: String = (0..5_000).map(|index| format!("key{index} = 1\n")).collect();
    let errors = Config::from_str("weir.toml", &text).unwrap_err();
    assert_eq!((errors.errors().len(), errors.more()), (100, 4_900));
    assert!(errors.to_string().ends_with("and 4900 more"));

    let errors = Config::from_str("weir.toml", &"= ".repeat(5_000)).unwrap_err();
    assert!(errors.errors().len() <= 100);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    for text in [
        "[".repeat(100_000),
        "a = ".to_owned() + &"[".repeat(100_000),
        "a.".repeat(100_000),
        "a={".repeat(100_000),
    ] {
        assert!(Config::from_str("weir.toml", &text).is_err());
    }
}

/// Each path of 64 names makes 64 cgroups, listed or not.
#[test]
fn implied_cgroups_count() {
    let below = "/x".repeat(63);
    let text: String = (0..15_700).map(|index| format!("[cgroup.\"/{index}{below}\"]\n")).collect();
    let text = "[device.d]\npath = \"memory:1M\"\n".to_owned() + &text;
    let errors = Config::from_str("weir.toml", &text).unwrap_err();
    let message = &errors.errors()[0].message;
    assert!(message.starts_with("1004800 cgroups, with those above"), "{message}");
}

/// Such a file would take gigabytes once parsed.
#[test]
fn a_file_that_unfolds_too_far_is_not_parsed() {
    let text = format!("[x{}]\n", ".a".repeat(2_000_000));
    let errors = Config::from_str("weir.toml", &text).unwrap_err();
    let expected = "the file has more than 2000000 tables, arrays and elements";
    assert_eq!(errors.errors()[0].message, expected);
}
