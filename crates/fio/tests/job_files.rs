//! Job files as people have them: what comes out, what is refused, and what fio itself says of them.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use weir_fio::{
    Amount, BlockSize, CommandLine, Files, Input, IoEngine, Job, JobFile, JobText, Mix, Order,
    PerDirection, PrioClass, RandomDistribution, RateProcess, RwSequencer, UnifiedReporting, parse,
    parse_input, parse_with,
};

const STAGES: &str = include_str!("jobs/stages.fio");
const REPLAY: &str = include_str!("jobs/replay.fio");

fn read(text: &str) -> JobFile {
    let env = BTreeMap::from([("DIR".into(), "/srv".into()), ("NAME".into(), "monday".into())]);
    parse("test.fio", text.as_bytes(), &env).unwrap_or_else(|errors| panic!("{errors}"))
}

fn refused(text: &str) -> String {
    parse("x", text.as_bytes(), &BTreeMap::new()).unwrap_err().to_string()
}

/// Name, clone, stage, group.
fn plan(file: &JobFile) -> Vec<(&str, u32, u32, u32)> {
    file.jobs.iter().map(|job| (&*job.name, job.clone, job.stage, job.group)).collect()
}

/// The job file of the patch "Blk-throttle: reduce tail io latency when iops limit is enforced", unchanged.
#[test]
fn the_job_file_of_the_blk_throttle_patch_is_read() {
    let file = read(include_str!("jobs/r2.job"));
    assert_eq!(plan(&file), [("file1", 0, 0, 0)]);
    assert_eq!(file.ignored, []);
    let options = &file.jobs[0].options;
    assert_eq!(options.pattern.mix, Mix::Read);
    assert_eq!(options.pattern.order, Order::Random { requests_per_offset: 1 });
    assert_eq!(options.block_size(), PerDirection::all(BlockSize::Fixed(4096)));
    assert_eq!(options.size, Some(Amount::Bytes(4 << 30)));
    assert_eq!((options.engine, options.depth()), (IoEngine::Libaio, 1));
    assert_eq!(options.rate_iops, PerDirection::all(Some(50_000)));
    assert_eq!(options.thinktime.pause, Duration::from_millis(4));
    assert_eq!(options.runtime, Some(Duration::from_secs(60)));
    assert!(options.direct && options.time_based && options.no_random_map);
    assert!(options.group_reporting);
    assert_eq!(file.jobs[0].file_name(0).as_deref(), Some("/dev/nullb1"));
}

#[test]
fn jobs_have_stages_groups_and_clones() {
    let file = read(STAGES);
    assert_eq!(
        plan(&file),
        [
            ("layout", 0, 0, 0),
            ("readers", 0, 1, 1),
            ("readers", 1, 1, 1),
            ("readers", 2, 1, 1),
            ("readers", 3, 1, 1),
            ("writers", 0, 1, 2),
            ("readers", 0, 1, 2),
            ("trims", 0, 2, 3),
        ]
    );
    let ignored: Vec<_> = file.ignored.iter().map(|ignored| ignored.option).collect();
    assert_eq!(ignored, ["description", "thread", "write_bw_log", "fixedbufs"]);
    assert_eq!(file.jobs[6].wait_for, 5..6);
}

