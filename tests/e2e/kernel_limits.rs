//! Limits of the kernel itself, with cgroup v2, in a guest: hard ones keep their ratio, and leave a disk idle.

use weir_tests::{CGROUPS, Guest, Place};

#[test]
fn hard_limits_of_the_kernel_leave_the_disk_idle() {
    let place = Place::new();
    let Some(mut guest) = Guest::new(&place) else { return };
    guest.null_disk();
    let script = r#"
limit fast rbps=4194304
limit slow rbps=2097152
limit free rbps=max
readers fast 2
readers slow 2
sleep 1
rates 2 fast slow
readers free 4
rates 2 fast slow free
"#;
    let said = guest.run(&[CGROUPS, script].concat()).output();
    let rates: Vec<f64> =
        said.split_whitespace().map(|rate| rate.parse().expect("a number")).collect();
    let [fast, slow, fast_beside, slow_beside, free] = rates[..] else { panic!("{said}") };
    assert!((1.7..2.3).contains(&(fast / slow)), "{said}");
    assert!((1.7..2.3).contains(&(fast_beside / slow_beside)), "{said}");
    // What another cgroup gets beside them was there before, and not used.
    assert!(free > 1.2 * (fast + slow), "{said}");
}
