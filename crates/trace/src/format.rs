//! Formats of traces, their names and their detection.

use std::fmt;
use std::str::FromStr;

use crate::columns::{Columns, ColumnsError, TimeUnit};
use crate::reader::Reader;

/// Format of a trace. `docs/traces.md` shows the columns of each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Format {
    /// MSR Cambridge CSV: `timestamp,host,disk,Read|Write,offset,size,response`; time in ticks of 100 ns, the rest in
    /// bytes. A stream is a disk of a host, named `host_disk`.
    ///
    /// Source: readme of the traces; Narayanan, Donnelly and Rowstron, "Write Off-Loading", FAST 2008.
    Msr,
    /// Alibaba block CSV: `device_id,R|W,offset,length,timestamp`; bytes, and microseconds. A stream is a device.
    ///
    /// Source: the table "Schema" of alibaba/block-traces.
    Alibaba,
    /// Tencent CBS CSV: `timestamp,offset,size,0|1,volume`; seconds, sectors of 512 bytes, 0 for reads and 1 for
    /// writes. A stream is a volume.
    ///
    /// Source: readme of the traces; Zhang and others, "OSCA", ATC 2020.
    Tencent,
    /// CloudPhysics CSV: `version,time,op,size,lbn`; seconds, the SCSI operation code in hexadecimal, bytes, blocks of
    /// 512 bytes. One stream.
    CloudPhysics,
    /// The default output of `blkparse`. A stream is a process.
    ///
    /// Requests are taken when they are queued (`Q`). Until the first of those, and so in all of a trace recorded without
    /// them, they are taken when they are sent to the driver (`D`).
    Blkparse,
    /// The file of fio's `write_iolog` and `read_iolog`, versions 2 and 3. A stream is a file.
    ///
    /// Version 3 has a time in microseconds for each line. Version 2 has only `wait`s: the first record of each file
    /// after one is [`dependent`](crate::Record::dependent).
    FioIolog,
    /// Application start-ups of the S benchmark suite. A stream is a process, and each record of it but the first is
    /// [`dependent`](crate::Record::dependent): a start-up needs one answer for its next request.
    Startup,
    /// Any other text with a request a line, by its columns. Without a column for them there is one device and one stream; a
    /// device without a stream is its own stream.
    Columns(Box<Columns>),
}

impl Format {
    /// All formats with a name, which can be detected, in the order of messages.
    pub const ALL: [Format; 7] = [
        Format::Msr,
        Format::Alibaba,
        Format::Tencent,
        Format::CloudPhysics,
        Format::Blkparse,
        Format::FioIolog,
        Format::Startup,
    ];

    /// Detects the format from the first lines of a trace; `None` if they fit none, or two equally well.
    ///
    /// `head` is the beginning of the file, uncompressed, of any length. At most 100 lines of it are read, and a last line
    /// without its end only if it is the only one. Each format's parser reads them; the one that parses most wins, if it
    /// parses more than half.
    pub fn detect(head: &[u8]) -> Option<Format> {
        const LINES: usize = 100;
        let whole = match head.iter().rposition(|&byte| byte == b'\n') {
            Some(end) => &head[..=end],
            None => head,
        };
        // Empty lines are good in every format.
        let lines = whole.split_inclusive(|&byte| byte == b'\n');
        let telling = lines.filter(|line| !line.trim_ascii().is_empty()).take(LINES);
        let sample: Vec<u8> = telling.flatten().copied().collect();
        let understood = |format: Format| {
            let mut reader = Reader::new(&sample[..], format.clone());
            reader.by_ref().for_each(drop);
            let bad = reader.bad_lines().count;
            let good = reader.lines() - bad;
            (good > bad).then_some((good, format))
        };
        let mut fitting: Vec<_> = Format::ALL.into_iter().filter_map(understood).collect();
        fitting.sort_by_key(|&(good, _)| std::cmp::Reverse(good));
        match fitting.as_slice() {
            [(best, _), (second, _), ..] if best == second => None,
            [(_, format), ..] => Some(format.clone()),
            [] => None,
        }
    }