/// Two jobs of one name stay two.
#[test]
fn a_global_section_reaches_only_jobs_below_it() {
    let file = read(STAGES);
    let options = |index: usize| &file.jobs[index].options;
    let engines: Vec<_> = file.jobs.iter().map(|job| job.options.engine).collect();
    let mut expected = [IoEngine::Libaio; 8];
    expected[5..7].fill(IoEngine::Sync);
    expected[7] = IoEngine::IoUring;
    assert_eq!(engines, expected);
    let direct: Vec<_> = file.jobs.iter().map(|job| job.options.direct).collect();
    assert_eq!(direct, [true, true, true, true, true, false, false, true]);
    assert!(file.jobs.iter().all(|job| job.options.ramp_time == Duration::from_secs(2)));

    assert_eq!(options(0).pattern.order, Order::Sequential { skip: 0 });
    assert_eq!(options(0).size, Some(Amount::Percent(100)));
    assert_eq!((options(0).iodepth_batch, options(0).iodepth_batch_complete_min), (4, 2));
    assert_eq!((options(0).iodepth_batch_complete_max, options(0).iodepth_low), (2, 8));
    assert_eq!(
        options(1).rate,
        PerDirection { read: None, write: Some(20 << 20), trim: Some(20 << 20) }
    );
    assert_eq!(
        options(1).random_distribution,
        RandomDistribution::Zipf { theta: 1.2, center: None }
    );
    assert_eq!(options(5).read_percent, 30);
    assert_eq!(options(5).block_size().read, BlockSize::Range { min: 4096, max: 65536 });
    assert_eq!(options(5).block_size().trim, BlockSize::Range { min: 8192, max: 131_072 });
    assert_eq!(options(5).file_size, Some((64 << 20, 128 << 20)));
    assert_eq!(options(5).start_delay, (Duration::from_secs(1), Duration::from_secs(5)));
    assert_eq!((options(5).depth(), options(5).fdatasync, options(5).flow), (1, 16, Some(3)));
    assert_eq!(options(6).pattern.order, Order::Sequential { skip: 8192 });
    assert_eq!((options(6).loops, options(6).number_ios), (2, Some(102_400)));
    assert_eq!(options(6).rate_iops, PerDirection { read: Some(500), write: None, trim: None });
    assert_eq!(options(6).rate_process, RateProcess::Poisson);
    assert_eq!(options(7).unified_rw_reporting, UnifiedReporting::Mixed);
}

#[test]
fn each_clone_adds_its_offset_increment() {
    let file = read(STAGES);
    let at = |job: &Job| job.offset(1_000_001);
    // 5 % is 50,000: 13 blocks of 4 KiB, rounded up.
    assert_eq!(at(&file.jobs[1]), 53_248);
    assert_eq!(at(&file.jobs[3]), 53_248 + (20 << 30));
    assert_eq!(at(&file.jobs[0]), 0);
}

proptest! {
    #[test]
    fn a_file_has_room_behind_its_offset(
        (percent, step, clones) in (0..99u64, 0..40u64, 1..4u32),
        (size, align, fixed) in (1..1u64 << 41, 1..1u64 << 21, 0..1u64 << 30),
    ) {
        let amount = |percent| match percent {
            0 => fixed.to_string(),
            percent => format!("{percent}%"),
        };
        let (offset, increment) = (amount(percent), amount(step));
        let file = read(&format!(
            "[j]\nbs=1\noffset={offset}\noffset_increment={increment}\noffset_align={align}\n\
             size={size}\nnumjobs={clones}\n"
        ));
        for job in &file.jobs {
            let before = percent + step * u64::from(job.clone);
            if before >= 100 {
                continue;
            }
            let bytes = job.bytes_around(size);
            let rest = bytes.checked_sub(job.offset(bytes));
            prop_assert!(rest.is_some_and(|rest| rest >= size), "{job:?}: {bytes}");
            // No more than what the rounding of two parts may ask for, which is in percent of the file, too.
            let most = size + 2 * align * 100 / (100 - before) + 2;
            prop_assert!(rest.is_some_and(|rest| rest <= most), "{job:?}: {bytes}");
        }
    }
}

