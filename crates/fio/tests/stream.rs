//! The rows of jobs: against rows that fio 3.33 wrote down, and for what must hold of every row.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use weir_fio::stream::{Access, Step, Stream, StreamError};
use weir_fio::{Job, parse};

fn jobs(sections: &str) -> Vec<Job> {
    parse("test.fio", sections.as_bytes(), &BTreeMap::new())
        .unwrap_or_else(|errors| panic!("{errors}"))
        .jobs
}

/// The job of options that stand in one line.
fn job(options: &str) -> Job {
    let lines: Vec<_> = options.split_whitespace().collect();
    jobs(&format!("[x]\n{}\n", lines.join("\n"))).remove(0)
}

/// At most `most` steps, all loops of them.
fn row(options: &str, files: &[u64], most: usize) -> Vec<Step> {
    row_of(&job(options), files, 1, most)
}

fn row_of(job: &Job, files: &[u64], seed: u64, most: usize) -> Vec<Step> {
    let mut stream = Stream::new(job, files, seed).unwrap_or_else(|error| panic!("{error}"));
    let mut steps = Vec::new();
    for _ in 0..job.options.loops {
        while steps.len() < most
            && let Some(step) = stream.next()
        {
            steps.push(step);
        }
        if stream.is_exhausted() {
            break;
        }
        stream.restart();
    }
    steps
}

/// As the fixtures write it.
fn write(step: &Step) -> String {
    match *step {
        Step::Io { access, file, offset, len } => {
            let letter = match access {
                Access::Read => 'r',
                Access::Write => 'w',
                Access::Trim => 't',
            };
            format!("{letter}{file}@{offset}+{len}")
        }
        Step::Sync { file, data_only: false } => format!("sync{file}"),
        Step::Sync { file, data_only: true } => format!("datasync{file}"),
    }
}

/// Options, files, and fio's row.
fn fixtures(text: &str) -> Vec<(&str, Vec<u64>, Vec<&str>)> {
    text.split("\n> ")
        .skip(1)
        .map(|part| {
            let (options, rest) = part.split_once("\n= ").expect("files");
            let (files, row) = rest.split_once('\n').expect("a row");
            let files = files.split(' ').map(|bytes| bytes.parse().expect("bytes")).collect();
            (options, files, row.split_whitespace().collect())
        })
        .collect()
}

#[test]
fn requests_without_chance_are_the_same_as_in_fio() {
    for (options, files, theirs) in fixtures(include_str!("stream/exact.txt")) {
        let mut ours: Vec<_> = row(options, &files, 1000).iter().map(write).collect();
        // fio, which looks for a sync before each request, finds the one that was due when the first loop ended.
        if options == "rw=write size=16k fsync=2 end_fsync=1 loops=2" {
            assert_eq!(ours[5..7], ["sync0", "sync0"]);
        }
        ours.truncate(1000);
        assert_eq!(ours, theirs, "{options}");
    }
}

#[test]
fn endless_requests_are_the_same_as_in_fio() {
    for (options, files, theirs) in fixtures(include_str!("stream/endless.txt")) {
        let ours: Vec<_> = row(options, &files, theirs.len()).iter().map(write).collect();
        assert_eq!(ours, theirs, "{options}");
        assert_eq!(row(options, &files, 10_000).len(), 10_000);
    }
}

#[test]
fn random_requests_with_a_map_touch_the_same_blocks_as_in_fio() {
    for (options, files, theirs) in fixtures(include_str!("stream/once.txt")) {
        let ours: Vec<_> = row(options, &files, 1000).iter().map(write).collect();
        let shape = |step: &str| {
            let (before, after) = step.split_once('@').expect("a request");
            (before.to_owned(), after.split_once('+').expect("a length").1.to_owned())
        };
        let ours_shape: Vec<_> = ours.iter().map(|step| shape(step)).collect();
        let theirs_shape: Vec<_> = theirs.iter().map(|step| shape(step)).collect();
        assert_eq!(ours_shape, theirs_shape, "{options}");
        let mut ours = ours;
        let mut theirs = theirs;
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{options}");
    }
}

