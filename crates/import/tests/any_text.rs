//! Arbitrary texts: an answer always comes back, and a server takes each configuration that does.

mod harness;

use proptest::prelude::*;
use weir_import::Format;

/// Words that texts are made of, so that random ones get past the parsers.
fn words() -> impl Strategy<Value = String> {
    let amount = prop_oneof![
        4 => "[0-9]{1,7}",
        1 => "[0-9]{1,25}",
        1 => "[0-9]{1,4}(\\.[0-9]{1,3})?[kKMGTPE]?i?[bB]?",
        1 => Just("infinity".to_owned()),
        1 => Just("max".to_owned()),
    ];
    let path = prop_oneof![
        6 => "/dev/sd[a-c]",
        1 => "[0-9]{1,3}:[0-9]{1,3}",
        1 => "/\\PC{0,6}",
        1 => Just("/any".to_owned()),
        1 => "[\"'\\\\ a:]{1,4}",
    ];
    let key = prop_oneof![
        "IO(Read|Write)(Bandwidth|IOPS)Max=",
        "(Block)?IO(Device)?Weight=",
        "(IODeviceLatencyTargetSec|StartupIOWeight|Slice|Id|ControlGroup)=",
        "--device-(read|write)-(bps|iops)[= ]",
        "--(name|blkio-weight|blkio-weight-device|blkio-x)[= ]",
        "[rw](bps|iops)=",
        "(/[a-c./]{1,3})?/io\\.(max|weight|bfq\\.weight|latency):",
        "<(total|read|write)_(bytes|iops)_sec(_max|_max_length)?>",
        "</(total|read|write)_(bytes|iops)_sec(_max|_max_length)?>",
        "</?(disk|iotune|blkiotune|device|weight|path|domain|name|group_name|size_iops_sec)>",
        "<(target|source) (dev|file)='[a-c/]{0,3}'/>",
        " {0,8}(services|a|blkio_config|device_(read|write)_(bps|iops)|weight|weight_device|<<):",
        " {0,8}- ?\\{?path: |, rate: |, weight: |\\}",
        "[&*]a|docker run|[Service]",
    ];
    let word = prop_oneof![
        6 => key,
        4 => amount,
        3 => path,
        3 => Just("\n".to_owned()),
        3 => Just(" ".to_owned()),
        1 => "\\PC{0,6}",
        1 => "[\x00-\x7f]{0,6}",
    ];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

/// A disk with any limits, so that bursts and peaks are tried.
fn disks() -> impl Strategy<Value = String> {
    let element = (
        "(total|read|write)_(bytes|iops)_sec(_max|_max_length)?|size_iops_sec",
        any::<u64>(),
        0u32..64,
    )
        .prop_map(|(name, value, shift)| format!("<{name}>{}</{name}>", value >> shift));
    let disk = (proptest::collection::vec(element, 0..12), "[a-c]{1,2}", proptest::option::of("[xy]"))
        .prop_map(|(limits, name, group)| {
            let group = group.map(|group| format!("<group_name>{group}</group_name>")).unwrap_or_default();
            format!(
                "<disk><source file='/{name}'/><target dev='{name}'/><iotune>{}{group}</iotune></disk>\n",
                limits.concat()
            )
        });
    proptest::collection::vec(disk, 1..5).prop_map(|disks| {
        format!("<domain><name>v</name><devices>{}</devices></domain>", disks.concat())
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in words()) {
        for format in Format::ALL {
            harness::any_text(format, &text);
        }
    }

    #[test]
    fn what_libvirt_says_is_valid_here(text in disks()) {
        prop_assert!(harness::any_text(Format::Libvirt, &text).is_some());
    }

    #[test]
    fn no_bytes_panic(text in "\\PC{0,200}|(?s-u:[\x00-\x7f]{0,200})") {
        harness::any_bytes(text.as_bytes());
    }
}

#[test]
fn a_flag_with_control_characters_is_printed_without_them() {
    assert_eq!(harness::any_text(Format::Docker, "docker run --blkio-wei\u{8}ht"), None);
}
