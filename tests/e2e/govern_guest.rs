//! `weir govern` in a guest: cgroup v2 of a stock kernel, on a disk of 20 MiB/s.

use weir_tests::{CGROUPS, Guest, Place, weir};

/// `govern`: starts a governor, and waits until it governs. `limits`: those of both tenants, as the kernel has them.
const GOVERN: &str = r#"
limit fast rbps=4194304
limit slow rbps=2097152
limit free rbps=max
limits() { cat /sys/fs/cgroup/fast/io.max /sys/fs/cgroup/slow/io.max; }
limits >written
govern() {
  : >log
  weir govern /dev/disk --state /run/state --log text --log-level debug >>log 2>&1 &
  governor=$!
  until grep -q ' governs ' log; do usleep 50000; done
}
"#;

#[test]
fn limits_bind_while_the_disk_of_a_guest_is_busy() {
    let place = Place::new();
    let Some(mut guest) = Guest::new(&place) else { return };
    guest.null_disk();
    guest.program(weir());
    let script = r#"
readers free 4
sleep 1
rates 2 free
end free
readers fast 4
readers slow 4
govern
sleep 8
rates 6 fast slow
readers free 4
until limits | cmp -s - written; do usleep 5000; done
rates 2 fast slow free
end free
while limits | cmp -s - written; do usleep 50000; done
kill -9 $governor
wait $governor 2>/dev/null || true
weir govern --restore --state /run/state >/dev/null
limits | cmp - written
govern
while limits | cmp -s - written; do usleep 50000; done
echo "$(cat /sys/block/disk/dev) rbps=3145728" >/sys/fs/cgroup/slow/io.max
cat /sys/fs/cgroup/slow/io.max >changed
until grep -q 'rbps=3145728' log; do usleep 50000; done
kill $governor
wait $governor
cmp /sys/fs/cgroup/slow/io.max changed
head -n 1 written | cmp - /sys/fs/cgroup/fast/io.max
"#;
    let said = guest.run(&[CGROUPS, GOVERN, script].concat()).output();
    let rates: Vec<f64> =
        said.split_whitespace().map(|rate| rate.parse().expect("a number")).collect();
    let [whole, fast, slow, fast_beside, slow_beside, _] = rates[..] else { panic!("{said}") };
    assert!(fast + slow > 0.8 * whole, "{said}");
    assert!((1.7..2.3).contains(&(fast / slow)), "{said}");
    // 4 and 2 MiB/s, and what was under way.
    assert!(fast_beside < 5.2 * 1024.0 && slow_beside < 2.6 * 1024.0, "{said}");
}
