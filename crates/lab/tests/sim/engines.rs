//! Engines of fio: which of a job's requests are under way together, as the real ones were seen to do it.

use super::support::*;

/// Requests a second of a job.
fn rate(results: &weir_lab::results::Results) -> f64 {
    let row = &results.rows[0];
    (row.read.ios + row.write.ios + row.trim.ios) as f64 * SECOND as f64 / row.runtime_ns as f64
}

fn job(options: &str) -> String {
    format!("[j]\nbs=4k\nsize=1g\niodepth=16\nruntime=5\ntime_based\n{options}\n")
}

/// Random reads a second of fio 3.33 on Linux 6.18, on an emulated disk in real time, with the time of a kernel and a
/// FUSE server in each.
#[test]
fn buffered_libaio_and_posixaio_have_one_request_at_the_disk() {
    for (options, seen) in [
        ("ioengine=libaio\ndirect=1", 158.0),
        ("ioengine=io_uring", 158.0),
        ("ioengine=io_uring\ndirect=1", 158.0),
        ("ioengine=libaio", 73.0),
        ("ioengine=posixaio", 70.0),
        ("ioengine=posixaio\ndirect=1", 75.0),
    ] {
        let jobs = job(&format!(
            "rw=randread\nfilename=/dev/sda\nsize=100%\nnorandommap\nruntime=60\n{options}"
        ));
        let rate = rate(&run("hdd7200", &[("memory", "8G")], &jobs));
        assert!((rate / seen - 1.0).abs() < 0.15, "{options}: {rate}, fio {seen}");
    }
}

/// A completion is taken when the queue is full and its request is the oldest.
#[test]
fn buffered_libaio_takes_completions_when_its_queue_is_full() {
    let results = run(ONE_MS, &[], &job("ioengine=libaio\nrw=randread"));
    // A read, its call and its copy.
    let each_ns = MS + 500 + 512;
    let reads = &results.rows[0].read;
    // Where two blocks follow each other by chance, what is read ahead is beside the read.
    assert!(reads.ios.abs_diff(5 * SECOND / each_ns) < 20, "{}", reads.ios);
    assert!(reads.latency.p50_ns().abs_diff(16 * each_ns) < MS / 4, "{reads:?}");
    assert!(
        results.notes.iter().any(|note| note.contains("within the call")),
        "{:?}",
        results.notes
    );
    // With a pause or a rate none waits for others.
    let jobs = job("ioengine=libaio\nrw=randread\nrate_iops=50");
    let results = run(ONE_MS, &[], &jobs);
    assert_eq!(results.rows[0].read.latency.p99_ns(), each_ns);
    let jobs = job("ioengine=libaio\nrw=randread\nthinktime=10ms\nthinktime_blocks=4\niodepth=4");
    let results = run(ONE_MS, &[], &jobs);
    let latency = &results.rows[0].read.latency;
    assert_eq!((latency.min_ns(), latency.max_ns()), (each_ns, 4 * each_ns));
    // The queue is filled again where it has drained far enough.
    let jobs = job("ioengine=libaio\nrw=randread\niodepth_low=8\niodepth_batch_complete_min=4");
    let rate = rate(&run(ONE_MS, &[], &jobs));
    assert!((rate / 998.9 - 1.0).abs() < 0.01, "{rate}");
}

/// Writes into memory take their copies; with O_SYNC each is waited for.
#[test]
fn buffered_libaio_writes_block_as_writes_do() {
    let jobs = "[j]\nbs=4k\nsize=1m\niodepth=16\nioengine=libaio\nrw=write\n";
    assert_eq!(run(ONE_MS, &[], jobs).elapsed_ns, 256 * (500 + 512));
    let results = run(ONE_MS, &[], &format!("{jobs}sync=1\n"));
    assert_eq!(results.device.in_flight_max, 1);
    assert!(results.elapsed_ns >= 512 * MS);
}

#[test]
fn posixaio_serves_one_request_of_a_file_at_a_time() {
    let posixaio = |files: u32, direct: u32| {
        let options =
            format!("ioengine=posixaio\nrw=randread\nnrfiles={files}\ndirect={direct}\niodepth=16");
        run(ONE_MS, &[], &job(&options))
    };
    for direct in [0, 1] {
        let results = posixaio(1, direct);
        // All but the first wait for those before them.
        let p50_ns = results.rows[0].read.latency.p50_ns();
        assert!(p50_ns.abs_diff(16 * MS) < MS / 2, "{p50_ns}");
        let rates = [rate(&results), rate(&posixaio(4, direct))];
        assert!((990.0..1010.0).contains(&rates[0]), "{rates:?}");
        assert!((3900.0..4040.0).contains(&rates[1]), "{rates:?}");
    }
    // A sync comes after what was made before it.
    let jobs = "[j]\nioengine=posixaio\niodepth=16\ndirect=1\nrw=write\nbs=4k\nsize=32k\nfsync=4\n";
    assert_eq!(run(ONE_MS, &[], jobs).elapsed_ns, 9 * MS);
    // Threads of their own have descriptors of their own.
    for engine in ["posixaio\ndirect=1", "libaio"] {
        let options = format!("rw=randread\nio_submit_mode=offload\nioengine={engine}");
        let results = run(ONE_MS, &[], &job(&options));
        assert!(results.device.in_flight_max >= 16, "{engine}");
    }
}

