//! Each format as it is published or printed.

mod harness;

use harness::{lines_of, read};
use weir_engine::Op;
use weir_trace::{Format, Reason, Record};

/// A record as one line: `at op offset+len stream`, and `after delay` if it waits for the one before.
fn story(records: &[Record], streams: &[String]) -> Vec<String> {
    let line = |record: &Record| {
        let Record { at_ns, op, offset, len, stream, dependent, delay_ns, metadata } = *record;
        let op = format!("{op:?}").to_lowercase();
        let wait = if dependent { format!(" after {delay_ns}") } else { String::new() };
        let metadata = if metadata { " metadata" } else { "" };
        format!("{at_ns} {op} {offset}+{len} {}{wait}{metadata}", streams[stream as usize])
    };
    records.iter().map(line).collect()
}

fn check(format: Format, text: &str, wanted: &[&str], bad: &[(u64, Reason)]) {
    let read = read(text.as_bytes(), format.clone());
    assert_eq!(story(&read.records, &read.streams), wanted);
    let found: Vec<_> =
        read.bad.first.iter().map(|&(number, _, reason)| (number, reason)).collect();
    assert_eq!(found, bad);
    assert_eq!(Format::detect(text.as_bytes()), Some(format), "and it looks like it");
}

#[test]
fn msr() {
    check(
        Format::Msr,
        "128166372003061629,usr,0,Read,7014609920,24576,41286\r\n\
         128166372016382155,usr,1,Write,1317441536,8192,1963\r\n\
         128166372026382245,usr,0,Write,2436440064,4096,1835\r\n\
         128166372016382155,usr,0,Write,0,4096,1835\n\
         128166372026382246,src1,10,read,512,512,1\n\
         128166372026382247,usr,1,WRITE,512,512,1\n\
         128166372026382245,usr,0,Trim,2436440064,4096,1835\n\
         128166372026382245,usr,0,Write,2436440064,0,1835\n\
         128166372026382245,usr,0,Write,9223372036854775000,4096,1835\n\
         128166372026382245,usr,0,Write,2436440064,4294967296,1835\n\
         128166372026382245,usr,0,Write,2436440064\n",
        &[
            "0 read 7014609920+24576 usr_0",
            "1332052600 write 1317441536+8192 usr_1",
            "2332061600 write 2436440064+4096 usr_0",
            "2332061600 write 0+4096 usr_0",
            "2332061700 read 512+512 src1_10",
            "2332061800 write 512+512 usr_1",
        ],
        &[
            (7, Reason::Operation { column: "Type" }),
            (8, Reason::LengthZero),
            (9, Reason::BeyondEnd),
            (10, Reason::LengthTooLong),
            (11, Reason::Columns { found: 5, wanted: 7 }),
        ],
    );
}

#[test]
fn alibaba() {
    check(
        Format::Alibaba,
        "device_id,opcode,offset,length,timestamp\n\
         419,W,8792731648,16384,1577808144360767\n\
         725,R,59110326272,360448,1577808144360813\n\
         12,R,350868463616,8192,1577808144360852\n\
         725,D,59110326272,360448,1577808144360853\n\
         725,R,59110326272,-1,1577808144360853\n",
        &[
            "0 write 8792731648+16384 419",
            "46000 read 59110326272+360448 725",
            "85000 read 350868463616+8192 12",
        ],
        &[(5, Reason::Operation { column: "opcode" }), (6, Reason::Number { column: "length" })],
    );
}

#[test]
fn tencent() {
    check(
        Format::Tencent,
        "1538323200,12910952,128,0,1063\n\
         1538323200,6338688,8,1,1627\n\
         1538323201,1904106400,384,0,1360\n\
         1538323201,1904106400,384,2,1360\n\
         1538323201,1904106400,384,0,\n",
        &[
            "0 read 6610407424+65536 1063",
            "500000000 write 3245408256+4096 1627",
            "1000000000 read 974902476800+196608 1360",
        ],
        &[(4, Reason::Operation { column: "IOType" }), (5, Reason::Number { column: "VolumeID" })],
    );
}