    /// The name on the command line.
    pub const fn name(&self) -> &'static str {
        match self {
            Format::Msr => "msr",
            Format::Alibaba => "alibaba",
            Format::Tencent => "tencent",
            Format::CloudPhysics => "cloudphysics",
            Format::Blkparse => "blkparse",
            Format::FioIolog => "fio-iolog",
            Format::Startup => "startup",
            Format::Columns(_) => "columns",
        }
    }

    /// All names, for messages.
    pub fn names() -> String {
        Format::ALL.each_ref().map(Format::name).join(", ")
    }

    /// Where its traces have the device, volume or file of a request.
    pub(crate) fn devices(&self) -> DevicesAre {
        match self {
            Format::Msr | Format::Alibaba | Format::Tencent | Format::FioIolog => {
                DevicesAre::Streams
            }
            Format::Blkparse => DevicesAre::Apart,
            Format::Columns(columns) if columns.device.is_some() => DevicesAre::Apart,
            Format::CloudPhysics | Format::Startup | Format::Columns(_) => DevicesAre::One,
        }
    }

    /// Whether times may be whole seconds.
    pub(crate) fn counts_seconds(&self) -> bool {
        match self {
            Format::Tencent | Format::CloudPhysics => true,
            Format::Columns(columns) => columns.time.unit == TimeUnit::Second,
            _ => false,
        }
    }
}

/// Place of the device in a format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DevicesAre {
    /// None: a trace is of one device.
    One,
    /// Each device is a stream.
    Streams,
    /// A column beside the stream.
    Apart,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::Columns(columns) => columns.fmt(f),
            named => f.pad(named.name()),
        }
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        if Columns::is_meant(name) {
            return Ok(Format::Columns(Box::new(name.parse().map_err(UnknownFormat::Columns)?)));
        }
        let format = Format::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| UnknownFormat::Name { name: name.to_owned() })
    }
}

/// A text that is no trace format.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownFormat {
    /// An unknown name.
    #[error(
        "no trace format is called `{name}`; there are {}, and columns by number: csv:time_us=6,op=4,lba512=5,bytes=2",
        Format::names()
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A bad description of columns.
    #[error(transparent)]
    Columns(ColumnsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let error = "spc".parse::<Format>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no trace format is called `spc`; there are msr, alibaba, tencent, cloudphysics, blkparse, fio-iolog, \
             startup, and columns by number: csv:time_us=6,op=4,lba512=5,bytes=2"
        );
        let columns: Format = "csv:time_us=6,op=4,lba512=5,bytes=2".parse().unwrap();
        assert_eq!(columns.to_string(), "csv:time_us=6,op=4,lba512=5,bytes=2");
        let error = "csv:op=4".parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("the time is missing: "), "{error}");
    }

    #[test]
    fn formats_are_detected_from_their_first_lines() {
        let cases: &[(&str, Option<Format>)] = &[
            ("128166372003061629,usr,0,Read,7014609920,24576,41286\n", Some(Format::Msr)),
            ("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n", Some(Format::Msr)),
            ("419,W,8792731648,16384,1577808144360767\n", Some(Format::Alibaba)),
            ("1538323200,12910952,128,0,1063\n", Some(Format::Tencent)),
            // A size of 28 sectors is also the code of READ(10).
            ("1538323200,12910952,28,1,1063\n", Some(Format::Tencent)),
            ("version,time,op,size,lbn\n", Some(Format::CloudPhysics)),
            ("1,5633898,28,512,42932745\n", Some(Format::CloudPhysics)),
            ("  8,0 3 1 0.000000000 697 G W 223490 + 8 [kjournald]\n", Some(Format::Blkparse)),
            ("fio version 3 iolog\n32 /dev/sda add\n", Some(Format::FioIolog)),
            ("fio version 2 iolog\n/dev/sda add\n", Some(Format::FioIolog)),
            ("xterm-31657 0 8 113314048 Rand -427336 0 RM 4.6 START\n", Some(Format::Startup)),
            // Cut within the second line.
            ("419,W,8792731648,16384,1577808144360767\n41", Some(Format::Alibaba)),
            // The only line, without its end.
            ("419,W,8792731648,16384,1577808144360767", Some(Format::Alibaba)),
            ("\n\n419,W,8792731648,16384,1577808144360767\n", Some(Format::Alibaba)),
            ("what\n419,W,8792731648,16384,1577808144360767\n", None),
            ("\n\n", None),
            ("", None),
        ];
        for (head, format) in cases {
            assert_eq!(&Format::detect(head.as_bytes()), format, "{head:?}");
        }
    }
}