#[test]
fn variables_file_names_and_replay_options_are_read() {
    let file = read(REPLAY);
    let [trace, beside] = &file.jobs[..] else { panic!("{file:?}") };
    assert_eq!(&*trace.name, "trace-monday");
    assert_eq!(trace.options.read_iolog.as_deref(), Some("/srv/monday.log"));
    assert_eq!(trace.options.replay_time_scale, 200);
    assert_eq!(trace.options.replay_align, Some(4096));
    let skip = trace.options.replay_skip;
    assert_eq!([skip.read, skip.write, skip.trim, skip.sync], [false, false, true, true]);
    assert_eq!(
        (trace.options.prioclass, trace.options.prio),
        (Some(PrioClass::BestEffort), Some(4))
    );
    assert_eq!(trace.options.cgroup_weight, Some(300));
    assert_eq!(trace.file_name(0).as_deref(), Some("trace-monday.0.0"));
    assert_eq!(trace.file_name(1), None);

    assert_eq!(beside.files(), Files::Named(["/dev/a:b".into(), "/dev/c".into()].into()));
    assert_eq!(beside.options.pattern.order, Order::Random { requests_per_offset: 8 });
    assert_eq!(beside.options.rw_sequencer, RwSequencer::Identical);
    assert_eq!(beside.options.verify.as_deref(), Some("crc32c"));
    assert!(beside.options.no_random_map, "a zoned distribution keeps no map");
}

#[test]
fn comments_blanks_and_odd_lines_are_read_as_in_fio() {
    let text = "\u{feff}; top\r\n\r\n [a#1] ; one\r\n  size = 1m # mega\r\n\tstonewall ;x\r\n[b]\nsize=64k;128k\nkb_base=1000\n";
    let file = read(text);
    assert_eq!(plan(&file), [("a#1", 0, 0, 0), ("b", 0, 0, 0)]);
    assert_eq!(file.jobs[0].options.size, Some(Amount::Bytes(1 << 20)));
    assert_eq!(file.jobs[1].options.size, Some(Amount::Bytes(64_000)), "kb_base counts from above");
    assert_eq!((file.jobs[0].line, file.jobs[1].line), (3, 6));
}

#[test]
fn all_errors_of_a_file_come_at_once() {
    let text = "rw=read\n[global]\nioengine=libiao\n[a]\nioddepth=4\nsize=1.5m\nzonemode=zbd\nbs\n\
                runtime=10x\ninclude more.fio\nfilename=${WHERE}/x\n[b\n[c] d\n[e]\nwait_for=aa\nnumjobs=$ncpus\n";
    let expected = r#"x:1:1: option "rw" stands above the first [section]; write [global] above it
x:3:10: ioengine: "libiao" is none of sync, psync, vsync, pvsync, pvsync2, mmap, splice, libaio, linuxaio, posixaio, io_uring, sg, nbd, null; did you mean "libaio"?
x:5:1: unknown option "ioddepth"; did you mean "iodepth"?
x:6:6: size: "1.5m" is not a whole number: write it in a smaller unit
x:7:10: zonemode: "zbd" is not simulated: zoned devices are not among the disks
x:8:1: bs: it needs a value
x:9:9: runtime: "10x" ends in "x": allowed are us, ms, s, m, h and d
x:10:1: include "more.fio": no files are included here; write its options in its place
x:11:10: variable "WHERE" is not set
x:12:1: the section's name has no closing "]"
x:13:5: "d" follows the section's name
x:15:10: wait_for: no job above is called "aa"; did you mean "a"?
x:16:9: $ncpus depends on the machine: write the number"#;
    assert_eq!(refused(text), expected);
}

/// Files by name, found as they are written or beside the file that includes them.
fn with_files(files: &[(&str, &str)]) -> Input {
    let read = &mut |path: &str, including: &str| {
        let folder = including.rsplit_once('/').map_or("", |(folder, _)| folder);
        let beside = format!("{folder}/{path}");
        let found = files.iter().find(|(name, _)| *name == path || *name == beside);
        let (name, text) = found.ok_or("there is no such file")?;
        Ok(((*name).to_owned(), text.as_bytes().to_vec()))
    };
    let text = JobText::load(files[0].0, files[0].1, read);
    Input::of_file(text, BTreeMap::from([("DEPTH".to_owned(), "3".to_owned())]))
}

