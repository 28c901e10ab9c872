//! Texts of settings and what they mean: one table for every place where settings are written.
//!
//! Each place (flags, configuration, control API, lab, scenario files) has a test that reads all of them there, so that a
//! text means the same everywhere, or is refused everywhere.

/// A text, and what it is read as.
pub(crate) struct Text {
    /// The setting's name without `io.`: `max`, `burst`, `weight`, `bfq.weight`, `limiter` or `watermark`.
    pub(crate) key: &'static str,
    /// As written, without a device.
    pub(crate) text: &'static str,
    /// The setting as it is read back; `None` where the text is refused.
    pub(crate) means: Option<&'static str>,
}

const fn read(key: &'static str, text: &'static str, means: &'static str) -> Text {
    Text { key, text, means: Some(means) }
}

const fn refused(key: &'static str, text: &'static str) -> Text {
    Text { key, text, means: None }
}

/// All of them.
pub(crate) const TEXTS: &[Text] = &[
    // Plain numbers are those of cgroup v2: bytes, and operations.
    read("max", "rbps=1048576", "rbps=1048576 wbps=max riops=max wiops=max"),
    read("max", "rbps=2097152 wiops=120", "rbps=2097152 wbps=max riops=max wiops=120"),
    read("max", "rbps=1 wbps=1 riops=1 wiops=1", "rbps=1 wbps=1 riops=1 wiops=1"),
    read("max", "riops=007", "rbps=max wbps=max riops=7 wiops=max"),
    // As in the kernel the last of a repeated key counts.
    read("max", "riops=5 riops=7", "rbps=max wbps=max riops=7 wiops=max"),
    read("max", "riops=5 rbps=9 riops=max", "rbps=9 wbps=max riops=max wiops=max"),
    // Units: bytes by 1024, operations by 1000.
    read("max", "rbps=10M", "rbps=10485760 wbps=max riops=max wiops=max"),
    read("max", "rbps=10m", "rbps=10485760 wbps=max riops=max wiops=max"),
    read("max", "rbps=1536MiB/s", "rbps=1610612736 wbps=max riops=max wiops=max"),
    read("max", "riops=10k wiops=2M", "rbps=max wbps=max riops=10000 wiops=2000000"),
    refused("max", "rbps=10MB"),
    refused("max", "rbps=10Mb"),
    refused("max", "rbps=10Mbit"),
    refused("max", "riops=10Ki"),
    refused("max", "rbps=1.5G"),
    refused("max", "rbps=1 GiB"),
    // The largest limits, and what is none any more.
    read("max", "riops=4294967294", "rbps=max wbps=max riops=4294967294 wiops=max"),
    refused("max", "riops=4294967295"),
    refused("max", "riops=4294967296"),
    refused("max", "riops=4295M"),
    refused("max", "rwiops=18446744073709551615"),
    read(
        "max",
        "rbps=18446744073709551614",
        "rbps=18446744073709551614 wbps=max riops=max wiops=max",
    ),
    refused("max", "rbps=18446744073709551615"),
    refused("max", "rbps=18446744073709551616"),
    refused("max", "rbps=18446744073710600192"),
    refused("max", "rbps=16E"),
    // Numbers as people write them elsewhere.
    refused("max", "rbps=1 000 000"),
    refused("max", "rbps=1_000_000"),
    refused("max", "rbps=1,000,000"),
    refused("max", "rbps=1.000.000"),
    refused("max", "rbps=1'000"),
    refused("max", "rbps=1e6"),
    refused("max", "rbps=0x100000"),
    refused("max", "rbps=+5"),
    refused("max", "rbps=-1"),
    refused("max", "rbps=0"),
    refused("max", "rbps=0K"),
    refused("max", "rbps="),
    refused("max", "rbps=MAX"),
    refused("max", "rbps=infinity"),
    refused("max", "rbps=unlimited"),
    refused("max", "RBPS=5"),
    refused("max", "rbps = 5"),
    refused("max", "rbps:5"),
    refused("max", "rbps=5,riops=7"),
    refused("max", "rbps=5;riops=7"),
    refused("max", "rbps=\u{0665}"),
    refused("max", "rbps=5\u{a0}riops=7"),
    refused("max", "max"),
    refused("max", "5M"),
    // Weights: the range and the spellings of cgroup v2.
    read("weight", "1", "1"),
    read("weight", "10000", "10000"),
    read("weight", "default 200", "200"),
    read("weight", "default   10000", "10000"),
    refused("weight", "0"),
    refused("weight", "10001"),
    refused("weight", "65636"),
    refused("weight", "4294967396"),
    refused("weight", "18446744073709551716"),
    refused("weight", "+5"),
    refused("weight", "-5"),
    refused("weight", "1.5"),
    refused("weight", "1k"),
    refused("weight", "50%"),
    refused("weight", "idle"),
    refused("weight", "default"),
    refused("weight", "default default"),
    refused("weight", "100 200 300"),
    refused("weight", ""),
    read("bfq.weight", "1000", "1000"),
    read("bfq.weight", "default 200", "200"),
    refused("bfq.weight", "1001"),
    refused("bfq.weight", "0"),
    // Limiters, as a read limiter is named.
    read("limiter", "pace", "pace"),
    read("limiter", "slice:6.12", "slice:K612"),
    read("limiter", "slice:k612,hz=1000,slice=20ms", "slice:K612,hz=1000,slice=20ms"),
    refused("limiter", "slice:99.99"),
    refused("limiter", "slice:4.21"),
    refused("limiter", "slice:6"),
    refused("limiter", "slice:K999"),
    refused("limiter", "slice:6.1,6.12"),
    refused("limiter", "slice:6.12,hz=100,hz=250"),
    refused("limiter", "slice:6.12,hz=1024"),
    refused("limiter", "slice:"),
    refused("limiter", "PACE"),
    refused("limiter", "pace,token"),
    // Watermarks.
    read("watermark", "90", "90"),
    read("watermark", "90 mode=gate", "90 mode=gate"),
    refused("watermark", "101"),
    refused("watermark", "346"),
    refused("watermark", "0.9"),
    refused("watermark", "+90"),
    refused("watermark", "-1"),
    refused("watermark", "90 mode=gate reserve=kept"),
];

/// The texts of one setting.
pub(crate) fn of(key: &str) -> impl Iterator<Item = &'static Text> {
    let texts: Vec<&Text> = TEXTS.iter().filter(|text| text.key == key).collect();
    assert!(!texts.is_empty(), "no texts of {key}");
    texts.into_iter()
}
