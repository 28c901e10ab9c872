//! Structured values: patterns, splits, zones, distributions, engines.

use std::sync::Arc;
use std::time::Duration;

use super::error::ValueError;
use super::value::{KbBase, amount, bytes, directions, float, integer, percentage, small, word};
use super::workload::{
    Amount, FileService, IoEngine, Mix, Order, Pattern, PerDirection, PrioClass,
    RandomDistribution, ReplaySkip, Split, SteadyRate, SteadyState, Zone,
};

/// Sizes of one `bssplit`, and zones of one direction. fio's bounds are 64 and 256.
const SPLITS_MAX: usize = 64;
const ZONES_MAX: usize = 256;

pub(super) fn positive(value: u64) -> Option<u64> {
    Some(value).filter(|value| *value > 0)
}

pub(super) fn not_zero(value: Duration) -> Option<Duration> {
    Some(value).filter(|value| !value.is_zero())
}

/// A length that may not be 0.
pub(super) fn block(text: &str, base: KbBase) -> Result<u64, ValueError> {
    integer(text, base, 1, u64::MAX)
}

/// 0 is "not given", as in fio.
pub(super) fn amount_or_none(text: &str, base: KbBase) -> Result<Option<Amount>, ValueError> {
    Ok(Some(amount(text, base)?).filter(|amount| *amount != Amount::Bytes(0)))
}

/// `mode` or `mode:N`.
pub(super) fn pattern(text: &str, base: KbBase) -> Result<Pattern, ValueError> {
    let (mode, modifier) = match text.split_once(':') {
        Some((mode, modifier)) => (mode, Some(modifier)),
        None => (text, None),
    };
    let (mix, random) = word(
        mode,
        &[
            ("read", (Mix::Read, false)),
            ("write", (Mix::Write, false)),
            ("trim", (Mix::Trim, false)),
            ("rw", (Mix::ReadWrite, false)),
            ("readwrite", (Mix::ReadWrite, false)),
            ("trimwrite", (Mix::TrimWrite, false)),
            ("randread", (Mix::Read, true)),
            ("randwrite", (Mix::Write, true)),
            ("randtrim", (Mix::Trim, true)),
            ("randrw", (Mix::ReadWrite, true)),
            ("randtrimwrite", (Mix::TrimWrite, true)),
        ],
    )?;
    let order = if random {
        let requests = modifier.map_or(Ok(1), |text| small(text, base, 0, u32::MAX))?;
        Order::Random { requests_per_offset: requests.max(1) }
    } else {
        Order::Sequential { skip: modifier.map_or(Ok(0), |text| signed(text, base))? }
    };
    Ok(Pattern { mix, order })
}

/// `iops:2`, `bw:64k`, `bw_slope:0.1%`.
pub(super) fn steady_state(text: &str, base: KbBase) -> Result<SteadyState, ValueError> {
    let (criterion, limit) = text.split_once(':').unwrap_or((text, ""));
    let (of, by_slope) = word(
        criterion,
        &[
            ("iops", (SteadyRate::Iops, false)),
            ("iops_slope", (SteadyRate::Iops, true)),
            ("bw", (SteadyRate::Bandwidth, false)),
            ("bw_slope", (SteadyRate::Bandwidth, true)),
        ],
    )?;
    if limit.is_empty() {
        return Err(ValueError::NoLimit { criterion: criterion.into() });
    }
    let (limit, in_percent) = match (limit.strip_suffix('%'), of) {
        (Some(percent), _) => (float(percent, 0, u64::MAX)?, true),
        (None, SteadyRate::Iops) => (float(limit, 0, u64::MAX)?, false),
        (None, SteadyRate::Bandwidth) => (bytes(limit, base)? as f64, false),
    };
    Ok(SteadyState { of, by_slope, limit, in_percent })
}

pub(super) fn signed(text: &str, base: KbBase) -> Result<i64, ValueError> {
    let (sign, size) = match text.strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, text),
    };
    let size = integer(size, base, 0, i64::MAX as u64)?;
    Ok(sign * i64::try_from(size).expect("the largest allowed fits"))
}

