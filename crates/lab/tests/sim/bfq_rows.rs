//! The rows of `make bench-kernel` in virtual time, shortened: what `scheduler = "bfq"` is for, on a disk with platters.
//!
//! Bounds are wide. They say when something has become another thing, not when it has become a little worse.

use weir_lab::results::{Results, Row};

use crate::support::{self, row};

const GLOBAL: &str = "[global]\nfilename=/dev/disk\ndirect=1\nnorandommap=1\n";
const MIB: u64 = 1 << 20;

/// Five sequential readers and five writers, each with one request at a time, from the beginning.
fn background(seconds: u32) -> String {
    let jobs = (0..5).map(|number| {
        let (reads, writes) = (300 + 10 * number, 400 + 10 * number);
        format!(
            "[reader{number}]\ntime_based=1\nruntime={seconds}\nrw=read\nbs=128k\noffset={reads}g\nsize=4g\n\
             [writer{number}]\ntime_based=1\nruntime={seconds}\nrw=write\nbs=128k\noffset={writes}g\nsize=256m\n"
        )
    });
    jobs.collect()
}

/// A start after `delay` ms: 600 reads of 4 KiB, eight side by side and then somewhere else in 40 GiB, and a helper that
/// reads 80.
fn application(delay: u32) -> String {
    format!(
        "[start]\nrw=randread:8\nbs=4k\noffset=60g\nsize=40g\nio_size=2400k\nstartdelay={delay}ms\n\
         [helper]\nrw=randread:8\nbs=4k\noffset=60g\nsize=40g\nio_size=320k\nstartdelay={delay}ms\n"
    )
}

/// The same jobs, in a cgroup of this weight.
fn in_cgroup(jobs: &str, name: &str, weight: u32) -> String {
    jobs.replace("rw=", &format!("cgroup={name}\ncgroup_weight={weight}\nrw="))
}

fn run(jobs: &str, settings: &[(&str, &str)]) -> Results {
    let settings = [&[("depth", "32"), ("scheduler", "bfq")], settings].concat();
    support::run("hdd7200", &settings, &format!("{GLOBAL}{jobs}"))
}

fn bytes(row: &Row) -> u64 {
    row.read.bytes + row.write.bytes
}

/// Bytes of all rows whose names begin so.
fn sum(results: &Results, name: &str) -> u64 {
    results.rows.iter().filter(|row| row.name.starts_with(name)).map(bytes).sum()
}

fn start_ms(results: &Results) -> u64 {
    let ended = ["start", "helper"].map(|name| row(results, name).runtime_ns);
    ended.into_iter().max().expect("two") / 1_000_000
}

#[test]
fn an_application_starts_beside_readers_and_writers_as_if_alone() {
    let alone = start_ms(&run(&application(0), &[]));
    for delay in [2, 3] {
        let jobs = background(delay + 2) + &application(1000 * delay);
        let beside = start_ms(&run(&jobs, &[]));
        assert!(beside * 10 <= alone * 15, "{beside} ms, {alone} ms alone");
        let patient = start_ms(&run(&jobs, &[("bfq", "low_latency=0")]));
        let turns = start_ms(&run(&jobs, &[("scheduler", "none")]));
        assert!(patient > 2 * beside && turns > 2 * beside, "{beside}, {patient}, {turns} ms");
    }
}

#[test]
fn an_application_waits_little_for_earlier_writes_of_others() {
    // A writer's slot leaves 60 ms of work behind at most; a third of these moments is in one.
    let alone = start_ms(&run(&application(0), &[]));
    let beside: Vec<u64> = (0..12)
        .map(|moment| start_ms(&run(&(background(4) + &application(2000 + 61 * moment)), &[])))
        .collect();
    assert!(
        beside.iter().sum::<u64>() * 100 <= 12 * alone * 107,
        "{beside:?} ms, {alone} ms alone"
    );
    assert!(
        beside.iter().all(|&each| each * 100 <= alone * 115),
        "{beside:?} ms, {alone} ms alone"
    );
}

#[test]
fn an_application_in_a_cgroup_of_its_own_starts_within_its_share() {
    // With a part of the device it takes as many times longer as the whole is more than that part.
    let alone = start_ms(&run(&application(0), &[]));
    for (mine, theirs) in [(100, 100), (300, 100), (100, 200)] {
        let beside: Vec<u64> = (0..6)
            .map(|moment| {
                let background = in_cgroup(&background(6), "others", theirs);
                let start = in_cgroup(&application(2000 + 61 * moment), "app", mine);
                start_ms(&run(&(background + &start), &[]))
            })
            .collect();
        let mean = beside.iter().sum::<u64>() / 6;
        let bound = alone * u64::from(mine + theirs) / u64::from(mine);
        // What others have of their slot when it begins, and what they have written, may come before it: 175 ms at most,
        // and about half of that on average.
        let most = *beside.iter().max().expect("six");
        assert!(
            mean <= bound + 100 && most <= bound + 175,
            "{mine} of {mine} and {theirs}: {beside:?} ms, {alone} ms alone"
        );
    }
}

#[test]
fn writes_are_destaged_before_others_read() {
    // Without the wait for that, the heads go there and back between any two reads.
    let rate = |settings| sum(&run(&background(6), settings), "") / 6 / MIB;
    let (settles, races) = (rate(&[]), rate(&[("bfq", "slice_idle=0")]));
    assert!(settles >= 60 && races <= 30, "{settles} and {races} MiB/s");
}

