//! `scheduler = "bfq"` on emulated disks: tenants that keep the disk busy share it by weight.

use crate::support::run;

/// Bytes that tenants of weights 100 and 300 get in `seconds`, each with `options` and 32 requests under way, while the
/// disk takes four at once.
fn shares(scheduler: &str, disk: &str, options: &str, seconds: u32) -> [u64; 2] {
    let jobs = format!(
        "[global]\ndirect=1\nioengine=libaio\niodepth=32\ntime_based\nruntime={seconds}\nsize=8g\n{options}\n\
         [a]\ncgroup=a\ncgroup_weight=100\n[b]\ncgroup=b\ncgroup_weight=300\n"
    );
    let results = run(disk, &[("scheduler", scheduler), ("depth", "4")], &jobs);
    assert_eq!(results.scheduler, scheduler);
    [0, 1].map(|row: usize| results.rows[row].read.bytes + results.rows[row].write.bytes)
}

fn assert_one_to_three(disk: &str, options: &str, seconds: u32) {
    let [a, b] = shares("bfq", disk, options, seconds);
    // 3 to 1, give or take 2 %.
    assert!(
        b.abs_diff(3 * a) * 100 <= 2 * 3 * a,
        "{options} on {disk}: {a} and {b}, as 1 to {}.{:02}",
        b / a,
        b * 100 / a % 100
    );
}

#[test]
fn weights_1_to_3_share_flash_1_to_3() {
    for options in ["rw=randread\nbs=4k", "rw=read\nbs=128k", "rw=randwrite\nbs=16k"] {
        assert_one_to_three("ssd-sata", options, 10);
    }
}

#[test]
fn weights_1_to_3_share_a_disk_1_to_3() {
    for options in ["rw=read\nbs=128k", "rw=randread\nbs=64k"] {
        assert_one_to_three("hdd7200", options, 120);
    }
}

#[test]
fn round_robin_ignores_weights() {
    let [a, b] = shares("none", "ssd-sata", "rw=randread\nbs=4k", 5);
    assert!(a.abs_diff(b) * 100 <= a, "{a} and {b}");
}