#[test]
fn cloud_physics() {
    check(
        Format::CloudPhysics,
        "version,time,op,size,lbn\n\
         1,5633898,2a,512,42932745\n\
         1,5633898,28,6656,40409911\n\
         1,5633899,35,0,0\n\
         1,5633899,12,36,0\n\
         2,5633900.5,0x8A,65536,1\n\
         3,5633900,28,65536,1\n\
         1,5633900,zz,65536,1\n",
        &[
            "0 write 21981565440+512 disk",
            "500000000 read 20689874432+6656 disk",
            "1000000000 flush 0+0 disk",
            "2500000000 write 512+65536 disk",
        ],
        &[(7, Reason::Number { column: "version" }), (8, Reason::Operation { column: "op" })],
    );
}

#[test]
fn blkparse() {
    check(
        Format::Blkparse,
        "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n\
        \x20 8,0    3        2     0.000001829   697  P   N [kjournald]\n\
        \x20 8,0    3        3     0.000002197   697  Q   W 223490 + 8 [kjournald]\n\
        \x20 8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]\n\
        \x20 8,0    3        5     0.000008371   697  D   W 223490 + 16 [kjournald]\n\
        \x20 8,0    3        6     0.000010023  2114  A  RM 4096 + 8 <- (8,1) 2048\n\
        \x20 8,0    3        7     0.000010923  2114  Q  RM 4096 + 8 [Chrome [IO] Thread]\n\
        \x20 8,0    1        1     0.000009923   697  C   W 223490 + 16 [0]\n\
        \x20 8,0    1        2     0.500000000   697  Q FWS [kjournald]\n\
        \x20 8,0    1        3     0.600000000   697  Q FWFS 223506 + 8 [kjournald]\n\
        \x20 8,0    1        4     0.700000000   311  Q  DS 0 + 2048 [fstrim]\n\
        \x20 8,0    1        5     0.700000001     0  m   N cfq697 queue: empty / idle\n\
        \x20 8,0    1        6     0.700000002   697  Q   W 223506 8 [kjournald]\n\
        \x20 8,0    1        7     0.700000003   697  ?   W 223506 + 8 [kjournald]\n\
        what is this\n\
        CPU0 (sda):\n\
        \x20Reads Queued:           1,        4KiB\t Writes Queued:           2,        8KiB\n\
        \n\
        Total (sda):\n\
        \x20Reads Queued:           1,        4KiB\t Writes Queued:           2,        8KiB\n\
        \n\
        Throughput (R/W): 5KiB/s / 11KiB/s\n\
        Events (sda): 14 entries\n\
        Skips: 0 forward (0 -   0.0%)\n",
        &[
            "0 write 114426880+4096 kjournald-697",
            "8726 read 2097152+4096 Chrome [IO] Thread-2114 metadata",
            "499997803 flush 0+0 kjournald-697",
            "599997803 write 114435072+4096 kjournald-697",
            "699997803 discard 0+1048576 fstrim-311",
        ],
        &[
            (13, Reason::Missing { column: "sectors" }),
            (14, Reason::Operation { column: "action" }),
            (15, Reason::Number { column: "device" }),
        ],
    );
}

#[test]
fn blkparse_of_what_was_sent_to_the_driver_only() {
    check(
        Format::Blkparse,
        "8,16 0 1 1.000000000 9 D R 8 + 8 [dd]\n\
         8,16 0 2 1.000100000 9 C R 8 + 8 [0]\n\
         8,16 0 3 1.000200000 9 D R 16 + 8 [dd]\n",
        &["0 read 4096+4096 dd-9", "200000 read 8192+4096 dd-9"],
        &[],
    );
}

/// A request queued before the trace began shows only when it is sent; a later one must not count twice.
#[test]
fn blkparse_that_begins_with_requests_under_way() {
    check(
        Format::Blkparse,
        "8,16 0 1 0.0 9 D R 8 + 8 [dd]\n\
         8,16 0 2 0.1 9 Q R 16 + 8 [dd]\n\
         8,16 0 3 0.2 9 D R 16 + 8 [dd]\n",
        &["0 read 4096+4096 dd-9", "100000000 read 8192+4096 dd-9"],
        &[],
    );
}

