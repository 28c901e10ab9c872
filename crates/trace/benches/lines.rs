//! Speed of each format's parser, in lines a second.
//!
//! ```text
//! cargo bench -p weir-trace                   each format, and one of them compressed: a few seconds
//! cargo bench -p weir-trace -- FILE…          these traces instead, each as it is
//! ```
//!
//! The CloudPhysics trace is the excerpt of `tests/data`, repeated with later times; the other formats have the same
//! requests.

use std::env;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use weir_engine::Op;
use weir_trace::{Format, Reader, Record};

/// A round is a few milliseconds; the best of many counts, since one of them probably had the processor to itself.
const LINES: usize = 100_000;
const ROUNDS: usize = 50;

fn main() {
    let files: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    println!("{:<24} {:>12} {:>12} {:>10}", "trace", "lines", "lines/s", "ns/line");
    for file in &files {
        run(file, || Reader::open(Path::new(file), None).expect("a trace"));
    }
    if !files.is_empty() {
        return;
    }
    let excerpt = include_bytes!("../tests/data/cloudphysics.csv");
    let records: Vec<Record> = Reader::new(&excerpt[..], Format::CloudPhysics)
        .map(|record| record.expect("memory"))
        .collect();
    let columns = "csv:time_us=1,op=2,lba512=3,blocks512=4,stream=5".parse().expect("columns");
    for format in Format::ALL.into_iter().chain([columns]) {
        let text = scaled(&records, &format);
        run(format.name(), || Reader::new(text.as_bytes(), format.clone()));
        if format == Format::CloudPhysics {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(text.as_bytes()).expect("memory");
            let gzip = encoder.finish().expect("memory");
            run("cloudphysics, gzip", || {
                let text = flate2::read::MultiGzDecoder::new(&gzip[..]);
                Reader::new(std::io::BufReader::with_capacity(128 * 1024, text), format.clone())
            });
        }
    }
}

/// The same requests repeatedly, each time a minute later.
fn scaled(records: &[Record], format: &Format) -> String {
    let mut text = String::new();
    if *format == Format::FioIolog {
        text.push_str("fio version 3 iolog\n");
    }
    for index in 0..LINES {
        let record = &records[index % records.len()];
        let Record { at_ns, op, offset, len, .. } = *record;
        let us = at_ns / 1000 + (index / records.len()) as u64 * 60_000_000;
        let (seconds, micros) = (us / 1_000_000, us % 1_000_000);
        let (sector, sectors, volume) = (offset / 512, len / 512, index % 100);
        let read = op == Op::Read;
        let letter = if read { 'R' } else { 'W' };
        match format {
            Format::Msr => {
                let kind = if read { "Read" } else { "Write" };
                writeln!(text, "{},usr,{},{kind},{offset},{len},41286", 128_166_372_003_061_629 + us * 10, volume % 3)
            }
            Format::Alibaba => {
                writeln!(text, "{volume},{letter},{offset},{len},{}", 1_577_808_144_360_767 + us)
            }
            Format::Tencent => {
                writeln!(text, "{},{sector},{sectors},{},{volume}", 1_538_323_200 + seconds, u8::from(!read))
            }
            Format::CloudPhysics => {
                let code = if read { "28" } else { "2a" };
                writeln!(text, "1,{},{code},{len},{sector}", 5_633_898 + seconds)
            }
            Format::Blkparse => writeln!(
                text,
                "  8,0    3 {index:8} {seconds:5}.{micros:06}000 {volume:5}  Q {letter:>3} {sector} + {sectors} [thing]"
            ),
            Format::FioIolog => {
                let action = if read { "read" } else { "write" };
                writeln!(text, "{us} /dev/vdb {action} {offset} {len}")
            }
            Format::Startup => writeln!(
                text,
                "xterm-{volume} .000001 {sectors:5} {sector:11} Rand -1 0 {letter:>9} {seconds:3}.{micros:06} C"
            ),
            Format::Columns(_) => writeln!(text, "{us},{letter},{sector},{sectors},{volume}"),
        }
        .expect("memory");
    }
    text
}

fn run<R: BufRead>(name: &str, mut open: impl FnMut() -> Reader<R>) {
    let (mut best, mut lines) = (Duration::MAX, 0);
    for _ in 0..ROUNDS {
        let mut reader = open();
        let (count, took) = timed(|| {
            let mut count = 0_u64;
            for record in reader.by_ref() {
                black_box(record.expect("no I/O error"));
                count += 1;
            }
            count
        });
        lines = reader.lines();
        assert!(reader.bad_lines().count == 0 && count > 0, "{name}: {:?}", reader.bad_lines());
        best = best.min(took);
    }
    let each = best.as_secs_f64() / lines as f64;
    println!("{name:<24} {lines:>12} {:>12.0} {:>10.1}", 1.0 / each, each * 1e9);
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
