//! Fuzz target of traces, shrinking, on every `cargo test`: bytes, and lines that are nearly right.

mod harness;

use proptest::prelude::*;
use weir_trace::Format;

/// Pieces of lines of all formats, combined in any order: closer to a trace than random bytes.
const PIECES: [&str; 70] = [
    "128166372003061629",
    "1577808144360767",
    "1538323200",
    "5633898",
    "0",
    "1",
    "8",
    "28",
    "2a",
    "35",
    "512",
    "4096",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "4294967296",
    "-1",
    ".5",
    "1.",
    "1.5",
    "x",
    ",",
    ",",
    ",",
    ",",
    ",",
    ",",
    ",",
    " ",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\t",
    "usr",
    "Read",
    "Write",
    "R",
    "W",
    "8,0",
    "Q",
    "D",
    "FWS",
    "N",
    "+",
    "[a b]",
    "[",
    "]",
    "CPU0",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    "read",
    "write",
    "wait",
    "sync",
    "trim",
    "Seq",
    "Rand",
    "xterm-1",
    "\u{1b}",
    "8,16",
    "C",
    "\"",
    ";",
    "RM",
    "1154.5:",
];

/// A valid line of each format.
const LINES: [&str; 11] = [
    "128166372003061629,usr,0,Read,7014609920,24576,41286\n",
    "419,W,8792731648,16384,1577808144360767\n",
    "1538323200,12910952,128,0,1063\n",
    "1,5633898,2a,512,42932745\n",
    "  8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]\n",
    "fio version 2 iolog\n/a read 0 4096\n/a wait 1500 0\n/a write 8192 512\n",
    "fio version 3 iolog\n217 /dev/vdb read 0 4096\n",
    "xterm-31657  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C\n",
    "0,303567,3584,w,0.000000\n",
    "1;a;b;28;4096;2\n2;a;b;28;4096;2\n",
    "12.5,R,77,4096,12.5\n",
];

fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        2 => prop::sample::select(&LINES[..]).prop_map(|line| line.as_bytes().to_vec()),
        // A line with other bytes in the middle.
        2 => (prop::sample::select(&LINES[..]), 0..100_usize, prop::sample::select(&PIECES[..])).prop_map(
            |(line, at, piece)| {
                let mut line = line.as_bytes().to_vec();
                let at = at % line.len();
                line.splice(at..at + 1, piece.bytes());
                line
            }
        ),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    (any::<[u8; 2]>(), prop::collection::vec(piece, 0..60))
        .prop_map(|(head, pieces)| head.into_iter().chain(pieces.concat()).collect())
}

proptest! {
    #[test]
    fn bytes(data in prop::collection::vec(any::<u8>(), 0..2000)) {
        harness::any_bytes(&data);
    }

    #[test]
    fn pieces_of_lines(data in nearly_right()) {
        harness::any_bytes(&data);
    }

    #[test]
    fn columns(parts in prop::collection::vec(("[a-z0-9_]{1,8}|time_s|op|lba512|bytes|device|stream|sep|skip|only|read|write", "-?[0-9]{1,3}|tab|;|[0-9]:[a-z]{1,3}|[a-z+]{0,6}"), 0..9)) {
        let parts: Vec<String> = parts.iter().map(|(key, value)| format!("{key}={value}")).collect();
        for start in ["csv:time_s=1,op=2,offset=3,bytes=4", "words:time_ns=-1,op=2,lba4096=3,blocks512=4", "csv:"] {
            let text = [start].into_iter().chain(parts.iter().map(String::as_str)).collect::<Vec<_>>().join(",");
            harness::any_columns(text.as_bytes());
        }
    }

    /// Lines around the longest, and beyond: each counts once, and the next line is read.
    #[test]
    fn long_lines(lengths in prop::collection::vec(65_000..67_000_usize, 1..4), more in 0..140_000_usize) {
        let mut text = Vec::new();
        for length in lengths.iter().chain([&more]) {
            text.extend(std::iter::repeat_n(b'x', *length));
            text.extend(b"\n1,5633898,2a,512,42932745\n");
        }
        let trace = harness::read(&text, Format::CloudPhysics);
        prop_assert_eq!(trace.records.len(), lengths.len() + 1);
    }
}

/// Guards against a harness that never gets past the first column.
#[test]
fn lines_as_they_should_be_are_records() {
    for line in LINES {
        let detected = Format::detect(line.as_bytes());
        let of = |format| harness::read(line.as_bytes(), format).records.len();
        match detected {
            Some(format) => assert!(of(format) > 0, "{line}"),
            None => assert!(harness::formats().into_iter().any(|format| of(format) > 0), "{line}"),
        }
    }
}