pub(super) fn file_service(text: &str, base: KbBase) -> Result<(FileService, u32), ValueError> {
    let (service, requests) = text.split_once(':').unwrap_or((text, "1"));
    let service = match service {
        "zipf" | "pareto" | "normal" | "gauss" => {
            return Err(ValueError::NotSimulated {
                text: text.into(),
                reason: "files are chosen in turn, one by one or alike",
            });
        }
        _ => word(
            service,
            &[
                ("roundrobin", FileService::RoundRobin),
                ("sequential", FileService::Sequential),
                ("random", FileService::Random),
            ],
        )?,
    };
    Ok((service, small(requests, base, 1, u32::MAX)?))
}

/// `size/percent:size/percent:...`; sizes without a percentage share what is left.
pub(super) fn splits(text: &str, base: KbBase) -> Result<Arc<[Split]>, ValueError> {
    let entries = shares(text, SPLITS_MAX)?;
    let parsed = entries
        .iter()
        .map(|(size, percent)| {
            let percent = percent.map(|percent| percentage(percent, 0)).transpose()?;
            Ok((block(size, base)?, percent))
        })
        .collect::<Result<Vec<_>, ValueError>>()?;
    let filled = fill(&parsed)?;
    Ok(filled.into_iter().map(|(bytes, percent)| Split { bytes, percent }).collect())
}

pub(super) fn zone_mode(text: &str) -> Result<bool, ValueError> {
    match word(text, &[("none", Some(false)), ("strided", Some(true)), ("zbd", None)])? {
        Some(is_strided) => Ok(is_strided),
        None => Err(ValueError::NotSimulated {
            text: text.into(),
            reason: "zoned devices are not among the disks",
        }),
    }
}

/// `percent/length:percent/length:...`; parts without a length share what is left of the file.
pub(super) fn zones(text: &str, base: KbBase, absolute: bool) -> Result<Arc<[Zone]>, ValueError> {
    let entries = shares(text, ZONES_MAX)?;
    let mut zones = Vec::with_capacity(entries.len());
    let mut accesses = 0;
    let mut lengths = Vec::with_capacity(entries.len());
    for (access, length) in &entries {
        let access_percent = percentage(access, 0)?;
        accesses += u64::from(access_percent);
        if absolute {
            let length = block(length.ok_or(ValueError::Missing)?, base)?;
            zones.push(Zone { access_percent, length });
        } else {
            let length = length.map(|length| percentage(length, 0)).transpose()?;
            lengths.push((access_percent, length));
        }
    }
    if accesses != 100 {
        return Err(ValueError::Accesses { sum: accesses });
    }
    let filled = fill(&lengths)?.into_iter();
    zones.extend(
        filled.map(|(access_percent, length)| Zone { access_percent, length: length.into() }),
    );
    Ok(zones.into())
}

/// Splits `a/b:c/d:e`; an empty second is none.
pub(super) fn shares(text: &str, max: usize) -> Result<Vec<(&str, Option<&str>)>, ValueError> {
    let count = text.split(':').count();
    if count > max {
        return Err(ValueError::TooManyEntries { count, max });
    }
    Ok(text
        .split(':')
        .map(|entry| match entry.split_once('/') {
            Some((first, second)) => (first, Some(second).filter(|second| !second.is_empty())),
            None => (entry, None),
        })
        .collect())
}

/// Gives entries without a percentage equal parts of what is left of 100, rounded down; the sum of all may not pass
/// 100.
pub(super) fn fill<T: Copy>(entries: &[(T, Option<u8>)]) -> Result<Vec<(T, u8)>, ValueError> {
    let sum: u64 = entries.iter().filter_map(|(_, percent)| *percent).map(u64::from).sum();
    let left = 100_u64.checked_sub(sum).ok_or(ValueError::Percentages { sum })?;
    let blanks = entries.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
    let each = left.checked_div(blanks).unwrap_or(0) as u8;
    Ok(entries.iter().map(|(value, percent)| (*value, percent.unwrap_or(each))).collect())
}