#[test]
fn iolog_of_version_3() {
    check(
        Format::FioIolog,
        "fio version 3 iolog\n\
         32 /dev/vdb add\n\
         209 /dev/vdb open\n\
         217 /dev/vdb read 0 4096\n\
         522 /dev/vdb write 53248 4096\n\
         638 /dev/vdc trim 28672 1048576\n\
         794 /dev/vdb sync 61440 0\n\
         794 /dev/vdb datasync 61440 0\n\
         794 /dev/vdb wait 1000 0\n\
         795 /dev/vdb read 0\n\
         796 /dev/vdb dance 0 1\n\
         7903 /dev/vdb close\n",
        &[
            "0 read 0+4096 /dev/vdb",
            "305000 write 53248+4096 /dev/vdb",
            "421000 discard 28672+1048576 /dev/vdc",
            "577000 flush 0+0 /dev/vdb",
            "577000 flush 0+0 /dev/vdb",
        ],
        &[
            (9, Reason::Operation { column: "action" }),
            (10, Reason::Missing { column: "length" }),
            (11, Reason::Operation { column: "action" }),
        ],
    );
}

#[test]
fn iolog_of_version_2() {
    check(
        Format::FioIolog,
        "fio version 2 iolog\n\
         /a add\n\
         /b add\n\
         /a open\n\
         /a read 0 4096\n\
         /a read 4096 4096\n\
         /a wait 1500 0\n\
         /a wait 99 0\n\
         /a write 8192 512\n\
         /b write 0 512\n\
         /b wait 500 0\n\
         /b wait 1000 0\n\
         /b sync\n\
         /a write 8704 512\n\
         /a write 9216 512\n",
        &[
            "0 read 0+4096 /a",
            "0 read 4096+4096 /a",
            "1500000 write 8192+512 /a after 1500000",
            "1500000 write 0+512 /b",
            "3000000 flush 0+0 /b after 1500000",
            "3000000 write 8704+512 /a after 1500000",
            // No time has passed since the previous one: both may be in flight.
            "3000000 write 9216+512 /a",
        ],
        &[],
    );
}

#[test]
fn an_iolog_without_its_version_is_bad_lines() {
    let read = read(b"/a read 0 4096\nfio version 2 iolog\n/a read 0 4096\n", Format::FioIolog);
    assert_eq!(read.bad.first[0].2, Reason::NoVersion);
    assert_eq!(read.records.len(), 1);
}

#[test]
fn startup() {
    check(
        Format::Startup,
        "xterm-31657 \t   0     8   113314048  Rand    -427336      0        RM   4.666589 START\n\
         xterm-31657  .015820     8   113248520  Rand     -65536      0        RA   4.682409   C\n\
         Xorg-925  .029161     8   109119744  Rand   16556008      0        RM   4.711570 START\n\
         xterm-31657  .024964     8   130091488  Rand   20971736      0        RM   4.736534\n\
         Xorg-925     8   109119752  Seq          0      8        WS   4.736600   C\n\
         Web Content-7 .1 8   8  Seq          0      8        R   4.8   C\n\
         Web Content-7 8   16  Seq          0      8        R   4.9   C\n\
         8   24  Seq          0      8        R   4.9   C\n\
         xterm-31657  .024964     8   130091488  Near   20971736      0        RM   4.9   C\n",
        &[
            "0 read 58016792576+4096 xterm-31657 metadata",
            "15820000 read 57983242240+4096 xterm-31657 after 15820000",
            "44981000 read 55869308928+4096 Xorg-925 metadata",
            // Two requests of xterm with one of Xorg between them: the pause is per process.
            "69945000 read 66606841856+4096 xterm-31657 after 54125000 metadata",
            "70011000 write 55869313024+4096 Xorg-925 after 25030000",
            "133411000 read 4096+4096 Web Content-7",
            "233411000 read 8192+4096 Web Content-7 after 100000000",
        ],
        &[(8, Reason::Name), (9, Reason::Missing { column: "Seq or Rand" })],
    );
}

