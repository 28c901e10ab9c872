//! Round trip of records through each format, and a comparison with the columns of the `csv` crate.

mod harness;

use std::fmt::Write;

use proptest::prelude::*;
use weir_engine::Op;
use weir_trace::{Format, Record};

/// A record in units of all formats: microseconds and sectors.
#[derive(Clone, Debug)]
struct Planned {
    gap_us: u64,
    op: Op,
    sector: u64,
    sectors: u32,
    stream: u32,
}

fn planned() -> impl Strategy<Value = Vec<Planned>> {
    let op = prop::sample::select(vec![Op::Read, Op::Write, Op::Discard, Op::Flush]);
    let one =
        (prop_oneof![Just(0), 0..10_000_000_u64], op, 0..1_u64 << 53, 1..=8_388_607_u32, 0..5_u32)
            .prop_map(|(gap_us, op, sector, sectors, stream)| Planned {
                gap_us,
                op,
                sector,
                sectors,
                stream,
            });
    prop::collection::vec(one, 1..50)
}

/// Rounds to what `format` can express.
fn sayable(planned: &[Planned], format: &Format) -> Vec<Planned> {
    let mut planned = planned.to_vec();
    planned[0].gap_us = 0;
    for record in &mut planned {
        record.op = match (format, record.op) {
            (Format::Msr | Format::Alibaba | Format::Tencent, Op::Flush | Op::Discard) => Op::Write,
            (Format::CloudPhysics, Op::Discard) => Op::Write,
            (_, op) => op,
        };
        // fio ignores shorter waits.
        if *format == Format::FioIolog && record.gap_us < 100 {
            record.gap_us = 0;
        }
        if matches!(format, Format::Tencent) {
            record.gap_us -= record.gap_us % 1_000_000;
        }
        if *format == Format::CloudPhysics {
            record.stream = 0;
        }
    }
    // Streams are numbered in order of appearance.
    let mut order = Vec::new();
    for record in &mut planned {
        let known = order.iter().position(|&stream| stream == record.stream);
        let number = known.unwrap_or_else(|| {
            order.push(record.stream);
            order.len() - 1
        });
        record.stream = u32::try_from(number).unwrap();
    }
    planned
}

/// The text of a trace, and its expected records. `version` is that of an iolog.
fn write(planned: &[Planned], format: &Format, version: u32) -> (String, Vec<Record>) {
    let mut text = String::new();
    if *format == Format::FioIolog {
        writeln!(text, "fio version {version} iolog").unwrap();
    }
    let mut latest = vec![None; planned.len()];
    let (mut us, mut records) = (0, Vec::new());
    for record in planned {
        let Planned { gap_us, op, sector, sectors, stream } = *record;
        us += gap_us;
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (sector * 512, sectors * 512),
        };
        let at_ns = us * 1000;
        let gap = latest[stream as usize].replace(at_ns).map(|before| at_ns - before);
        let delay = match format {
            Format::Startup => gap,
            Format::FioIolog if version == 2 => gap.filter(|&gap| gap > 0),
            _ => None,
        };
        records.push(Record {
            at_ns,
            op,
            offset,
            len,
            stream,
            dependent: delay.is_some(),
            delay_ns: delay.unwrap_or(0),
            metadata: false,
        });

        let (seconds, micros) = (us / 1_000_000, us % 1_000_000);
        let (start, start_us) = (1_538_323_200, 1_538_323_200_000_000_u64);
        let read = op == Op::Read;
        let letter = match op {
            Op::Read => "R",
            Op::Write => "W",
            Op::Discard => "D",
            _ => "F",
        };
        match format {
            Format::Msr => {
                let (ticks, kind) = ((start_us + us) * 10, if read { "Read" } else { "Write" });
                writeln!(text, "{ticks},host,{stream},{kind},{offset},{len},77")
            }
            Format::Alibaba => writeln!(text, "{stream},{letter},{offset},{len},{}", start_us + us),
            Format::Tencent => {
                let kind = u32::from(!read);
                writeln!(text, "{},{sector},{sectors},{kind},{stream}", start + seconds)
            }
            Format::CloudPhysics => {
                let code = ["28", "2a", "35"][match op {
                    Op::Read => 0,
                    Op::Write => 1,
                    _ => 2,
                }];
                writeln!(text, "1,{seconds}.{micros:06},{code},{len},{}", offset / 512)
            }
            Format::Blkparse => {
                let place = if len == 0 { String::new() } else { format!("{sector} + {sectors} ") };
                writeln!(
                    text,
                    "  8,0    3 {us:8} {seconds:5}.{micros:06}000 {stream:5}  Q {letter:>3} {place}[some thing]"
                )
            }
            Format::FioIolog => {
                let action = match op {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Discard => "trim",
                    _ => "sync",
                };
                if version == 3 {
                    write!(text, "{us} ").unwrap();
                } else if gap_us > 0 {
                    writeln!(text, "/f/{stream} wait {gap_us} 0").unwrap();
                }
                writeln!(text, "/f/{stream} {action} {offset} {len}")
            }
            Format::Startup => writeln!(
                text,
                "some thing-{stream} .000001 {sectors:5} {sector:11} Rand -1 0 {letter:>9} {seconds:3}.{micros:06} C"
            ),
            Format::Columns(_) => {
                writeln!(text, "{us},{letter},{sector},{sectors},/f {stream}")
            }
        }
        .unwrap();
    }
    if matches!(format, Format::Tencent | Format::CloudPhysics) {
        spread(&mut records);
    }
    (text, records)
}