#[test]
fn requests_of_a_mix_are_the_same_as_in_fio_by_direction() {
    for (options, files, theirs) in fixtures(include_str!("stream/mixed.txt")) {
        let ours: Vec<_> = row(options, &files, 1000).iter().map(write).collect();
        for letter in ['r', 'w'] {
            let ours: Vec<_> = ours.iter().filter(|step| step.starts_with(letter)).collect();
            let theirs: Vec<_> = theirs.iter().filter(|step| step.starts_with(letter)).collect();
            // Each pass over the region ends where chance has it, so only the first is alike.
            let pass = if options.contains("io_size") { 1 } else { usize::MAX };
            let both = ours.len().min(theirs.len()).min(pass);
            assert_eq!(ours[..both], theirs[..both], "{options}");
            assert_eq!(ours.is_empty(), theirs.is_empty(), "{options}");
        }
    }
}

/// Requests as (direction, offset, length).
fn requests(options: &str, files: &[u64], most: usize) -> Vec<(Access, u64, u64)> {
    row(options, files, most)
        .into_iter()
        .filter_map(|step| match step {
            Step::Io { access, offset, len, .. } => Some((access, offset, u64::from(len))),
            Step::Sync { .. } => None,
        })
        .collect()
}

/// fio: 7147 reads and 3093 writes of `rw=rw size=40m rwmixread=70`; runs of one write 1506 times of 2168.
#[test]
fn a_mix_keeps_its_percentages() {
    let made = requests("rw=rw size=40m rwmixread=70", &[40 << 20], usize::MAX);
    assert_eq!(made.len(), 10_240);
    let reads = made.iter().filter(|made| made.0 == Access::Read).count();
    assert!((7_000..7_340).contains(&reads), "{reads}");
    let runs = made.chunk_by(|a, b| a.0 == b.0).filter(|run| run[0].0 == Access::Write);
    let (one, all) =
        runs.fold((0, 0), |(one, all), run| (one + usize::from(run.len() == 1), all + 1));
    assert!((66..74).contains(&(one * 100 / all)), "{one} of {all}");
}

/// fio: 439 of 64k, 389 of 32k, 104 of 4k.
#[test]
fn block_splits_keep_their_percentages() {
    let made = requests("rw=read size=40m bssplit=4k/10:64k/50:32k/40", &[40 << 20], usize::MAX);
    let share = |bytes| made.iter().filter(|made| made.2 == bytes).count() * 100 / made.len();
    assert!((8..13).contains(&share(4 << 10)) && (46..55).contains(&share(64 << 10)));
    assert!((36..45).contains(&share(32 << 10)));
}

/// fio: 6155 in the first tenth, 3083 in the next two, 807 in the next three and 195 in the last four, of 10240.
#[test]
fn zones_have_their_share() {
    let options = "rw=randread size=4m io_size=40m random_distribution=zoned:60/10:30/20:8/30:2/40";
    let made = requests(options, &[4 << 20], usize::MAX);
    assert_eq!(made.len(), 10_240);
    let within = |from: u64, to: u64| {
        let range = (4 << 20) * from / 100..(4 << 20) * to / 100;
        made.iter().filter(|made| range.contains(&(made.1 / 4096 * 4096))).count()
    };
    assert!(within(0, 10).abs_diff(6_144) < 200, "{}", within(0, 10));
    assert!(within(10, 30).abs_diff(3_072) < 200 && within(30, 60).abs_diff(819) < 150);
}

/// fio: 8 requests apart of 30.6 % (`percentage_random=30`); `:N` draws each N-th offset, in a mix for both directions.
#[test]
fn offsets_between_two_draws_follow_the_sequencer() {
    let apart = |made: &[(Access, u64, u64)]| {
        let pairs = made.windows(2);
        pairs
            .enumerate()
            .filter(|(_, pair)| pair[1].1 != pair[0].1 + pair[0].2)
            .map(|(at, _)| at + 1)
            .collect()
    };
    let made = requests("rw=randread size=40m percentage_random=30", &[40 << 20], usize::MAX);
    let drawn: Vec<usize> = apart(&made);
    assert!((29..33).contains(&(drawn.len() * 100 / made.len())), "{}", drawn.len());

    let made = requests("rw=randread:8 size=1g io_size=4m", &[1 << 30], usize::MAX);
    let drawn: Vec<usize> = apart(&made);
    assert!(drawn.iter().filter(|at| *at % 8 == 0).count() > 120, "{drawn:?}");
    assert!(drawn.iter().all(|at| at % 8 == 0 || made[*at - 1].1 + 4096 == 1 << 30), "{drawn:?}");

    let made = requests(
        "rw=randwrite:8 rw_sequencer=identical size=1g io_size=4m",
        &[1 << 30],
        usize::MAX,
    );
    assert!(made.chunks(8).all(|same| same.iter().all(|made| made.1 == same[0].1)));
    let places: BTreeSet<_> = made.iter().map(|made| made.1).collect();
    assert_eq!(places.len(), made.len() / 8);

    let made =
        requests("rw=randrw percentage_random=100,0 size=1g io_size=1m", &[1 << 30], usize::MAX);
    let writes: Vec<_> =
        made.iter().filter(|made| made.0 == Access::Write).map(|made| made.1).collect();
    assert!(writes.iter().zip(0..).all(|(offset, index)| *offset == index * 4096), "{writes:?}");
}