fn of_command(line: &str, files: &[(&str, &str)]) -> Result<JobFile, String> {
    let words: Vec<String> = line.split_whitespace().map(Into::into).collect();
    let command = CommandLine::read(&words).map_err(|error| error.to_string())?;
    let texts = command.files.iter().map(|file| {
        let (name, text) = files.iter().find(|(name, _)| name == file).expect("a file of the test");
        JobText::alone(*name, *text)
    });
    let input = Input { files: texts.collect(), command, env: BTreeMap::new() };
    parse_input(&input, &[]).map_err(|errors| errors.to_string())
}

#[test]
fn included_options_stand_in_the_place_of_the_line() {
    let input = with_files(&[
        (
            "/jobs/top.fio",
            "[global]\nsize=1m\nbs=4k\ninclude parts/common.fio\n[a]\nrw=write\ninclude parts/common.fio\n[b]\n",
        ),
        (
            "/jobs/parts/common.fio",
            "; for all\nbs=8k\ninclude deep.fio # more\ninclude=deep.fio\nrw=randread\n",
        ),
        ("/jobs/parts/deep.fio", "iodepth=${DEPTH}\nioengine=libaio\nthread"),
    ]);
    let file = parse_input(&input, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    for job in &file.jobs {
        let options = &job.options;
        assert_eq!(options.block_size().read, BlockSize::Fixed(8192));
        assert_eq!(
            (options.pattern.mix, options.iodepth, options.engine),
            (Mix::Read, 3, IoEngine::Libaio)
        );
    }
    assert_eq!((plan(&file).len(), file.jobs[1].line), (2, 8));
    let ignored = &file.ignored[0];
    assert_eq!((ignored.option, ignored.times), ("thread", 4));
    assert_eq!(ignored.place.words(), "/jobs/parts/deep.fio line 3");
}

/// In the order of reading.
#[test]
fn errors_of_included_files_are_told_where_they_are() {
    let input = with_files(&[
        ("/top", "include a\n[global]\nsize=1q\ninclude a\ninclude none\nbs=x\n"),
        ("/a", "iodpeth=4\n[b]\ninclude top\ninclude c\n"),
        ("/c", "rw=${WHAT}\n"),
    ]);
    let errors = parse_input(&input, &[]).unwrap_err().to_string();
    let expected = r#"/top:1:1: option "include a" stands above the first [section]; write [global] above it
/top:3:6: size: "1q" ends in "q": allowed are k, m, g, t and p, each also with b, i or ib, and b
/a:1:1: unknown option "iodpeth"; did you mean "iodepth"?
/a:2:1: a section in an included file: fio allows only options there
/a:3:1: include "top": /top includes itself
/c:1:4: variable "WHAT" is not set
/top:5:1: include "none": there is no such file
/top:6:4: bs: "x" is not a number"#;
    assert_eq!(errors, expected);
    // Twice as many lines with each of 20 files: what is read is bounded, whatever is on the disk.
    let names: Vec<String> = (0..20).map(|number| format!("/{number}")).collect();
    let texts: Vec<String> =
        (1..21).map(|number| format!("include {number}\n").repeat(2)).collect();
    let mut files: Vec<_> =
        names.iter().zip(&texts).map(|(name, text)| (&**name, &**text)).collect();
    files.insert(0, ("/top", "[a]\ninclude 0\n"));
    let errors = parse_input(&with_files(&files), &[]).unwrap_err();
    assert!(errors.errors.len() == 100 && errors.more < 2000, "{}", errors.more);
}

/// As in fio, options before the first job are for the jobs of files, too.
#[test]
fn a_command_line_gives_jobs() {
    let files =
        [("one.fio", "[global]\nbs=16k\n[one]\n"), ("two.fio", "[two]\niodepth=2\n[three]\n")];
    let line = "fio --size=1m --bs 8k --ioengine=libaio --name=first --rw=randread --direct=1 \
                --name=second --group_reporting one.fio two.fio --output=x --thread";
    let file = of_command(line, &files).unwrap();
    assert_eq!(
        plan(&file),
        [
            ("first", 0, 0, 0),
            ("second", 0, 0, 0),
            ("one", 0, 0, 0),
            ("two", 0, 1, 1),
            ("three", 0, 1, 1)
        ]
    );
    let sizes: Vec<_> =
        file.jobs.iter().map(|job| job.options.block_size().read.min() >> 10).collect();
    assert_eq!(sizes, [8, 8, 16, 16, 16]);
    assert!(file.jobs.iter().all(|job| job.options.engine == IoEngine::Libaio));
    assert_eq!((file.jobs[0].line, file.jobs[2].line), (0, 3));
    let ignored: Vec<_> =
        file.ignored.iter().map(|ignored| (ignored.option, ignored.place.words())).collect();
    assert_eq!(ignored, [("output", "--output=x".into()), ("thread", "--thread".into())]);
    // Only some of its jobs.
    let file =
        of_command("one.fio two.fio --size=1m --section=three --section=one", &files).unwrap();
    assert_eq!(plan(&file), [("one", 0, 0, 0), ("three", 0, 0, 0)]);
    // What the shell left is as it is: no comments, no variables.
    let file = of_command("--name=a;b --size=1m --filename=/dev/${X}#1;2", &[]).unwrap();
    assert_eq!(file.jobs[0].file_name(0).as_deref(), Some("/dev/${X}#1;2"));
    assert_eq!(&*file.jobs[0].name, "a;b");
}

#[test]
fn errors_of_a_command_line_name_the_argument() {
    let files = [("one.fio", "[one]\nsize=1m\nbs=0\n")];
    for (line, errors) in [
        (
            "--name=a --rw raed --bs=1.5k",
            "--rw raed: rw: \"raed\" is none of read, write, trim, rw, readwrite, trimwrite, randread, randwrite, randtrim, randrw, randtrimwrite; did you mean \"read\"?\n--bs=1.5k: bs: \"1.5k\" is not a whole number: write it in a smaller unit",
        ),
        (
            "--name=a --zonemode=zbd one.fio",
            "--zonemode=zbd: zonemode: \"zbd\" is not simulated: zoned devices are not among the disks\none.fio:3:4: bs: 0 is outside 1 to 18446744073709551615",
        ),
        (
            "--name=a --rate=1m --rate_iops=5 --size=1m",
            "--name=a: rate and rate_iops exclude each other",
        ),
        (
            "--readonly --name=a --rw=randrw --size=1m",
            "--name=a: the job writes or trims, and --readonly allows no job to",
        ),
        ("--name=a --size=1m --section=b", "command line:1:1: --section: there is no job \"b\""),
    ] {
        assert_eq!(of_command(line, &files).unwrap_err(), errors, "{line}");
    }
}

#[test]
fn invalid_jobs_are_refused_with_the_reason() {
    for (text, error) in [
        ("", "x:1:1: the file has no job: a [section] that is not [global]"),
        ("[globals]\nsize=1m\n", "x:1:1: the file has no job: a [section] that is not [global]"),
        ("[a]\nrate=1m\nrate_iops=5\n", "x:1:1: rate and rate_iops exclude each other"),
        ("[a]\nrate=1m\nrate_min=2m\n", "x:1:1: rate_min = 2097152 is above rate = 1048576"),
        ("[a]\nsize=1k\n", "x:1:1: size = 1024 bytes is below the smallest block size, 4096 bytes"),
        (
            "[a]\n[a]\n[b]\nwait_for=a\n",
            "x:4:10: wait_for: 2 sections above are called \"a\", it must be one",
        ),
        ("[a]\nwait_for=a\n", "x:2:10: wait_for: no job above is called \"a\""),
        ("[a]\nnumjobs=0\n", "x:2:9: numjobs: 0 is outside 1 to 100000"),
        (
            "[a]\nnumjobs=60k\n[b]\nnumjobs=60k\n[c]\n",
            "x:3:1: with these there are 122880 jobs: at most 100000 are allowed",
        ),
        (
            "[a]\nioengine=cpuio\ncpuload=50\n",
            "x:2:10: ioengine: \"cpuio\" is not simulated: the engine asks no disk for anything",
        ),
        (
            "[a]\nioengine=http\nhttp_mode=s3\n",
            "x:2:10: ioengine: \"http\" is not simulated: it asks for no blocks of a disk; ioengine=nbd makes the same requests, past the page cache",
        ),
        (
            "[a]\nioengine=external:/opt/own/engine.so\n",
            "x:2:10: ioengine: \"external:/opt/own/engine.so\" is not simulated: an external engine is not known here; ioengine=nbd makes the same requests, past the page cache",
        ),
        (
            "[a]\nioengine=windowsaio\n",
            "x:2:10: ioengine: \"windowsaio\" is not simulated: it is not for Linux; there ioengine=io_uring or libaio does the same",
        ),
        (
            "[a]\nbs=4k-512k\n",
            "x:2:4: bs: \"4k-512k\" ends in \"k-512k\": allowed are k, m, g, t and p, each also with b, i or ib, and b; a range is written bsrange=4k-512k",
        ),
        (
            "[a]\nsize=4z\n",
            "x:2:6: size: \"4z\" is not simulated: z counts zones of a zoned device",
        ),
        (
            "[a]\nzonemode=strided\nzonerange=4k\n",
            "x:1:1: zonemode=strided needs a zonesize: the bytes to move in a zone before the next one",
        ),
        ("[a]\nzonesize=4k\n", "x:1:1: zonesize is of no use without zonemode=strided"),
        (
            "[a]\nzonemode=zbd\nzonesize=4k\n",
            "x:2:10: zonemode: \"zbd\" is not simulated: zoned devices are not among the disks",
        ),
        ("[a]\nsize=101%\n", "x:2:6: size: 101 is outside 0 to 100"),
        ("[a]\nsize=\n", "x:2:6: size: it needs a value"),
        ("[a]\nreplay_align=3k\n", "x:2:14: replay_align: 3072 is not a power of two"),
        ("[a]\nbs=${X\n", "x:2:4: \"${\" has no closing \"}\""),
        ("[]\n", "x:1:1: the section has no name"),
    ] {
        assert_eq!(refused(text), error, "{text}");
    }
}

#[test]
fn options_for_all_jobs_replace_invalid_ones() {
    let text = b"[global]\nioengine=http\nhttp_mode=s3\n[a]\nblocksize=1.5m\nzonemode=zbd\nzonesize=64m\nsize=1m\n";
    let with = |besides: &[(&str, &str)]| {
        let besides: Vec<_> =
            besides.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        parse_with("x", text, &BTreeMap::new(), &besides)
    };
    let all = [("ioengine", "libaio"), ("bs", "64k"), ("zonemode", "none")];
    let file = with(&all).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(file.jobs[0].options.engine, IoEngine::Libaio);
    assert_eq!(file.jobs[0].options.block_size().read, BlockSize::Fixed(64 << 10));
    let ignored: Vec<_> = file.ignored.iter().map(|ignored| ignored.option).collect();
    assert_eq!(ignored, ["http_mode"]);
    // One that is not given besides is wrong as before, and so is one that is given wrongly.
    for left_out in 0..all.len() {
        let others: Vec<_> = all.iter().copied().filter(|pair| *pair != all[left_out]).collect();
        assert_eq!(with(&others).unwrap_err().errors.len(), 1, "{left_out}");
    }
    let [engine, _, zones] = all;
    let errors = with(&[engine, ("bs", "2.5m"), zones]).unwrap_err().to_string();
    assert_eq!(errors, "x:4:1: bs: \"2.5m\" is not a whole number: write it in a smaller unit");
}

#[test]
fn bounds() {
    let long = vec![b'\n'; (1 << 20) + 1];
    let error = parse("x", &long, &BTreeMap::new()).unwrap_err().to_string();
    assert_eq!(error, "x:1:1: the file is 1048577 bytes long: at most 1048576 are allowed");

    // Each of these lines would bring half a mebibyte.
    let env = BTreeMap::from([("X".to_owned(), "x".repeat(1 << 19))]);
    let text = format!("[a]\n{}", "filename=${X}\n".repeat(1000));
    let errors = parse("x", text.as_bytes(), &env).unwrap_err();
    assert_eq!((errors.errors.len(), errors.more), (100, 900));
    assert!(errors.to_string().ends_with("\nx: and 900 more"), "{errors}");

    let most = read("[a]\nnumjobs=100000\n");
    assert_eq!((most.jobs.len(), most.jobs[99_999].clone), (100_000, 99_999));

    // Whatever is no job file may be one line from its first byte to its last.
    let error = parse("x", &[0; 1 << 20], &BTreeMap::new()).unwrap_err().to_string();
    assert!(error.starts_with("x:1:1: option \"\\0\\0"), "{error}");
    assert!(error.ends_with("\\0\" stands above the first [section]; write [global] above it"));
    assert!(error.len() < 1000, "{}", error.len());

    let latin = parse("x", b"# caf\xe9\n[a]\nname=caf\xe9\n", &BTreeMap::new()).unwrap_err();
    assert_eq!(latin.to_string(), "x:3:1: the line is not UTF-8");
}

/// Lines that are nearly right, so that the parsers behind them are reached.
fn line() -> impl Strategy<Value = String> {
    let keys = weir_fio::typed_options().collect::<Vec<_>>();
    let words = [
        "zipf",
        "zoned:",
        "read",
        "4k",
        "1-5",
        ":",
        ",",
        "/",
        "%",
        "-",
        "0x",
        "${A}",
        "18446744073709551615",
        "p",
        "100",
        "ö",
    ];
    (
        proptest::sample::select(keys),
        proptest::collection::vec(proptest::sample::select(words.to_vec()), 0..5),
    )
        .prop_map(|(key, words)| format!("{key}={}\n", words.concat()))
}

proptest! {
    #[test]
    fn any_bytes_give_jobs_or_errors(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse("x", &bytes, &BTreeMap::new());
    }

    #[test]
    fn any_words_give_jobs_or_errors(words in proptest::collection::vec("(-{0,2}[a-z_]{0,9}=?[0-9a-z%:]{0,4}|--(name|bs|rw|section|readonly)(=a)?)", 0..8)) {
        if let Ok(command) = CommandLine::read(&words) {
            let files = command.files.iter().map(|name| JobText::alone(name.as_str(), *b"[a]\nsize=1m\n"));
            let input = Input { files: files.collect(), command, env: BTreeMap::new() };
            let _ = parse_input(&input, &[]).map_err(|errors| errors.to_string());
        }
    }

    #[test]
    fn nearly_valid_files_give_jobs_or_errors(lines in proptest::collection::vec(line(), 0..12)) {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let text = format!("[global]\n[a]\n{}", lines.concat());
        match parse("x", text.as_bytes(), &env) {
            Ok(file) => for job in &file.jobs[..1] {
                job.offset(u64::MAX);
                job.file_name(0);
                prop_assert!(job.options.block_size().read.min() >= 1);
                prop_assert!((1..=job.options.iodepth).contains(&job.options.iodepth_low));
            },
            Err(errors) => for error in &errors.errors {
                prop_assert!((1..=text.lines().count()).contains(&error.place.line));
            },
        }
    }
}
