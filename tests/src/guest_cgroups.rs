//! Words of a guest's script for cgroups of version 2 on a disk of the guest's own.

/// Makes `/dev/disk`, which does 20 MiB/s, and mounts cgroup v2; for guests with [`crate::Guest::null_disk`].
///
/// - `limit CGROUP LIMITS`: makes it, with that in its `io.max`.
/// - `readers CGROUP COUNT`: so many processes in it read the disk, past the page cache, one request at a time, until `end`.
/// - `end CGROUP`: ends them, and waits until they have ended.
/// - `rates SECONDS CGROUP...`: what each has read meanwhile, in KiB/s by the guest's clock, and a line end.
pub const CGROUPS: &str = r#"
mount -t configfs none /sys/kernel/config
mkdir /sys/kernel/config/nullb/disk
echo 1024 >/sys/kernel/config/nullb/disk/size
echo 20 >/sys/kernel/config/nullb/disk/mbps
echo 1 >/sys/kernel/config/nullb/disk/power
mount -t cgroup2 none /sys/fs/cgroup
echo +io >/sys/fs/cgroup/cgroup.subtree_control
limit() {
  mkdir /sys/fs/cgroup/$1
  echo "$(cat /sys/block/disk/dev) $2" >/sys/fs/cgroup/$1/io.max
}
readers() {
  sh -c 'echo 0 >/sys/fs/cgroup/$0/cgroup.procs
    for number in $(seq $1); do
      while :; do dd if=/dev/disk of=/dev/null bs=64k iflag=direct; done 2>/dev/null &
    done
    wait' $1 $2 &
}
end() {
  echo 1 >/sys/fs/cgroup/$1/cgroup.kill
  while grep -q . /sys/fs/cgroup/$1/cgroup.procs; do usleep 10000; done
}
sample() {
  for cgroup in "$@"; do
    bytes=$(grep -o 'rbytes=[0-9]*' /sys/fs/cgroup/$cgroup/io.stat || true)
    echo -n "${bytes#rbytes=} "
  done
  cut -d ' ' -f 1 /proc/uptime
}
rates() {
  seconds=$1
  shift
  first=$(sample "$@")
  sleep $seconds
  echo "$first $(sample "$@")" | awk '{
    count = NF / 2
    for (n = 1; n < count; n++) printf "%d ", ($(n + count) - $n) / 1024 / ($NF - $count)
    print ""
  }'
}
"#;