/// What fio reads again, and in which order, where requests may come twice: each once, by offset.
#[test]
fn verification_without_a_map() {
    let made = row("verify=md5 rw=randwrite norandommap size=256k", &[256 << 10], 1000);
    let (writes, reads) = made.split_at(64);
    let offset = |step: &Step| match step {
        Step::Io { offset, .. } => *offset,
        Step::Sync { .. } => panic!("no sync was asked for"),
    };
    assert!(writes.iter().all(|step| matches!(step, Step::Io { access: Access::Write, .. })));
    assert!(reads.iter().all(|step| matches!(step, Step::Io { access: Access::Read, .. })));
    let written: BTreeSet<_> = writes.iter().map(offset).collect();
    assert_eq!(
        reads.iter().map(offset).collect::<Vec<_>>(),
        written.into_iter().collect::<Vec<_>>()
    );
}

/// The writes, in their order.
#[test]
fn verification_of_a_mix() {
    for options in [
        "verify=md5 rw=randrw size=256k",
        "verify=md5 rw=randrw size=1m bsrange=4k-16k",
        "verify=md5 rw=randrw:4 size=256k verify_backlog=5",
        "verify=md5 rw=randrw size=256k verify_backlog=5 time_based runtime=1",
    ] {
        let job = job(options);
        let mut stream = Stream::new(&job, &[1 << 20], 5).unwrap();
        let (mut written, mut again) = (Vec::new(), Vec::new());
        while again.len() < 1000
            && let Some(step) = stream.next()
        {
            match step {
                Step::Io { access: Access::Write, offset, len, .. } => written.push((offset, len)),
                Step::Io { offset, len, .. } if stream.is_verifying() => again.push((offset, len)),
                _ => {}
            }
        }
        assert!(again.len() > 10, "{options}");
        assert_eq!(again, written[..again.len()], "{options}");
        assert!(written.len() - again.len() <= 5, "{options}");
    }
}

#[test]
fn each_block_comes_once_with_any_lengths() {
    // The least that is touched, in percent. A length that is no multiple of the smallest leaves a part of a block; a mix
    // is over when one direction finds no place, and what is left has room for the other only (fio, whose map counts
    // in other units for each direction, leaves half).
    for (options, files, least) in [
        ("rw=randread size=3m bsrange=4k-64k", &[3_u64 << 20][..], 100),
        ("rw=randread size=3m bssplit=4k/30:12k/40:24k/30", &[3 << 20], 100),
        ("rw=randread nrfiles=3 size=3m bsrange=4k-64k", &[1 << 20; 3], 100),
        ("rw=randwrite size=999k bsrange=3k-10k", &[999 << 10], 96),
        ("rw=randrw size=3m bs=4k,16k", &[3 << 20], 80),
    ] {
        let mut touched: Vec<(u32, u64, u64)> = row(options, files, usize::MAX)
            .iter()
            .map(|step| match *step {
                Step::Io { file, offset, len, .. } => (file, offset, offset + u64::from(len)),
                Step::Sync { .. } => panic!("no sync was asked for"),
            })
            .collect();
        touched.sort_unstable();
        for pair in touched.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{options}: {pair:?} twice");
        }
        let sum: u64 = touched.iter().map(|(_, from, to)| to - from).sum();
        assert!(sum * 100 / files.iter().sum::<u64>() >= least, "{options}: {sum}");
    }
}

#[test]
fn passes_repeat_and_time_does_not() {
    let twice = |options: &str| {
        let made = row(options, &[1 << 20], 512);
        assert_eq!(made.len(), 512, "{options}");
        let (first, second) = made.split_at(256);
        let sorted = |steps: &[Step]| steps.iter().map(write).collect::<BTreeSet<_>>();
        assert_eq!(sorted(first), sorted(second), "{options}");
        first == second
    };
    assert!(twice("rw=randread size=1m loops=2"));
    assert!(twice("rw=randread size=1m io_size=2m"));
    assert!(!twice("rw=randread size=1m loops=2 randrepeat=0"));
    assert!(!twice("rw=randread size=1m time_based runtime=1"));
}

