//! Harness for arbitrary bytes as a trace, with the invariants of every input. Shared by `cargo test` and the fuzz target.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "also a module of the fuzz targets; each test takes what it needs"
)]

use std::io::{BufRead, BufReader, Read};

use weir_engine::Op;
use weir_trace::{BadLines, FIRST_BAD_MAX, Format, Reader, Record, STREAM_NAME_MAX, STREAMS_MAX};

/// Results of a trace.
#[derive(PartialEq, Debug)]
pub struct Trace {
    pub records: Vec<Record>,
    pub streams: Vec<String>,
    pub bad: BadLines,
    pub lines: u64,
    pub skipped: u64,
    pub reordered: u64,
    pub spread: u64,
    pub completions: u64,
}

/// Columns of every kind.
const COLUMNS: [&str; 4] = [
    "csv:time_s=5,op=4,lba512=2,bytes=3,device=1",
    "csv:time_100ns=1,op=-3,offset=-2,blocks4096=6,stream=2,read=28+88,flush=x,skip=1,sep=;",
    "words:time_us=4,op=7,lba512=8,blocks512=10,device=1,stream=-1,only=6:Q",
    "csv:time_ms=-1,op=2,lba4096=3,bytes=4",
];

/// All formats.
pub fn formats() -> Vec<Format> {
    let columns = COLUMNS.iter().map(|text| text.parse().expect("columns"));
    Format::ALL.into_iter().chain(columns).collect()
}

/// Reads everything and checks the invariants.
pub fn read(bytes: &[u8], format: Format) -> Trace {
    let trace = collect(Reader::new(bytes, format));
    check(&trace);
    assert_eq!(
        trace.lines,
        bytes.split_inclusive(|&byte| byte == b'\n').count() as u64,
        "every line counts once"
    );
    trace
}

/// Text as columns: parse, print and parse again agree.
pub fn any_columns(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(format) = text.parse::<Format>()
    {
        let again = format.to_string().parse::<Format>();
        assert_eq!(again.as_ref(), Ok(&format));
        read(data, format);
    }
}

/// The fuzz target: the first byte selects the format, the second the size of pieces.
pub fn any_bytes(data: &[u8]) -> Option<Trace> {
    any_columns(data);
    let (&[format, piece], text) = data.split_first_chunk()?;
    let formats = formats();
    let format = formats[usize::from(format) % formats.len()].clone();
    let trace = read(text, format.clone());
    let pieces = Pieces { bytes: text, piece: usize::from(piece) + 1 };
    let again = collect(Reader::new(BufReader::with_capacity(1, pieces), format));
    assert_eq!(trace, again, "pieces make no difference");
    // Detection does not panic.
    if let Some(detected) = Format::detect(text) {
        let detected = read(text, detected);
        assert!(detected.lines > 0);
    }
    Some(trace)
}

fn collect<R: BufRead>(mut reader: Reader<R>) -> Trace {
    let records = reader.by_ref().map(|record| record.expect("memory does not fail")).collect();
    Trace {
        records,
        streams: reader.streams().to_vec(),
        bad: reader.bad_lines().clone(),
        lines: reader.lines(),
        skipped: reader.skipped(),
        reordered: reader.reordered(),
        spread: reader.spread(),
        completions: reader.completions(),
    }
}

fn check(trace: &Trace) {
    let Trace { records, streams, bad, lines, skipped, reordered, spread, completions } = trace;
    assert!(*spread <= records.len() as u64 && *completions <= records.len() as u64);
    assert_eq!(*lines, records.len() as u64 + bad.count + skipped, "each line is one of three");
    assert!(*reordered <= records.len() as u64);
    assert_eq!(bad.first.len() as u64, bad.count.min(FIRST_BAD_MAX as u64));
    for (number, text, _) in &bad.first {
        assert!((1..=*lines).contains(number));
        assert!(!text.chars().any(char::is_control), "{text:?}");
        assert!(text.len() <= 101 * "\\u{10ffff}".len());
    }
    assert!(bad.first.is_sorted_by_key(|(number, ..)| number));

    assert!(streams.len() <= STREAMS_MAX);
    for name in streams {
        // A stray byte of a key becomes a character of three bytes; a process's name includes its id.
        assert!(name.len() <= 2 * 3 * STREAM_NAME_MAX + 1 && !name.contains(char::is_control));
    }

    let mut now = 0;
    let mut seen = vec![false; streams.len()];
    let mut next = 0;
    for record in records {
        let Record { at_ns, op, offset, len, stream, dependent, delay_ns, metadata: _ } = *record;
        assert!(at_ns >= now, "time does not run back");
        now = at_ns;
        let stream = stream as usize;
        assert!(stream <= next, "streams are numbered as they appear");
        next = next.max(stream + 1);
        assert!(!dependent || seen[stream], "the first waits for nobody");
        assert!(dependent || delay_ns == 0);
        seen[stream] = true;
        match op {
            Op::Flush => assert_eq!((offset, len), (0, 0)),
            Op::Read | Op::Write | Op::Discard => {
                assert!(len > 0);
                assert!(offset + u64::from(len) <= i64::MAX as u64);
            }
            _ => panic!("{op:?} is in no trace"),
        }
    }
    assert_eq!(next, streams.len(), "and each of them has a record");
    assert_eq!(records.first().map_or(0, |record| record.at_ns), 0);
}

/// A reader of at most `piece` bytes a call.
struct Pieces<'a> {
    bytes: &'a [u8],
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.piece);
        self.bytes.read(&mut buffer[..count])
    }
}

/// The lines of a file that is text.
pub fn lines_of(bytes: &[u8]) -> impl Iterator<Item = &str> {
    std::str::from_utf8(bytes).expect("text").lines()
}
