//! fio's `prio` and `prioclass`, and `io.prio.class`, with the scheduler that knows them.

use weir_lab::results::Results;

use crate::support;

/// Runs `jobs`, each with 16 requests under way for ten seconds, on flash that takes two at once.
fn run(settings: &[(&str, &str)], jobs: &str) -> Results {
    let jobs = format!(
        "[global]\ndirect=1\nioengine=libaio\niodepth=16\nrw=randread\nbs=16k\nsize=1g\ntime_based\nruntime=10\n{jobs}"
    );
    let settings = [&[("depth", "2"), ("scheduler", "bfq")], settings].concat();
    support::run("ssd-sata", &settings, &jobs)
}

fn reads(results: &Results) -> Vec<u64> {
    results.rows.iter().map(|row| row.read.ios).collect()
}

#[test]
fn classes_are_served_in_order() {
    let results = run(&[], "[best]\n[first]\nprioclass=1\nprio=4\n[last]\nprioclass=3\n");
    let [best, first, last] = reads(&results)[..] else { panic!("three jobs") };
    // Best effort waits for real time, except that real time is not always there; idle has a turn every 200 ms.
    assert!(first > 50 * best.max(1) && last < first / 50, "{first}, {best}, {last}");
    assert!(results.notes.is_empty(), "{:?}", results.notes);
    let results = run(&[], "[best]\n[last]\nprioclass=3\n");
    let [best, last] = reads(&results)[..] else { panic!("two jobs") };
    assert!(best > 10 * last && last > 0, "{best}, {last}");
}

#[test]
fn levels_are_weights() {
    // 25 × (8 − level): 200 to 50. Without a class a level is best effort's, without a level a class has its first.
    for jobs in ["[a]\nprio=0\n[b]\nprio=6\n", "[a]\nprioclass=2\n[b]\nprioclass=2\nprio=6\n"] {
        // Raised weights end with what was served, so that of the heavier ends first.
        let results = run(&[("bfq", "low_latency=0")], jobs);
        let [a, b] = reads(&results)[..] else { panic!("two jobs") };
        assert!(a.abs_diff(4 * b) * 100 <= 3 * a, "{jobs}: {a} and {b}");
    }
}

#[test]
fn prio_class_of_a_cgroup_overrides_classes() {
    let jobs = "[real]\ncgroup=a\nprioclass=1\nprio=4\n[best]\ncgroup=a\n[other]\ncgroup=b\n";
    let shares = |class: &str| reads(&run(&[("prio-class", &format!("/a {class}"))], jobs));
    let [real, best, other] = shares("restrict-to-be")[..] else { panic!("three jobs") };
    assert!(real.abs_diff(best) * 100 <= 3 * real, "{real}, {best}");
    assert!((real + best).abs_diff(other) * 100 <= 3 * other, "{real}, {best}, {other}");
    let [real, best, other] = shares("promote-to-rt")[..] else { panic!("three jobs") };
    assert!(other * 50 < real && real.abs_diff(best) * 100 <= 3 * real, "{real}, {best}, {other}");
    let [real, best, other] = shares("idle")[..] else { panic!("three jobs") };
    assert!(real + best < other / 10, "{real}, {best}, {other}");
}

#[test]
fn children_have_the_priority_of_their_job() {
    let jobs = "[best]\n[child]\nprioclass=3\nio_size=160k\nloops=1000000\n";
    let results = run(&[("forks", "child")], jobs);
    let [best, child] = reads(&results)[..] else { panic!("two jobs") };
    assert!(best > 10 * child && child > 0, "{best}, {child}");
}

#[test]
fn round_robin_ignores_priorities() {
    let results = run(&[("scheduler", "none")], "[a]\nprioclass=1\n[b]\n");
    let [a, b] = reads(&results)[..] else { panic!("two jobs") };
    assert!(a.abs_diff(b) * 100 <= a, "{a} and {b}");
    assert_eq!(
        results.notes,
        ["`prioclass` has no effect here: the scheduler `none` knows no priorities"]
    );
}
