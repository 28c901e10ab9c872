//! Background write-back of the page cache is an asynchronous flow.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use weir_lab::builder::{ScenarioBuilder, Source};
use weir_lab::sim;

/// Bytes at the disk that a reader with 16 requests under way and a writer get within ten seconds.
fn shares(writer: &str) -> [u64; 2] {
    let jobs = format!(
        "[global]\nbs=128k\nsize=8g\ntime_based\nruntime=10\n\
         [reader]\nrw=randread\ndirect=1\nioengine=libaio\niodepth=16\ncgroup=a\n\
         [writer]\nrw=randwrite\ncgroup=a\n{writer}\n"
    );
    let source =
        Source::Jobs { name: "writeback.fio".into(), text: jobs.into(), env: BTreeMap::new() };
    let mut builder = ScenarioBuilder::new("writeback", source);
    for (key, value) in
        [("scheduler", "bfq"), ("disk", "ssd-sata"), ("depth", "2"), ("memory", "256M")]
    {
        builder.set(key, value).unwrap();
    }
    let scenario = builder.build().unwrap();
    let results = sim::run(&scenario, &mut |_| ControlFlow::Continue(())).unwrap();
    let cgroup = results.cgroups.iter().find(|cgroup| cgroup.path == "/a").unwrap();
    [cgroup.counters.read.bytes, cgroup.counters.write.bytes]
}

#[test]
fn buffered_writes_count_three_times_beside_a_reader() {
    let [read, written] = shares("direct=1\nioengine=libaio\niodepth=16");
    assert!((4 * written..6 * written).contains(&(5 * read)), "equals: {read}, {written}");
    let [read, written] = shares("direct=0");
    assert!((2 * written..4 * written).contains(&read), "writeback: {read}, {written}");
}
