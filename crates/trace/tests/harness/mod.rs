//! Any bytes as a trace, with everything checked that holds for every input. Shared by `cargo test` and the fuzz target.

#![allow(
    unreachable_pub,
    dead_code,
    reason = "also a module of the fuzz targets; each test takes what it needs"
)]

use std::io::{BufRead, BufReader, Read};

use weir_engine::Op;
use weir_trace::{BadLines, FIRST_BAD_MAX, Format, Reader, Record, STREAM_NAME_MAX, STREAMS_MAX};

/// All that comes of a trace.
#[derive(PartialEq, Debug)]
pub struct Trace {
    pub records: Vec<Record>,
    pub streams: Vec<String>,
    pub bad: BadLines,
    pub lines: u64,
    pub skipped: u64,
    pub reordered: u64,
}

/// Reads all of it, and checks what holds for any input.
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

/// The fuzz target: the first byte chooses the format, the second how the rest comes in pieces.
pub fn any_bytes(data: &[u8]) -> Option<Trace> {
    let (&[format, piece], text) = data.split_first_chunk()?;
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let trace = read(text, format);
    let pieces = Pieces { bytes: text, piece: usize::from(piece) + 1 };
    let again = collect(Reader::new(BufReader::with_capacity(1, pieces), format));
    assert_eq!(trace, again, "pieces make no difference");
    // Whatever it says, it says without a panic, and something whole.
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
    }
}

fn check(trace: &Trace) {
    let Trace { records, streams, bad, lines, skipped, reordered } = trace;
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
        // A stray byte of a key becomes a character of three; a process's name has its id beside it.
        assert!(name.len() <= 2 * 3 * STREAM_NAME_MAX + 1 && !name.contains(char::is_control));
    }

    let mut now = 0;
    let mut seen = vec![false; streams.len()];
    let mut next = 0;
    for record in records {
        let Record { at_ns, op, offset, len, stream, dependent, delay_ns } = *record;
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

/// Gives out at most `piece` bytes a call.
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