#[test]
fn jobs_differ_and_a_seed_repeats_its_requests() {
    let twins = "[a]\nrw=randread\nsize=1m\nnumjobs=2\n[b]\nrw=randread\nsize=1m\n[a]\nrw=randread\nsize=1m\n";
    for seeded in ["", "randseed=7\n"] {
        let jobs = jobs(&format!("[global]\n{seeded}{twins}"));
        let rows: BTreeSet<Vec<String>> = jobs
            .iter()
            .map(|job| row_of(job, &[1 << 20], 1, usize::MAX).iter().map(write).collect())
            .collect();
        assert_eq!(rows.len(), 4, "{seeded}");
        for job in &jobs {
            let of = |seed| row_of(job, &[1 << 20], seed, usize::MAX);
            assert_eq!(of(1), of(1));
            // `randseed` stands in for the seed.
            assert_eq!(of(1) == of(2), !seeded.is_empty());
        }
    }
}

/// The first offsets of a seed, in blocks.
#[test]
fn requests_of_a_seed_never_change() {
    let first = |options: &str| -> Vec<u64> {
        requests(options, &[1 << 30], 8).into_iter().map(|made| made.1 / 4096).collect()
    };
    for (options, blocks) in [
        ("rw=randread", [5940, 241940, 196373, 155020, 217371, 260596, 35619, 181711]),
        ("rw=randread norandommap", [17576, 251607, 29063, 23934, 54540, 10812, 216740, 151520]),
        (
            "rw=randread random_distribution=zipf:1.2",
            [89756, 196543, 138071, 194964, 42309, 106293, 196543, 158],
        ),
        (
            "rw=randread random_distribution=pareto:0.2",
            [196543, 112030, 196543, 196543, 228177, 196543, 80385, 107462],
        ),
        (
            "rw=randread random_distribution=normal:10",
            [140528, 141745, 148379, 87762, 88393, 200777, 135044, 154656],
        ),
        (
            "rw=randread bsrange=4k-64k",
            [17576, 29063, 54540, 216740, 205985, 257810, 200358, 87581],
        ),
    ] {
        assert_eq!(first(options), blocks, "{options}");
    }
}

#[test]
fn impossible_jobs_are_refused() {
    let error = |options: &str, files: &[u64]| Stream::new(&job(options), files, 1).unwrap_err();
    assert_eq!(error("size=4k", &[]), StreamError::NoFiles);
    assert_eq!(
        error("size=4k offset=1m", &[1 << 20]),
        StreamError::OffsetBeyondFile { file: 0, offset: 1 << 20, bytes: 1 << 20 }
    );
    assert_eq!(
        error("size=8k nrfiles=2", &[4096, 4095]),
        StreamError::RegionBeyondFile { file: 1, end: 4096, bytes: 4095 }
    );
    assert_eq!(
        error("rw=rw bs=4k,64k", &[32 << 10]),
        StreamError::BlockBeyondRegion { file: 0, block: 64 << 10, region: 32 << 10 }
    );
    assert_eq!(
        error("bs=4g", &[8 << 30]),
        StreamError::BlockTooLong { block: 4 << 30, max: u64::from(u32::MAX) }
    );
    assert_eq!(
        error("rw=randread random_distribution=zoned_abs:50/1m:50/1m", &[1 << 20]),
        StreamError::ZoneBeyondRegion { file: 0, begin: 1 << 20, region: 1 << 20 }
    );
    assert_eq!(
        error("size=8k offset=4k", &[8 << 10]).to_string(),
        "file 0: the region ends at byte 12288, and the file has 8192 bytes"
    );
    assert!(Stream::new(&job("rw=read"), &[0], 1).is_err());
    assert!(Stream::new(&job("rw=read offset=100%"), &[1 << 20], 1).is_err());
}

#[test]
fn stopped_jobs_sync_and_end() {
    for (options, syncs) in [
        ("rw=write end_fsync=1", 2),
        ("rw=read end_fsync=1", 0),
        ("rw=randrw fsync_on_close=1 verify=md5", 2),
    ] {
        let job = job(&format!("{options} nrfiles=2 time_based runtime=1"));
        let mut stream = Stream::new(&job, &[1 << 20; 2], 1).unwrap();
        assert!((0..1000).all(|_| stream.next().is_some()));
        stream.stop();
        let rest: Vec<_> = (0..5).map_while(|_| stream.next()).map(|step| write(&step)).collect();
        assert_eq!(rest, ["sync0", "sync1"][..syncs], "{options}");
        stream.stop();
        assert_eq!(stream.next(), None);
    }
}

