//! Model file of a device: written by `weir calibrate`, and named by a device's `model`.

use std::fmt::Write as _;
use std::path::Path;

use weir_disk::{LinearSpec, Spec};
use weir_engine::utilisation::Capacity;
use weir_units::{Bytes, BytesPerSec, IosPerSec, Nanos};

use crate::error::ConfigErrors;
use crate::load;
use crate::report::Report;
use crate::source::Text;
use crate::table::Section;
use crate::value;

/// A device as `weir calibrate` has measured it, in the figures of the linear model; a disk of that model does the same.
///
/// As a file: TOML with the keys of such a disk's line, `rbps`, `rseqiops`, `rrandiops` and `size`; `wbps`, `wseqiops`
/// and `wrandiops` where writes were measured; `latency` and `streams` where they are not 0 and 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceModel {
    /// The figures; where writes were not measured, those of reads.
    pub spec: LinearSpec,
    /// Whether writes were measured.
    pub has_writes: bool,
}

const KEYS: [&str; 9] = [
    "size",
    "rbps",
    "rseqiops",
    "rrandiops",
    "wbps",
    "wseqiops",
    "wrandiops",
    "latency",
    "streams",
];

const SIZE_MIN: u64 = 1 << 20;
const SIZE_MAX: u64 = 1 << 50;
const BPS_MIN: u64 = 4096;
const BPS_MAX: u64 = 1 << 40;
const IOPS_MAX: u64 = 1_000_000_000;
const LATENCY_NS_MAX: u64 = 60_000_000_000;
const STREAMS_MAX: u32 = 64;

impl DeviceModel {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn from_file(path: &Path) -> Result<DeviceModel, ConfigErrors> {
        load::file(path, read)
    }

    /// Reads `text`; errors call it `name`.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn from_str(name: &str, text: &str) -> Result<DeviceModel, ConfigErrors> {
        load::load(name, text, read)
    }

    /// A disk that does the same: one of the linear model, with these figures.
    pub fn disk(&self) -> Spec {
        // Any of its drives will do: all that it is made of is replaced, and the settings are printed behind its name.
        Spec::Linear { model: "linear-hdd", spec: self.spec }
    }

    /// Capacity for the engine.
    pub fn capacity(&self) -> Capacity {
        let costs = self.spec.costs();
        // At most 64.
        Capacity { costs, streams: self.spec.streams as u8 }
    }

    /// The file's text, which [`DeviceModel::from_str`] reads back; `about` becomes comments at its beginning.
    pub fn to_toml(&self, about: &str) -> String {
        let mut text = String::new();
        let mut say = |key: &str, value: u64| {
            writeln!(text, "{key} = {value}").expect("a string takes all");
        };
        let spec = &self.spec;
        say("size", spec.size);
        say("rbps", spec.read_bps);
        say("rseqiops", spec.read_seq_iops);
        say("rrandiops", spec.read_rand_iops);
        if self.has_writes {
            say("wbps", spec.write_bps);
            say("wseqiops", spec.write_seq_iops);
            say("wrandiops", spec.write_rand_iops);
        }
        if spec.streams != 1 {
            say("streams", spec.streams);
        }
        if spec.latency_ns > 0 {
            writeln!(text, "latency = \"{}\"", Nanos(spec.latency_ns)).expect("a string takes all");
        }
        let about = about.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n");
        about.collect::<String>() + &text
    }
}

fn read(root: &Section<'_>, report: &mut Report) -> Option<DeviceModel> {
    root.allow(&KEYS, report);
    let reads = figures(root, ["rbps", "rseqiops", "rrandiops"], report);
    let is_any = |names: [&str; 3]| names.into_iter().any(|name| root.get(name).is_some());
    let written = ["wbps", "wseqiops", "wrandiops"];
    // All or none: a figure that was forgotten should not become that of reads.
    let has_writes = is_any(written);
    let writes = if has_writes { figures(root, written, report) } else { reads };
    let size = root.need("size", "500107862016", report);
    let size = size.and_then(|entry| entry.amount(report)).and_then(|text| {
        let size = value::size(&text, SIZE_MIN, SIZE_MAX, report)?;
        if size.is_multiple_of(512) {
            return Some(size);
        }
        let hint = format!("write \"{}\"", size - size % 512);
        report.refuse(&text, format!("{} is no multiple of 512", Bytes(size)), Some(hint));
        None
    });
    let latency = root.text("latency", report).map(|text| {
        let Nanos(latency) = value::quantity(&text, report)?;
        if latency > LATENCY_NS_MAX {
            let hint = "write it with its unit, such as \"90us\"".to_owned();
            report.refuse(&text, "a latency is at most 60 s", Some(hint));
        }
        Some(latency)
    });
    let streams = root.number("streams", 1, STREAMS_MAX, report).unwrap_or(1);
    let (reads, writes) = (reads?, writes?);
    let spec = LinearSpec {
        size: size?,
        read_bps: reads[0],
        read_seq_iops: reads[1],
        read_rand_iops: reads[2],
        write_bps: writes[0],
        write_seq_iops: writes[1],
        write_rand_iops: writes[2],
        latency_ns: latency.unwrap_or(Some(0))?,
        streams: streams.into(),
    };
    Some(DeviceModel { spec, has_writes })
}