#[test]
fn excerpts_of_real_traces() {
    let file =
        |name| std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();

    let bytes = file("cloudphysics.csv");
    assert_eq!(Format::detect(&bytes), Some(Format::CloudPhysics));
    let trace = read(&bytes, Format::CloudPhysics);
    assert_eq!((trace.records.len(), trace.bad.count, trace.skipped), (400, 0, 1));
    let reads = trace.records.iter().filter(|record| record.op == Op::Read).count();
    assert_eq!(reads, lines_of(&bytes).filter(|line| line.contains(",28,")).count());
    assert!(reads > 100);

    let bytes = file("xterm.trace");
    assert_eq!(Format::detect(&bytes), Some(Format::Startup));
    let trace = read(&bytes, Format::Startup);
    assert_eq!((trace.records.len(), trace.bad.count), (400, 0));
    assert_eq!(trace.streams, ["xterm-31657", "Xorg-925"]);
    assert_eq!(trace.records.iter().filter(|record| !record.dependent).count(), 2);
    // The pauses equal the trace's own column within one process.
    assert_eq!(trace.records[1].delay_ns, 15_820_000);
    assert_eq!(trace.records[399].at_ns, 6_214_251_000 - 4_666_589_000);

    let bytes = file("randrw.iolog");
    assert_eq!(Format::detect(&bytes), Some(Format::FioIolog));
    let trace = read(&bytes, Format::FioIolog);
    assert_eq!((trace.records.len(), trace.bad.count, trace.skipped), (18, 0, 4));
    let written: u32 =
        trace.records.iter().filter(|record| record.op == Op::Write).map(|record| record.len).sum();
    let syncs = trace.records.iter().filter(|record| record.op == Op::Flush).count();
    assert_eq!((written, syncs), (6 * 4096, 2));
}

/// Traces of other tools and collections, with the columns that read them.
#[test]
fn columns_take_traces_of_others() {
    for (columns, text, wanted) in [
        (
            // vscsiStats.
            "csv:time_us=6,op=4,lba512=5,bytes=2,device=1",
            "#Vscsi Cmd Trace. (Trace Format Version 1)\n\
             2147483692,4096,1,write,24048,2756778\n\
             2147483769,8192,1,read,6322,2756785\n",
            &["0 write 12312576+4096 2147483692", "7000 read 3236864+8192 2147483769"][..],
        ),
        (
            // SPC: two requests of one second.
            "csv:time_s=5,op=4,lba512=2,bytes=3,device=1",
            "0,303567,3584,w,0.000000\n1,55590,3072,R,0.011720\n",
            &["0 write 155426304+3584 0", "11720000 read 28462080+3072 1"],
        ),
        (
            // SYSTOR '17.
            "csv:time_s=1,op=3,offset=5,bytes=6,device=4",
            "Timestamp,Response,IOType,LUN,Offset,Size\n\
             1455592000.132,0.000231,W,3,8190976,4096\n\
             1455592000.133,,R,3,0,16384\n",
            &["0 write 8190976+4096 3", "1000000 read 0+16384 3"],
        ),
        (
            // FIU.
            "words:time_ns=1,op=6,lba512=4,blocks512=5,device=7,stream=3",
            "89968195792462 20782 gzip 283193184 8 W 6 0 56f11b711d91\n\
             89968195793000 20783 tar 8 16 R 6 0 56f11b711d92\n",
            &["0 write 144994910208+4096 gzip", "538 read 4096+8192 tar"],
        ),
        (
            // MQSim and DiskSim: 0 writes, 1 reads.
            "words:time_ns=1,op=5,lba512=3,blocks512=4,device=2,read=1,write=0",
            "4851300 1 524288 16 0\n4864300 1 8 16 1\n",
            &["0 write 268435456+8192 1", "13000 read 4096+8192 1"],
        ),
        (
            // biosnoop: names of processes may have spaces, so columns count from the end.
            "words:time_s=1,op=-4,lba512=-3,bytes=-2,device=-5,skip=1",
            "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)\n\
             0.000004    Web Content    1950   xvda1     W 13092560   4096      0.74\n\
             0.002       jbd2/xvda1-8   213    xvda1     RM 16        4096      0.74\n",
            &["0 write 6703390720+4096 xvda1", "1996000 read 8192+4096 xvda1 metadata"],
        ),
        (
            // perf script: one of its events.
            "words:time_s=4,op=7,lba512=10,blocks512=12,device=6,stream=1,only=5:block:block_rq_issue:",
            "fio  1234 [001] 1154.500000: block:block_rq_issue: 8,0 WS 4096 () 2048 + 8 [fio]\n\
             fio  1234 [001] 1154.500100: block:block_rq_complete: 8,0 WS () 2048 + 8 [0]\n\
             fio  1234 [001] 1154.500200: block:block_rq_issue: 8,0 DS 4096 () 8 + 8 [fio]\n",
            &["0 write 1048576+4096 fio", "200000 discard 4096+4096 fio"],
        ),
        (
            // Windows: ticks of 100 ns, quoted names, blocks of 4 KiB.
            "csv:time_100ns=1,op=2,lba4096=3,blocks4096=4,stream=5,discard=TrimFile,sep=;",
            "10;Read;1;2;\"a b\"\n25;TrimFile;3;1;\"a b\"\n26;Flush;;;\"c\"\n",
            &["0 read 4096+8192 a b", "1500 discard 12288+4096 a b", "1600 flush 0+0 c"],
        ),
    ] {
        let format: Format = columns.parse().unwrap_or_else(|error| panic!("{columns}: {error}"));
        let trace = read(text.as_bytes(), format);
        assert_eq!(trace.bad.first, [], "{columns}");
        assert_eq!(story(&trace.records, &trace.streams), wanted, "{columns}");
    }
}