/// A reader of every block, or those that `rw` says, from the block of this number on.
fn reader(number: u64, rw: &str, delay_us: usize) -> String {
    let offset = (10 << 30) + number * (128 << 10);
    format!(
        "[reader{number}]\ntime_based=1\nruntime=4\nrw={rw}\nbs=128k\noffset={offset}\nsize=4g\n\
         startdelay={delay_us}us\n"
    )
}

#[test]
fn readers_that_take_turns_are_as_fast_as_one() {
    let one = sum(&run(&reader(0, "read", 0), &[]), "");
    // In any order of arrival: the disk has read on by then, and is past what one of the others wants.
    for order in [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]] {
        let mut jobs = String::new();
        for (place, number) in order.into_iter().enumerate() {
            jobs += &reader(number, "read:256k", 200 * place);
        }
        let three = run(&jobs, &[]);
        let least = (0..3).map(|number| bytes(row(&three, &format!("reader{number}")))).min();
        let (sum, least) = (sum(&three, ""), least.expect("three"));
        assert!(sum * 10 >= one * 9, "{order:?}: {sum} bytes, {one} of one");
        assert!(least * 10 >= one * 3, "{order:?}: {least} bytes of one in three");
    }
}

#[test]
fn readers_that_take_turns_stay_together_when_one_pauses() {
    // As on a machine that is busy: now and then one of them does not run for some milliseconds, or a tenth of a second.
    let one = sum(&run(&reader(0, "read", 0), &[]), "");
    for pauses in [
        &[(0, 7_000, 300), (1, 5_000, 410), (2, 6_000, 370)][..],
        &[(0, 3_000, 50), (1, 2_500, 41), (2, 3_500, 37)],
        &[(1, 100_000, 900)],
    ] {
        let jobs = [1, 0, 2].map(|number| {
            let pause = pauses
                .iter()
                .find(|pause| pause.0 == number)
                .map(|(_, us, blocks)| format!("thinktime={us}us\nthinktime_blocks={blocks}\n"));
            reader(number, "read:256k", 0) + &pause.unwrap_or_default()
        });
        for way in ["0us", "100us"] {
            let three = sum(&run(&jobs.concat(), &[("way", way)]), "");
            assert!(three * 10 >= one * 9, "{pauses:?}, {way}: {three} bytes, {one} of one");
        }
    }
}

/// Bytes of cgroups of weight 100, 200 and 400, each with `kinds` of readers, from 3 s on.
fn shares(kinds: &[&str], seconds: u32, settings: &[(&str, &str)]) -> [u64; 3] {
    let mut jobs = String::from("[global]\ntime_based=1\nramp_time=3\n");
    for (number, (cgroup, weight)) in [("a", 100), ("b", 200), ("c", 400)].into_iter().enumerate() {
        for kind in kinds {
            let rw = match *kind {
                "sequential" => {
                    format!("rw=read\nbs=128k\noffset={}g\nsize=4g\n", 10 + 15 * number)
                }
                _ => "rw=randread\nbs=4k\n".to_owned(),
            };
            jobs += &format!(
                "[{cgroup}-{kind}]\nruntime={seconds}\ncgroup={cgroup}\ncgroup_weight={weight}\n{rw}"
            );
        }
    }
    let results = run(&jobs, settings);
    ["a-", "b-", "c-"].map(|cgroup| sum(&results, cgroup))
}

/// Jain's index of what each has for its weight, in ten thousandths.
fn jain(shares: [u64; 3]) -> u64 {
    let parts: Vec<u128> = shares
        .iter()
        .zip([4, 2, 1])
        .map(|(share, times)| u128::from(share * times) >> 10)
        .collect();
    let (sum, squares): (u128, u128) =
        (parts.iter().sum(), parts.iter().map(|part| part * part).sum());
    u64::try_from(sum * sum * 10_000 / (3 * squares)).expect("10,000 at most")
}

#[test]
fn shares_follow_weights() {
    // Whether the next request is there at once, or a socket and a wake-up later, when the device waits for it.
    for way in ["0us", "150us"] {
        for kinds in [&["sequential"][..], &["random"], &["sequential", "random"]] {
            let shares = shares(kinds, 10, &[("way", way)]);
            assert!(jain(shares) >= 9_990, "{kinds:?}, {way}: {shares:?}, {}", jain(shares));
        }
    }
}

#[test]
fn two_streams_keep_their_rate_beside_a_random_reader() {
    // They read as much as an application does at most in the first seconds, and count as streams from then on. So does
    // the random reader that began with them.
    let jobs = "[global]\ntime_based=1\nramp_time=3\nruntime=5\n[one]\nrw=read\nbs=128k\noffset=10g\nsize=4g\n\
                [two]\nrw=read\nbs=128k\noffset=40g\nsize=4g\n[random]\nrw=randread\nbs=4k\n";
    for settings in [&[][..], &[("bfq", "low_latency=0")]] {
        let results = run(jobs, settings);
        let [one, two] = ["one", "two"].map(|name| bytes(row(&results, name)) / 5 / MIB);
        assert!(one >= 30 && two >= 30, "{settings:?}: {one} and {two} MiB/s");
        let random = row(&results, "random").read.ios;
        assert!(random >= 20, "{settings:?}: {random} random reads");
    }
}