pub(super) fn distribution(text: &str, base: KbBase) -> Result<RandomDistribution, ValueError> {
    let (kind, rest) = match text.split_once(':') {
        Some((kind, rest)) => (kind, Some(rest)),
        None => (text, None),
    };
    // Two numbers at most: the distribution's own, and its centre.
    let numbers = |min, max| -> Result<(Option<f64>, Option<f64>), ValueError> {
        let Some(rest) = rest else { return Ok((None, None)) };
        let (first, center) = match rest.split_once(':') {
            Some((first, center)) => (first, Some(center)),
            None => (rest, None),
        };
        Ok((Some(float(first, min, max)?), center.map(|center| float(center, 0, 1)).transpose()?))
    };
    match kind {
        "zipf" => {
            let (theta, center) = numbers(0, 1000)?;
            let theta = theta.unwrap_or(1.1);
            if theta == 1.0 {
                return Err(ValueError::ZipfOne);
            }
            Ok(RandomDistribution::Zipf { theta, center })
        }
        "pareto" => {
            let (power, center) = numbers(0, 1)?;
            let power = power.unwrap_or(0.2);
            if power <= 0.0 || power >= 1.0 {
                return Err(ValueError::ParetoPower);
            }
            Ok(RandomDistribution::Pareto { power, center })
        }
        "normal" => {
            let (deviation, center) = numbers(0, 100)?;
            Ok(RandomDistribution::Normal {
                deviation: deviation.unwrap_or(0.0),
                center: center.unwrap_or(0.5),
            })
        }
        "zoned" | "zoned_abs" => {
            let absolute = kind == "zoned_abs";
            let mut parts = PerDirection::all(Arc::from([]));
            let rest = rest.ok_or(ValueError::Missing)?;
            directions(rest, &mut parts, |text| zones(text, base, absolute))?;
            Ok(if absolute {
                RandomDistribution::ZonedAbsolute(parts)
            } else {
                RandomDistribution::Zoned(parts)
            })
        }
        _ => word(
            kind,
            &[
                ("random", ()),
                ("zipf", ()),
                ("pareto", ()),
                ("normal", ()),
                ("zoned", ()),
                ("zoned_abs", ()),
            ],
        )
        .map(|()| RandomDistribution::Random),
    }
}

const NO_STORAGE: &[&str] = &[
    "cpuio",
    "page_fault",
    "net",
    "netsplice",
    "rdma",
    "exec",
    "ftruncate",
    "filecreate",
    "fileoperations",
    "filestat",
    "filedelete",
    "filexattr",
    "dircreate",
    "dirstat",
    "dirdelete",
    "falloc",
    "e4defrag",
];

/// Engines of libraries and drivers in user space, and whether they wait for each request.
const USERSPACE: &[(&str, bool)] = &[
    ("dfs", false),
    ("gfapi", true),
    ("gfapi_async", false),
    ("ime_aio", false),
    ("ime_psync", true),
    ("ime_psyncv", true),
    ("io_uring_cmd", false),
    ("libblkio", false),
    ("libcufile", true),
    ("libhipfile", true),
    ("libiscsi", false),
    ("nfs", false),
    ("rados", false),
    ("rbd", false),
    ("spdk", false),
    ("spdk_bdev", false),
    ("xnvme", false),
];

const NO_BLOCKS: &[&str] = &["dev-dax", "http", "libhdfs", "libpmem", "libzbc", "mtd", "pmemblk"];

const OTHER_SYSTEMS: &[&str] = &["guasi", "solarisaio", "windowsaio"];

pub(super) fn engine(text: &str) -> Result<IoEngine, ValueError> {
    let not_simulated = |reason| Err(ValueError::NotSimulated { text: text.into(), reason });
    if NO_STORAGE.contains(&text) {
        return not_simulated("the engine asks no disk for anything");
    }
    if NO_BLOCKS.contains(&text) {
        return not_simulated(
            "it asks for no blocks of a disk; ioengine=nbd makes the same requests, past the page cache",
        );
    }
    if OTHER_SYSTEMS.contains(&text) {
        return not_simulated(
            "it is not for Linux; there ioengine=io_uring or libaio does the same",
        );
    }
    // SPDK's own plugins are named by their files: external:/opt/spdk/build/fio/spdk_nvme.
    let plugin = text.strip_prefix("external:").map(|path| path.rsplit('/').next());
    let known = match plugin.flatten() {
        Some(file) if file.starts_with("spdk_") => "spdk",
        Some(_) => {
            return not_simulated(
                "an external engine is not known here; ioengine=nbd makes the same requests, past the page cache",
            );
        }
        None => text,
    };
    if let Some(&(name, is_synchronous)) = USERSPACE.iter().find(|(name, _)| *name == known) {
        return Ok(IoEngine::Userspace { name, is_synchronous });
    }
    word(
        text,
        &[
            ("sync", IoEngine::Sync),
            ("psync", IoEngine::Psync),
            ("vsync", IoEngine::Vsync),
            ("pvsync", IoEngine::Pvsync),
            ("pvsync2", IoEngine::Pvsync2),
            ("mmap", IoEngine::Mmap),
            ("splice", IoEngine::Splice),
            ("libaio", IoEngine::Libaio),
            ("linuxaio", IoEngine::Libaio),
            ("posixaio", IoEngine::Posixaio),
            ("io_uring", IoEngine::IoUring),
            ("sg", IoEngine::Sg),
            ("nbd", IoEngine::Nbd),
            ("null", IoEngine::Null),
        ],
    )
}