/// `BLKDISCARD` returns when the trim has ended, whatever the engine and the depth.
#[test]
fn trims_are_made_one_at_a_time() {
    for engine in ["libaio", "io_uring", "posixaio"] {
        let options = format!("direct=1\nrw=randtrim\nioengine={engine}");
        let results = run(ONE_MS, &[], &job(&options));
        assert_eq!(results.device.in_flight_max, 1, "{engine}");
        assert_eq!(results.rows[0].trim.latency.max_ns(), MS, "{engine}");
    }
    // The write of a pair is under way while the next trim is made, and is taken when the queue is full.
    let results = run(ONE_MS, &[], &job("direct=1\nrw=randtrimwrite\nioengine=libaio"));
    assert_eq!(results.device.in_flight_max, 2);
    assert_eq!(results.rows[0].trim.latency.max_ns(), MS);
    let latency = &results.rows[0].write.latency;
    assert!(latency.p50_ns().abs_diff(15 * MS) < MS / 10, "{latency:?}");
    let rate = rate(&results);
    assert!((1990.0..2001.0).contains(&rate), "{rate}");
    // A client of NBD waits for none.
    let results = run(ONE_MS, &[], &job("rw=randtrim\nioengine=nbd"));
    assert_eq!(results.device.in_flight_max, 16);
}

#[test]
fn sg_is_asynchronous_on_a_character_device_only() {
    for (name, depth) in [("/dev/sg3", 16), ("/dev/sdc", 1)] {
        let results = run(ONE_MS, &[], &job(&format!("ioengine=sg\nrw=randread\nfilename={name}")));
        assert_eq!(results.device.in_flight_max, depth, "{name}");
    }
}

#[test]
fn the_null_engine_makes_one_call_at_a_time() {
    for depth in [1, 64] {
        let jobs = format!("[j]\nioengine=null\nsize=16m\niodepth={depth}\n");
        let results = run(ONE_MS, &[], &jobs);
        assert_eq!(results.elapsed_ns, 4096 * 500, "{depth}");
        assert!(results.notes[0].starts_with("`ioengine=null`"), "{:?}", results.notes);
    }
}

#[test]
fn engines_in_user_space_go_straight_to_the_disk() {
    for (engine, depth) in
        [("rbd", 16), ("external:/opt/spdk/build/fio/spdk_nvme", 16), ("gfapi", 1)]
    {
        let options = format!("ioengine={engine}\nrw=randread\ndirect=0");
        let results = run(ONE_MS, &[], &job(&options));
        assert_eq!(results.device.in_flight_max, depth, "{engine}");
        assert_eq!(results.rows[0].read.latency.min_ns(), MS, "{engine}");
        assert!(results.notes.iter().any(|note| note.contains("direct ones")), "{engine}");
    }
}

#[test]
fn files_that_are_only_laid_out_are_not_read() {
    let jobs = "[global]\nrw=randrw\nsize=1m\ndirect=1\n[lay]\ncreate_only=1\nruntime=10\ntime_based\nend_fsync=1\n\
                [go]\nstonewall\n";
    let results = run(ONE_MS, &[], jobs);
    let row = row(&results, "lay");
    assert_eq!((row.read.ios + row.write.ios, row.runtime_ns, row.sync.count()), (0, 0, 0));
    assert_eq!(results.device.ios, 256);
    assert!(results.notes.iter().any(|note| note.starts_with("`create_only`: `lay`")));
    let jobs = "[lay]\nsize=1m\ncreate_only=1\nread_iolog=/does/not/matter\n";
    assert!(finish(&builder(ONE_MS, &[], jobs)).is_err(), "a log is opened all the same");
}

#[test]
fn requests_that_linux_would_refuse_are_noted() {
    for (options, note) in [
        ("ioengine=psync", "`iodepth` has no effect here: a synchronous engine"),
        ("direct=1\nbs=1", "`direct=1` with requests of 1 byte:"),
    ] {
        let results =
            run(AT_ONCE, &[("way", "1us")], &format!("[j]\nsize=16k\niodepth=4\n{options}\n"));
        assert!(results.notes.iter().any(|told| told.starts_with(note)), "{:?}", results.notes);
    }
    assert_eq!(run(ONE_MS, &[], "[j]\nsize=16k\ndirect=1\n").notes, [""; 0]);
}

#[test]
fn exitall_on_error_ends_other_jobs() {
    let ended = |of_failing: &str, of_other: &str| {
        let jobs = format!(
            "[global]\ndirect=1\nsize=1m\nruntime=2\ntime_based\n[fails]\nmax_latency=100us\n{of_failing}\n\
             [other]\n{of_other}\n"
        );
        row(&run(ONE_MS, &[], &jobs), "other").runtime_ns
    };
    let option = "exitall_on_error";
    assert_eq!(ended("", ""), 2 * SECOND);
    assert_eq!(ended("", option), 2 * SECOND);
    assert!(ended(option, "") < 10 * MS);
}
