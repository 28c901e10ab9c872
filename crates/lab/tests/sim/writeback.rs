//! Background write-back of the page cache is an asynchronous flow.

use crate::support::{cgroup, run};

/// Bytes at the disk that a reader with 16 requests under way and a writer get within ten seconds.
fn shares(writer: &str) -> [u64; 2] {
    let jobs = format!(
        "[global]\nbs=128k\nsize=8g\ntime_based\nruntime=10\n\
         [reader]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=16\ncgroup=a\n\
         [writer]\nrw=randwrite\ncgroup=a\n{writer}\n"
    );
    let settings = [("scheduler", "bfq"), ("depth", "2"), ("memory", "256M")];
    let results = run("ssd-sata", &settings, &jobs);
    let counters = &cgroup(&results, "/a").counters;
    [counters.read.bytes, counters.write.bytes]
}

#[test]
fn buffered_writes_count_three_times_beside_a_reader() {
    let [read, written] = shares("direct=1\nioengine=libaio\niodepth=16");
    assert!((4 * written..6 * written).contains(&(5 * read)), "equals: {read}, {written}");
    let [read, written] = shares("direct=0");
    assert!((2 * written..4 * written).contains(&read), "writeback: {read}, {written}");
}
