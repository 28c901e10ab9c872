//! The two interfaces that a kernel has for limits: `io.max` of cgroup v2, and `blkio.throttle.*` of v1.

use super::{DeviceNumber, TextError, blkio, io_max, io_stat};
use crate::{Counters, IoMax};

/// Interface of a cgroup tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// `io.max`. A cgroup's limits count what is below it, too.
    V2,
    /// `blkio.throttle.*`. Each cgroup has limits of its own, whatever those above and below it are.
    V1,
}

/// One write to a file of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitWrite {
    /// The file's name.
    pub file: &'static str,
    /// What to write, in one call.
    pub text: String,
}

impl Interface {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Interface::V2 => "cgroup v2",
            Interface::V1 => "cgroup v1",
        }
    }

    /// Files with limits, all of which a cgroup with this controller has.
    pub const fn limit_files(self) -> &'static [&'static str] {
        match self {
            Interface::V2 => &["io.max"],
            Interface::V1 => &blkio::LIMIT_FILES,
        }
    }

    /// Files with counters.
    pub const fn stat_files(self) -> &'static [&'static str] {
        match self {
            Interface::V2 => &["io.stat"],
            Interface::V1 => &blkio::STAT_FILES,
        }
    }

    /// The file that tells of waiting tasks, if there is one.
    pub const fn pressure_file(self) -> Option<&'static str> {
        match self {
            Interface::V2 => Some("io.pressure"),
            Interface::V1 => None,
        }
    }

    /// Whether limits of a cgroup count what is below it.
    pub const fn is_hierarchical(self) -> bool {
        matches!(self, Interface::V2)
    }

    /// Limits of `device` in the texts of [`Interface::limit_files`].
    ///
    /// # Errors
    /// A value is no number. A text that is missing is empty.
    pub fn parse_limits(self, texts: &[String], device: DeviceNumber) -> Result<IoMax, TextError> {
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        let limits = match self {
            Interface::V2 => io_max::parse(text(0), device)?,
            Interface::V1 => blkio::parse_limits([0, 1, 2, 3].map(text), device)?,
        };
        Ok(kernel_limits(limits))
    }

    /// Counters of `device` in the texts of [`Interface::stat_files`].
    ///
    /// # Errors
    /// A value is no number. A text that is missing is empty.
    pub fn parse_counters(
        self,
        texts: &[String],
        device: DeviceNumber,
    ) -> Result<Counters, TextError> {
        let text = |index: usize| texts.get(index).map_or("", String::as_str);
        match self {
            Interface::V2 => io_stat::parse(text(0), device),
            Interface::V1 => blkio::parse_counters([0, 1].map(text), device),
        }
    }

    /// What to write to make `before` into `after`: one line in version 2, the files that change in version 1.
    pub fn writes(self, device: DeviceNumber, before: IoMax, after: IoMax) -> Vec<LimitWrite> {
        let (before, after) = (kernel_limits(before), kernel_limits(after));
        let files = self.limit_files();
        match self {
            Interface::V2 => io_max::line(device, before, after)
                .map(|text| LimitWrite { file: files[0], text })
                .into_iter()
                .collect(),
            Interface::V1 => blkio::writes(device, before, after)
                .into_iter()
                .map(|(index, text)| LimitWrite { file: files[index], text })
                .collect(),
        }
    }
}