#[test]
fn lines_without_the_columns_are_bad() {
    let format: Format = "csv:time_us=6,op=4,lba512=5,bytes=2".parse().unwrap();
    let text = "a,b,c,d,e,f\n1,512,1,read,8,0\n1,512,1,read,8\n1,512,1,seek,8,1\n1,x,1,read,8,1\n1,512,1,read,8,y\n\
                1,512,1,read,36028797018963968,1\n1,0,1,read,8,1\n";
    let trace = read(text.as_bytes(), format);
    let found: Vec<_> = trace.bad.first.iter().map(|&(line, _, reason)| (line, reason)).collect();
    assert_eq!(
        found,
        [
            (3, Reason::Missing { column: "time" }),
            (4, Reason::Operation { column: "op" }),
            (5, Reason::Number { column: "length" }),
            (6, Reason::Time { column: "time" }),
            (7, Reason::BeyondEnd),
            (8, Reason::LengthZero),
        ]
    );
    assert_eq!((trace.records.len(), trace.skipped), (1, 1), "the first line has the names");
}

/// A trace of completions alone has their times, and no process.
#[test]
fn blkparse_of_completions_only() {
    check(
        Format::Blkparse,
        "8,0 0 1 1.000000000 0 C R 8 + 8 [0]\n\
         8,0 1 2 1.000100000 77 C WSM 16 + 8 [0]\n",
        &["0 read 4096+4096 8,0", "100000 write 8192+4096 8,0 metadata"],
        &[],
    );
    let begun = "8,0 0 1 0.1 9 C R 8 + 8 [0]\n8,0 0 2 0.2 9 D R 16 + 8 [dd]\n8,0 0 3 0.3 9 C R 16 + 8 [0]\n";
    let trace = read(begun.as_bytes(), Format::Blkparse);
    assert_eq!((trace.records.len(), trace.completions), (2, 1), "what is sent counts once");
}