/// Requests through 16 MiB with random lengths: what is cut off before a touched block is another request. Beside the
/// mean of eight runs of fio 3.33, which scatter by 1 to 3 %.
#[test]
fn varying_lengths_fill_a_file_as_in_fio() {
    for (options, theirs) in [
        ("bssplit=4k/10:64k/50:32k/40", 508.25),
        ("bssplit=4k/90:64k/10", 3060.25),
        ("bsrange=512-8k", 5375.6),
        ("bsrange=4k-64k", 676.1),
    ] {
        let job = job(&format!("rw=randread size=16m {options}"));
        let counts = (1..=8).map(|seed| row_of(&job, &[16 << 20], seed, usize::MAX).len());
        let ours = counts.sum::<usize>() as f64 / 8.0;
        assert!((ours / theirs - 1.0).abs() < 0.05, "{options}: {ours}, fio {theirs}");
    }
}

/// Each block once until all were touched, and so many bytes before the next zone.
#[test]
fn drawn_requests_stay_in_their_zone() {
    let zone = "bs=4k zonemode=strided zonerange=64k zoneskip=64k";
    for (options, turn, rounds) in [
        ("rw=randread zonesize=32k size=256k", 8, 1),
        ("rw=randwrite zonesize=64k size=512k", 16, 1),
        ("rw=randtrim zonesize=64k size=512k", 16, 1),
        ("rw=randrw zonesize=192k size=1536k io_size=1536k", 48, 3),
        ("rw=randread zonesize=96k size=768k", 24, 2),
        ("rw=randrw zonesize=64k size=512k percentage_random=60", 16, 0),
        ("rw=randread zonesize=64k size=512k random_distribution=zipf", 16, 0),
        ("rw=randread zonesize=64k size=512k norandommap", 16, 0),
    ] {
        let steps = row(&format!("{options} {zone}"), &[4 << 20], 1000);
        assert_eq!(steps.len(), 8 * turn, "{options}");
        for (number, turn) in steps.chunks(turn).enumerate() {
            let start = number as u64 * (128 << 10);
            let mut times = BTreeMap::new();
            for step in turn {
                let Step::Io { offset, len: 4096, .. } = *step else { panic!("{step:?}") };
                assert!((start..start + (64 << 10)).contains(&offset), "{options}: {step:?}");
                *times.entry(offset).or_insert(0) += 1;
            }
            if rounds > 0 {
                assert!(times.values().all(|times| *times <= rounds), "{options}: {times:?}");
                assert_eq!(times.len(), turn.len().min(16), "{options}");
            }
        }
    }
    // What does not come out even begins again when all is touched; fio ends there.
    let options = "rw=randread bsrange=4k-20k zonemode=strided zonesize=200k zonerange=64k size=2m";
    let steps = row(options, &[4 << 20], 10_000);
    let bytes_of = |step: &Step| match *step {
        Step::Io { len, .. } => u64::from(len),
        Step::Sync { .. } => 0,
    };
    let bytes: u64 = steps.iter().map(bytes_of).sum();
    assert!((2 << 20..(2 << 20) + (20 << 10)).contains(&bytes), "{bytes}");
    let options = "rw=randread bs=128k zonemode=strided zonesize=64k";
    let refused = StreamError::BlockBeyondZone { block: 128 << 10, zone: 64 << 10 };
    assert_eq!(Stream::new(&job(options), &[4 << 20], 1).map(|_| ()), Err(refused));
}

/// Forty thousand processes have forty thousand of these.
#[test]
fn a_stream_is_small() {
    assert!(size_of::<Stream>() <= 256, "{}", size_of::<Stream>());
}