/// Bytes a second, and sequential and random requests of 4 KiB a second.
fn figures(root: &Section<'_>, names: [&str; 3], report: &mut Report) -> Option<[u64; 3]> {
    let [bytes, sequential, random] = names;
    let bytes = figure(root, bytes, "520000000", report, |text, report| {
        let BytesPerSec(rate) = value::quantity(text, report)?;
        Some((rate, (BPS_MIN..=BPS_MAX).contains(&rate), "4 KiB/s and 1 TiB/s"))
    });
    let mut iops = |name| {
        figure(root, name, "90000", report, |text, report| {
            let IosPerSec(rate) = value::quantity(text, report)?;
            Some((rate, (1..=IOPS_MAX).contains(&rate), "1 and 1G"))
        })
    };
    let (sequential, random) = (iops(sequential), iops(random));
    Some([bytes?, sequential?, random?])
}

/// A required figure; `parse` returns it, whether it is allowed, and its range.
fn figure(
    root: &Section<'_>,
    name: &str,
    example: &str,
    report: &mut Report,
    parse: impl FnOnce(&Text, &mut Report) -> Option<(u64, bool, &'static str)>,
) -> Option<u64> {
    let text = root.need(name, example, report)?.amount(report)?;
    let (value, is_allowed, range) = parse(&text, report)?;
    if !is_allowed {
        let hint = format!("for example `{name} = {example}`");
        let message = format!("{} is not between {range}", value::cut(&text.value));
        report.refuse(&text, message, Some(hint));
    }
    is_allowed.then_some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let errors = DeviceModel::from_str("sda.model.toml", text).unwrap_err();
        errors.errors().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_model_without_writes_writes_as_it_reads() {
        let text = "size = 1073741824\nrbps = \"500M\"\nrseqiops = \"100k\"\nrrandiops = 90000\n";
        let model = DeviceModel::from_str("x", text).unwrap();
        assert!(!model.has_writes);
        let LinearSpec { write_bps, write_seq_iops, write_rand_iops, streams, latency_ns, .. } =
            model.spec;
        assert_eq!((write_bps, write_seq_iops, write_rand_iops), (500 << 20, 100_000, 90_000));
        assert_eq!((streams, latency_ns), (1, 0));
        let text = model.to_toml("Measured by hand.\n\nTwice.");
        assert_eq!(model.disk().to_string().parse(), Ok(model.disk()));
        assert!(text.starts_with("# Measured by hand.\n#\n# Twice.\nsize = "), "{text}");
        assert!(!text.contains("wbps") && !text.contains("streams"), "{text}");
    }

    #[test]
    fn all_mistakes_of_a_model_file_are_reported_at_once() {
        let text = "size = 1000\nrbps = 1\nrseqiops = 0\nwbps = \"4MB\"\nlatency = \"2min\"\nstreams = 65\nx = 1";
        let missing =
            |key: &str| format!("1:1: the key `{key}` is missing (for example `{key} = 90000`)");
        let wanted = [
            missing("rrandiops"),
            missing("wseqiops"),
            missing("wrandiops"),
            "1:8: size: 1000 B is not between 1 MiB and 1 PiB (write \"1 MiB\")".into(),
            "2:8: rbps: 1 is not between 4 KiB/s and 1 TiB/s (for example `rbps = 520000000`)".into(),
            "3:12: rseqiops: 0 is not between 1 and 1G (for example `rseqiops = 90000`)".into(),
            "4:9: wbps: \"4MB\" is ambiguous (write \"4MiB\" for 4 x 1024^2, or \"4000000\" for 4 x 10^6 bytes)"
                .into(),
            "5:12: latency: a latency is at most 60 s (write it with its unit, such as \"90us\")".into(),
            "6:11: streams: 65 is not between 1 and 64 (write `streams = 64`)".into(),
        ];
        let seen = messages(text);
        let seen: Vec<&str> =
            seen.iter().map(|message| message.strip_prefix("sda.model.toml:").unwrap()).collect();
        assert_eq!(seen[..9], wanted);
        assert!(seen.len() == 10 && seen[9].starts_with("7:1: x: unknown key"), "{seen:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_written_model_reads_back(
            (sectors, streams, has_writes) in (1u64 << 11..1 << 41, 1..=64u64, any::<bool>()),
            bps in prop::array::uniform2(4096..=1u64 << 40),
            iops in prop::array::uniform4(1..=1_000_000_000u64),
            latency_ns in 0..=60_000_000_000u64,
        ) {
            let spec = LinearSpec {
                size: sectors * 512,
                read_bps: bps[0],
                read_seq_iops: iops[0],
                read_rand_iops: iops[1],
                write_bps: bps[usize::from(has_writes)],
                write_seq_iops: iops[if has_writes { 2 } else { 0 }],
                write_rand_iops: iops[if has_writes { 3 } else { 1 }],
                latency_ns,
                streams,
            };
            let model = DeviceModel { spec, has_writes };
            prop_assert_eq!(DeviceModel::from_str("x", &model.to_toml("y")).unwrap(), model);
        }

        #[test]
        fn any_text_is_a_model_or_refused(text in "\\PC*|([a-z]{1,9} = [0-9a-zA-Z\"]{0,9}\n)*") {
            if let Ok(model) = DeviceModel::from_str("x", &text) {
                prop_assert!((1..=64).contains(&model.capacity().streams));
            }
        }
    }
}