#[test]
fn one_device_of_several_is_taken() {
    let blkparse = "8,0 0 1 0.1 9 Q R 8 + 8 [dd]\n253,0 0 2 0.2 9 Q R 16 + 8 [dd]\n8,0 0 3 0.3 9 Q R 24 + 8 [dd]\n";
    let alibaba = "1,R,0,512,7\n2,R,0,512,8\n1,R,512,512,9\n";
    let msr = "1,usr,0,Read,0,512,1\n2,usr,1,Read,0,512,1\n3,usr,0,Read,512,512,1\n";
    let columns = "csv:time_us=1,op=3,offset=4,bytes=5,device=2";
    for (format, text, device, other) in [
        (Format::Blkparse, blkparse, "8,0", "253,0"),
        (Format::Alibaba, alibaba, "1", "2"),
        (Format::Msr, msr, "usr_0", "usr_1"),
        (columns.parse().unwrap(), "1,a,R,0,512\n2,b,R,0,512\n3,a,R,512,512\n", "a", "b"),
    ] {
        let mut reader = weir_trace::Reader::new(text.as_bytes(), format.clone());
        reader.by_ref().for_each(drop);
        assert_eq!(reader.devices(), (vec![device.into(), other.into()], false), "{format}");

        let mut reader = weir_trace::Reader::new(text.as_bytes(), format.clone());
        reader.only_device(device).unwrap();
        let records: Vec<Record> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(records.len(), 2, "{format}");
        assert_eq!((reader.passed_over(), reader.streams().len()), (1, 1), "{format}");

        let mut reader = weir_trace::Reader::new(text.as_bytes(), format.clone());
        reader.only_device("c").unwrap();
        assert_eq!(reader.by_ref().count(), 0);
        assert_eq!(reader.devices().0, [device, other], "{format}");
    }
    let mut reader = weir_trace::Reader::new(&b""[..], Format::CloudPhysics);
    let error = reader.only_device("sda").unwrap_err().to_string();
    assert_eq!(error, "the format cloudphysics does not say of which device requests are");
}

/// Ten requests in each of three seconds, with whole-second times.
#[test]
fn requests_of_whole_seconds_go_evenly_over_them() {
    let line = |at: u64| format!("{},{},8,0,1\n", 1_538_323_200 + at / 10, at * 8);
    let text: String = (0..30).map(line).collect();
    let trace = read(text.as_bytes(), Format::Tencent);
    for (at, record) in trace.records.iter().enumerate() {
        assert_eq!(record.at_ns, at as u64 * 100_000_000);
    }
    // The first of each second keeps its time.
    assert_eq!(trace.spread, 27);
    // A time with a fraction: the others keep theirs.
    let finer = "1,5,28,512,1\n1,5,28,512,1\n1,5.25,28,512,1\n1,6,28,512,1\n1,6,28,512,1\n";
    let trace = read(finer.as_bytes(), Format::CloudPhysics);
    let times: Vec<u64> = trace.records.iter().map(|record| record.at_ns).collect();
    assert_eq!((times, trace.spread), (vec![0, 0, 250_000_000, 1_000_000_000, 1_000_000_000], 0));
    // In a second with more than are held, later ones are spread over its rest: never back, never beyond.
    let text: String = (0..200_000).map(|at| format!("{},0,8,0,1\n", 5 + at / 199_999)).collect();
    let trace = read(text.as_bytes(), Format::Tencent);
    let times: Vec<u64> = trace.records.iter().map(|record| record.at_ns).collect();
    assert!(times.is_sorted() && times[199_998] < 1_000_000_000 && times[199_999] == 1_000_000_000);
    let in_half = times.iter().filter(|&&at| at < 500_000_000).count();
    assert_eq!(in_half, 65_536);
}

/// The line of a record, however many later lines have been read.
#[test]
fn a_record_knows_its_line() {
    let text = "1,5,28,512,1\nbad\n1,5,28,512,2\n1,6,28,512,3\n";
    let mut reader = weir_trace::Reader::new(text.as_bytes(), Format::CloudPhysics);
    let mut lines = Vec::new();
    while let Some(record) = reader.next() {
        record.unwrap();
        lines.push(reader.line());
    }
    assert_eq!((lines, reader.lines()), (vec![1, 3, 4], 4));
}