/// One of each.
fn any_options() -> impl Strategy<Value = String> {
    let one = |of: &'static [&'static str]| prop::sample::select(of);
    let where_and_what = (
        one(&[
            "rw=read",
            "rw=write:4k",
            "rw=read:-12k",
            "rw=rw:3k",
            "rw=trim",
            "rw=trimwrite",
            "rw=randread",
            "rw=randwrite:5",
            "rw=randrw",
            "rw=randrw:3",
            "rw=randtrim",
            "rw=randtrimwrite",
            "rw=randtrimwrite:4",
            "rw=trimwrite:8k",
            "rw=rw",
        ]),
        one(&["", "rw_sequencer=identical"]),
        one(&["", "rwmixread=0", "rwmixread=93", "rwmixread=100"]),
        one(&["", "percentage_random=40", "percentage_random=10,90,0"]),
        one(&[
            "",
            "bs=512",
            "bs=4k,12k,8k",
            "bsrange=1k-17k",
            "bsrange=3k-10k,512-2k",
            "bs=7777",
            "bssplit=4k/20:16k/30:1k/50",
            "bssplit=12k/0:4k/10:8k/20",
            "bs=24k",
        ]),
        one(&["", "ba=512", "ba=5k", "ba=64k,4k"]),
        one(&["", "bs_unaligned"]),
        one(&["", "norandommap"]),
    );
    let how_much = (
        one(&[
            "",
            "random_distribution=zipf",
            "random_distribution=zipf:0.3:0.9",
            "random_distribution=pareto:0.3",
            "random_distribution=normal:20",
            "random_distribution=zoned:10/1:80/20:10/3",
            "random_distribution=zoned_abs:50/6k:50/90k",
        ]),
        one(&["", "size=100k", "size=50%", "size=77777", "size=120k"]),
        one(&["", "io_size=10k", "io_size=300k", "io_size=250%"]),
        one(&["", "offset=3k", "offset=20%", "offset=10k offset_increment=1k"]),
        one(&["", "number_ios=7", "number_ios=150"]),
        one(&["", "loops=3", "time_based runtime=1"]),
        one(&[
            "",
            "",
            "zonemode=strided zonesize=8k zonerange=32k",
            "zonemode=strided zonesize=50k zonerange=17k zoneskip=3k",
            "zonemode=strided zonesize=24k",
        ]),
    );
    let files = (
        one(&[
            "",
            "file_service_type=random",
            "file_service_type=roundrobin:3",
            "file_service_type=sequential",
        ]),
        one(&["", "openfiles=1", "openfiles=2"]),
        one(&["", "fsync=1", "fsync=3 fdatasync=2", "fdatasync=5 end_fsync=1"]),
        one(&["", "fsync_on_close=1", "randrepeat=0"]),
        one(&[
            "",
            "verify=md5",
            "verify=md5 verify_backlog=3",
            "verify=md5 verify_backlog=4 verify_backlog_batch=7",
            "verify=md5 verify_only",
        ]),
    );
    (where_and_what, how_much, files).prop_map(|(a, b, c)| {
        let a = [a.0, a.1, a.2, a.3, a.4, a.5, a.6, a.7];
        let b = [b.0, b.1, b.2, b.3, b.4, b.5, b.6];
        let c = [c.0, c.1, c.2, c.3, c.4];
        a.iter().chain(&b).chain(&c).copied().collect::<Vec<_>>().join(" ").replace("250%", "100%")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the options: within the region, never empty, as much as was asked for, and at an end if there is one.
    #[test]
    fn requests_stay_within_their_region(options in any_options(), count in 1_usize..4, bytes in 1_u64..200_000, seed: u64) {
        let job = job(&format!("{options} nrfiles={count}"));
        let files = vec![bytes; count];
        let Ok(mut stream) = Stream::new(&job, &files, seed) else { return Ok(()) };
        let start = job.offset(bytes);
        let largest = job.options.block_size().iter().map(|size| size.max()).max().unwrap();
        let mut loops = 0;
        let mut in_loop = 0;
        // More than the longest row here: 300k of 512 bytes, each trimmed or synced and read again, in a loop of three.
        for at in 0..20_000 {
            let Some(step) = stream.next() else {
                loops += 1;
                prop_assert!(!job.options.time_based || job.options.verify_only);
                // Only a job that verifies and never writes has nothing to do.
                prop_assert!(in_loop > 0 || job.options.verify_only || loops > 1, "{options}");
                in_loop = 0;
                if loops == job.options.loops {
                    prop_assert_eq!(stream.next(), None);
                    return Ok(());
                }
                stream.restart();
                continue;
            };
            in_loop += 1;
            match step {
                Step::Io { file, offset, len, .. } => {
                    prop_assert!((file as usize) < count);
                    prop_assert!(len > 0 && u64::from(len) <= largest, "{options}: {step:?}");
                    prop_assert!(offset >= start, "{options}: {step:?} before {start}");
                    prop_assert!(offset + u64::from(len) <= bytes, "{options}: {step:?} at {at}");
                }
                Step::Sync { file, .. } => prop_assert!((file as usize) < count),
            }
        }
        prop_assert!(job.options.time_based, "{options}: no end");
    }
}