/// Limits as the kernel keeps them: its largest number is no limit, I/Os a second have 32 bits, and 0 is refused or none.
pub(crate) fn kernel_limits(limits: IoMax) -> IoMax {
    let below = |value: Option<u64>, most: u64| value.filter(|value| (1..most).contains(value));
    let IoMax { rbps, wbps, riops, wiops } = limits;
    let [rbps, wbps] = [rbps, wbps].map(|value| below(value, u64::MAX));
    let [riops, wiops] = [riops, wiops].map(|value| below(value, u32::MAX.into()));
    IoMax { rbps, wbps, riops, wiops }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::{parse_disk_stat, parse_limits, parse_pressure, print_limits};

    const SDB: DeviceNumber = DeviceNumber { major: 8, minor: 16 };

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn io_max_has_a_line_for_each_device() {
        let text =
            "8:0 rbps=1 wbps=2 riops=3 wiops=4\n8:16 rbps=max wbps=4194304 riops=max wiops=120\n";
        let limits = |text: &str| Interface::V2.parse_limits(&texts(&[text]), SDB);
        let wanted = IoMax { wbps: Some(4_194_304), wiops: Some(120), ..IoMax::default() };
        assert_eq!(limits(text), Ok(wanted));
        assert_eq!(limits(""), Ok(IoMax::default()));
        assert_eq!(limits("8:160 rbps=1"), Ok(IoMax::default()));
        assert_eq!(limits("8:16 rbps=1 new=word"), Ok(IoMax { rbps: Some(1), ..IoMax::default() }));
        limits("8:16 rbps=-1").expect_err("no number");
    }

    #[test]
    fn only_what_changes_is_written() {
        let before = IoMax { rbps: Some(4096), wiops: Some(10), ..IoMax::default() };
        let after = IoMax { rbps: Some(8192), wiops: None, ..IoMax::default() };
        let said = |interface: Interface, before, after| {
            let writes = interface.writes(SDB, before, after);
            writes.into_iter().map(|write| (write.file, write.text)).collect::<Vec<_>>()
        };
        assert_eq!(
            said(Interface::V2, before, after),
            [("io.max", "8:16 rbps=8192 wiops=max".to_owned())]
        );
        assert_eq!(
            said(Interface::V1, before, after),
            [
                ("blkio.throttle.read_bps_device", "8:16 8192".to_owned()),
                ("blkio.throttle.write_iops_device", "8:16 0".to_owned()),
            ]
        );
        assert!(said(Interface::V2, before, before).is_empty());
        assert!(said(Interface::V1, before, before).is_empty());
    }

    #[test]
    fn io_stat_counts_for_the_device_that_is_named_before() {
        let counters = |text: &str| Interface::V2.parse_counters(&texts(&[text]), SDB);
        let wanted = Counters { rbytes: 8192, wbytes: 4096, rios: 2, wios: 1 };
        let line = "8:16 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0 cost.usage=7";
        assert_eq!(counters(&format!("8:0 rbytes=5 wbytes=5 rios=5 wios=5\n{line}\n")), Ok(wanted));
        assert_eq!(counters(&format!("8:0 {line}\n")), Ok(wanted));
        assert_eq!(counters("8:0 rbytes=5\n"), Ok(Counters::default()));
    }

    #[test]
    fn version_1_counts_in_two_files() {
        let bytes = "7:0 Read 5\n8:16 Read 4096\n8:16 Write 512\n8:16 Sync 4608\n8:16 Total 4608\nTotal 4613\n";
        let ios = "8:16 Read 1\n8:16 Write 3\n8:16 Total 4\nTotal 4\n";
        let wanted = Counters { rbytes: 4096, wbytes: 512, rios: 1, wios: 3 };
        assert_eq!(Interface::V1.parse_counters(&texts(&[bytes, ios]), SDB), Ok(wanted));
        assert_eq!(Interface::V1.parse_counters(&[], SDB), Ok(Counters::default()));
    }

    #[test]
    fn a_device_tells_sectors_and_milliseconds() {
        let text = "  100  5  800  9  50  1  16  9  3  1234  99  1 2 3 4 5 6\n";
        let stat = parse_disk_stat(text).expect("a line of the kernel");
        assert_eq!(stat.counters, Counters { rbytes: 409_600, wbytes: 8192, rios: 105, wios: 51 });
        assert_eq!((stat.busy_ns, stat.in_flight_ios), (1_234_000_000, 3));
        parse_disk_stat("1 2 3").expect_err("too short");
        parse_disk_stat("a b c d e f g h i j k").expect_err("no numbers");
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n";
        assert_eq!(parse_pressure(text), Ok(5_000));
        parse_pressure("full avg10=0.00 total=3\n").expect_err("no such line");
    }

    fn limits() -> impl Strategy<Value = IoMax> {
        let bps = || prop::option::of(1..u64::MAX);
        let iops = || prop::option::of(1..u64::from(u32::MAX));
        (bps(), bps(), iops(), iops()).prop_map(|(rbps, wbps, riops, wiops)| IoMax {
            rbps,
            wbps,
            riops,
            wiops,
        })
    }

    /// A kernel's files after `writes`: what is written counts, and a device without limits has no line.
    fn kernel(interface: Interface, stands: IoMax, writes: &[LimitWrite]) -> Vec<String> {
        match interface {
            Interface::V2 => {
                let mut stands = stands;
                for write in writes {
                    let (number, words) = write.text.split_once(' ').expect("a device first");
                    assert_eq!(number, SDB.to_string());
                    // Keys that are not named keep their values.
                    let whole = format!("{} {words}", print_limits(stands));
                    stands = parse_limits(&whole).expect("as printed");
                }
                let line = format!("{SDB} {}\n", print_limits(stands));
                vec![if stands.is_max() { String::new() } else { line }]
            }
            Interface::V1 => {
                let mut files = Interface::V1.writes(SDB, IoMax::default(), stands);
                for write in writes {
                    files.retain(|file| file.file != write.file);
                    files.push(write.clone());
                }
                let text = |name: &&str| {
                    let file = files.iter().find(|file| file.file == *name);
                    let line = file.filter(|file| !file.text.ends_with(" 0"));
                    line.map_or(String::new(), |file| file.text.clone() + "\n")
                };
                interface.limit_files().iter().map(text).collect()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_written_is_read_and_what_stood_is_put_back(
            stood in limits(), written in limits(), is_v1 in any::<bool>(),
        ) {
            let interface = if is_v1 { Interface::V1 } else { Interface::V2 };
            let before = kernel(interface, stood, &[]);
            prop_assert_eq!(interface.parse_limits(&before, SDB), Ok(stood));
            let writes = interface.writes(SDB, stood, written);
            let during = kernel(interface, stood, &writes);
            prop_assert_eq!(interface.parse_limits(&during, SDB), Ok(written));
            let back = interface.writes(SDB, written, stood);
            prop_assert_eq!(kernel(interface, written, &back), before);
        }

        #[test]
        fn any_text_is_read_or_refused(
            text in "\\PC*|([0-9]{1,2}:[0-9]{1,2} ([a-zA-Z]{1,6}=?[0-9max]{0,22} ?){0,5}\n?){0,5}",
        ) {
            let all = vec![text.clone(); 4];
            for interface in [Interface::V1, Interface::V2] {
                if let Ok(limits) = interface.parse_limits(&all, SDB) {
                    prop_assert_eq!(limits, kernel_limits(limits));
                }
                let _ = interface.parse_counters(&all, SDB);
            }
            let _ = (parse_disk_stat(&text), parse_pressure(&text));
        }
    }
}