pub(super) fn priority_class(text: &str) -> Result<PrioClass, ValueError> {
    Ok(match small(text, KbBase::Binary, 0, 3)? {
        0 => PrioClass::None,
        1 => PrioClass::RealTime,
        2 => PrioClass::BestEffort,
        _ => PrioClass::Idle,
    })
}

pub(super) fn power_of_two(text: &str, base: KbBase) -> Result<Option<u64>, ValueError> {
    let value = positive(bytes(text, base)?);
    match value {
        Some(value) if !value.is_power_of_two() => Err(ValueError::NotPowerOfTwo { value }),
        _ => Ok(value),
    }
}

pub(super) fn replay_skip(text: &str) -> Result<ReplaySkip, ValueError> {
    let mut skip = ReplaySkip::default();
    for part in text.split(',') {
        let field: fn(&mut ReplaySkip) -> &mut bool = word(
            part.trim_ascii(),
            &[
                ("read", (|skip| &mut skip.read) as fn(&mut ReplaySkip) -> &mut bool),
                ("write", |skip| &mut skip.write),
                ("trim", |skip| &mut skip.trim),
                ("sync", |skip| &mut skip.sync),
            ],
        )?;
        *field(&mut skip) = true;
    }
    Ok(skip)
}

/// The method's name; None for fio's three ways to say "do not".
pub(super) fn verify(text: &str) -> Result<Option<Arc<str>>, ValueError> {
    let method = text.split_once(':').map_or(text, |(method, _)| method);
    word(
        method,
        &[
            ("0", ()),
            ("none", ()),
            ("1", ()),
            ("md5", ()),
            ("crc64", ()),
            ("crc32c", ()),
            ("crc32c-intel", ()),
            ("crc32", ()),
            ("crc16", ()),
            ("crc7", ()),
            ("sha1", ()),
            ("sha256", ()),
            ("sha512", ()),
            ("sha3-224", ()),
            ("sha3-256", ()),
            ("sha3-384", ()),
            ("sha3-512", ()),
            ("xxhash", ()),
            ("meta", ()),
            ("pattern", ()),
            ("pattern_hdr", ()),
            ("null", ()),
        ],
    )?;
    Ok(Some(method).filter(|method| !matches!(*method, "0" | "none")).map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Result<Vec<(u64, u8)>, String> {
        splits(text, KbBase::Binary)
            .map(|splits| splits.iter().map(|split| (split.bytes, split.percent)).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn splits_share_what_is_left_of_100_percent() {
        assert_eq!(split("4k/10:64k/50:32k/40"), Ok(vec![(4096, 10), (65536, 50), (32768, 40)]));
        assert_eq!(split("4k/50:1k/:32k/"), Ok(vec![(4096, 50), (1024, 25), (32768, 25)]));
        assert_eq!(split("4k:8k"), Ok(vec![(4096, 50), (8192, 50)]));
        assert_eq!(split("4k/50:8k/40"), Ok(vec![(4096, 50), (8192, 40)]));
        for (text, error) in [
            ("4k/60:8k/60", "the percentages add up to 120: at most 100 are allowed"),
            ("0/100", "0 is outside 1 to 18446744073709551615"),
            ("4k/101", "101 is outside 0 to 100"),
            ("4k/50:", "\"\" is not a number"),
        ] {
            assert_eq!(split(text), Err(error.into()), "{text}");
        }
        let many = vec!["4k"; 65].join(":");
        assert_eq!(split(&many), Err("65 entries: at most 64 are allowed".into()));
    }

    #[test]
    fn patterns_are_read_as_in_fio() {
        let sequential = |mix, skip| Ok(Pattern { mix, order: Order::Sequential { skip } });
        let random = |mix, requests_per_offset| {
            Ok(Pattern { mix, order: Order::Random { requests_per_offset } })
        };
        for (text, expected) in [
            ("read", sequential(Mix::Read, 0)),
            ("write:4k", sequential(Mix::Write, 4096)),
            ("rw:-8k", sequential(Mix::ReadWrite, -8192)),
            ("readwrite", sequential(Mix::ReadWrite, 0)),
            ("trim", sequential(Mix::Trim, 0)),
            ("trimwrite", sequential(Mix::TrimWrite, 0)),
            ("randread:8", random(Mix::Read, 8)),
            ("randwrite:0", random(Mix::Write, 1)),
            ("randrw", random(Mix::ReadWrite, 1)),
            ("randtrim", random(Mix::Trim, 1)),
            ("randtrimwrite", random(Mix::TrimWrite, 1)),
        ] {
            assert_eq!(pattern(text, KbBase::Binary), expected, "{text}");
        }
        assert!(matches!(
            pattern("randraed", KbBase::Binary),
            Err(ValueError::NotOneOf { nearest: Some("randread"), .. })
        ));
        assert!(pattern("randread:", KbBase::Binary).is_err());
        assert!(pattern("READ", KbBase::Binary).is_err());
    }

    #[test]
    fn steady_states_are_read_as_in_fio() {
        for text in ["iops:2", "iops:0.2%", "iops_slope:0.1%", "bw:1048576", "bw_slope:3.5%"] {
            assert_eq!(steady_state(text, KbBase::Binary).unwrap().to_string(), text);
        }
        for (text, error) in [
            ("iops", "it needs a limit: iops:2, or iops:0.5% for one in percent of the mean"),
            ("bw:", "it needs a limit: bw:2, or bw:0.5% for one in percent of the mean"),
            ("iops:%", "\"\" is not a number"),
            ("iops:-1", "-1 is outside 0 to 18446744073709551615"),
            ("bw:0.5", "\"0.5\" is not a whole number: write it in a smaller unit"),
            ("bw:inf%", "\"inf\" is not a number"),
        ] {
            let got = steady_state(text, KbBase::Binary).map_err(|error| error.to_string());
            assert_eq!(got, Err(error.into()), "{text}");
        }
        assert_eq!(steady_state("bw:64k", KbBase::Binary).unwrap().limit, 65536.0);
        let nearest = steady_state("iops_slop:1", KbBase::Binary);
        assert!(matches!(nearest, Err(ValueError::NotOneOf { nearest: Some("iops_slope"), .. })));
    }

    #[test]
    fn distributions_are_read_as_in_fio() {
        use RandomDistribution as R;
        for (text, expected) in [
            ("random", R::Random),
            ("zipf", R::Zipf { theta: 1.1, center: None }),
            ("zipf:1.2:0.25", R::Zipf { theta: 1.2, center: Some(0.25) }),
            ("pareto", R::Pareto { power: 0.2, center: None }),
            ("normal:20", R::Normal { deviation: 20.0, center: 0.5 }),
        ] {
            assert_eq!(distribution(text, KbBase::Binary), Ok(expected), "{text}");
        }
        for (text, error) in [
            ("zipf:1.0", "zipf needs a theta other than 1"),
            ("zipf:nan", "\"nan\" is not a number"),
            ("pareto:1", "pareto needs a power above 0 and below 1"),
            ("normal:200", "200 is outside 0 to 100"),
            ("zoned", "it needs a value"),
            ("zoned:50/50:30/50", "the shares of the requests add up to 80, not to 100"),
            ("zoned:50/60:50/60", "the percentages add up to 120: at most 100 are allowed"),
            ("zoned_abs:100/", "it needs a value"),
        ] {
            let got = distribution(text, KbBase::Binary).map_err(|error| error.to_string());
            assert_eq!(got, Err(error.into()), "{text}");
        }
        let zone = |access_percent, length| Zone { access_percent, length };
        let R::Zoned(zones) = distribution("zoned:60/10:30/20:10/", KbBase::Binary).unwrap() else {
            panic!("not zoned");
        };
        assert_eq!(zones.write[..], [zone(60, 10), zone(30, 20), zone(10, 70)]);
        let R::ZonedAbsolute(zones) =
            distribution("zoned_abs:60/10m:40/10g", KbBase::Binary).unwrap()
        else {
            panic!("not zoned");
        };
        assert_eq!(zones.read[..], [zone(60, 10 << 20), zone(40, 10 << 30)]);
    }
}