/// Requests of each second go evenly over it, up to the second before the first time that has a fraction.
fn spread(records: &mut [Record]) {
    const SECOND: u64 = 1_000_000_000;
    let is_whole = |record: &Record| record.at_ns.is_multiple_of(SECOND);
    let whole = records.iter().take_while(|record| is_whole(record)).count();
    let is_finer = whole < records.len();
    let mut at = 0;
    while at < whole {
        let second = records[at].at_ns;
        let count = records[at..whole].iter().filter(|record| record.at_ns == second).count();
        if is_finer && at + count == whole {
            break;
        }
        for index in 0..count {
            records[at + index].at_ns += SECOND * index as u64 / count as u64;
        }
        at += count;
    }
}

/// All formats with a name, and columns.
fn formats() -> Vec<Format> {
    let columns = "csv:time_us=1,op=2,lba512=3,blocks512=4,stream=-1".parse().unwrap();
    Format::ALL.into_iter().chain([columns]).collect()
}

proptest! {
    #[test]
    fn written_records_read_back(planned in planned(), format in prop::sample::select(formats()), version in 2..=3_u32) {
        let planned = sayable(&planned, &format);
        let (text, wanted) = write(&planned, &format, version);
        let trace = harness::read(text.as_bytes(), format.clone());
        prop_assert_eq!(&trace.records, &wanted, "{}", text);
        prop_assert_eq!(trace.bad.count, 0);
        prop_assert_eq!(trace.reordered, 0);
        if !matches!(format, Format::Columns(_)) {
            prop_assert_eq!(Format::detect(text.as_bytes()), Some(format), "{}", text);
        }
    }

    /// Lines of several CPUs, out of order: all are read, in the order of the file.
    #[test]
    fn times_that_run_back_are_the_latest(times in prop::collection::vec(0..1000_u64, 1..50)) {
        let text: String = times.iter().map(|time| format!("1,R,0,512,{time}\n")).collect();
        let trace = harness::read(text.as_bytes(), Format::Alibaba);
        let (mut latest, mut reordered) = (times[0], 0);
        for (record, &time) in trace.records.iter().zip(&times) {
            reordered += u64::from(time < latest);
            latest = latest.max(time);
            prop_assert_eq!(record.at_ns, (latest - times[0]) * 1000);
        }
        prop_assert_eq!((trace.records.len(), trace.reordered), (times.len(), reordered));
    }

    /// Without quotes, a line of CSV is good exactly if the `csv` crate finds the needed columns in it.
    #[test]
    fn columns_are_those_of_csv(fields in prop::collection::vec("[0-9RW ]{0,4}", 1..8)) {
        let line = fields.join(",");
        let mut csv = csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(line.as_bytes());
        let found = csv.byte_records().next().map(|record| record.unwrap());
        let number = |field: &[u8]| std::str::from_utf8(field).unwrap().parse::<u64>().ok();
        let wanted = found.and_then(|record| {
            let fields: Vec<&[u8]> = record.iter().collect();
            let &[device, b"R" | b"W", offset, length, time] = fields.as_slice() else { return None };
            number(device)?;
            number(time)?;
            Some((number(offset)?, number(length)?)).filter(|&(_, length)| length > 0)
        });
        let trace = harness::read(line.as_bytes(), Format::Alibaba);
        let got = trace.records.first().map(|record| (record.offset, u64::from(record.len)));
        prop_assert_eq!(got, wanted, "{:?}", line);
    }
}
