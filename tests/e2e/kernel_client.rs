//! Linux's own NBD client, in a guest: the kernel under the tests may have none, and its devices are the machine's.

use std::path::Path;

use weir_tests::{Guest, Place, peer, weir};

/// Serves two disks, so slowly that requests are under way when the server ends.
const SERVE: &str = r#"
serve() {
  weir serve weir.toml >>log 2>&1 &
  server=$!
  until weir status --control control.sock >/dev/null 2>&1; do usleep 50000; done
}
cat >weir.toml <<END
[server]
socket = "/run/nbd.sock"
control = "/run/control.sock"
END
for name in one two; do
  truncate -s 64M $name.img
  cat >>weir.toml <<END
[device.$name]
path = "/run/$name.img"
[cgroup."/$name"]
"io.max" = "$name wbps=4M"
[export.$name]
device = "$name"
cgroup = "/$name"
END
done
serve
"#;

/// `check EXPORT`: nbd-client attaches it, its file system is whole, and has what is in `data`.
const CHECK: &str = r#"
check() {
  nbd-client -unix nbd.sock /dev/nbd5 -N $1 -b 4096 >/dev/null 2>&1
  e2fsck -fn /dev/nbd5 >check 2>&1 || { cat check; exit 1; }
  mount -o ro /dev/nbd5 /mnt
  cmp data /mnt/data
  umount /mnt
  nbd-client -d /dev/nbd5
}
"#;

/// A guest with a server, and the programs of this machine that are named.
fn guest(place: &Place, programs: &[&str]) -> Option<Guest> {
    let mut guest = Guest::new(place)?;
    guest.module("nbd");
    guest.program(weir());
    for name in programs.iter().chain(&["nbd-client", "mkfs.ext4", "e2fsck"]) {
        guest.program(peer(name)?.program());
    }
    Some(guest)
}

#[test]
fn nbd_client_gives_a_disk_with_a_file_system() {
    let place = Place::new();
    let Some(guest) = guest(&place, &[]) else { return };
    let script = r#"
seq 200000 >data
nbd-client -unix nbd.sock /dev/nbd0 -N one -b 4096 >/dev/null 2>&1
mkfs.ext4 -q /dev/nbd0
mount -o discard /dev/nbd0 /mnt
cp data /mnt/data
cp data /mnt/more
rm /mnt/more
umount /mnt
nbd-client -d /dev/nbd0
kill $server
wait $server
serve
check one
echo whole
kill $server
wait $server
"#;
    let said = guest.run(&[SERVE, CHECK, script].concat()).output();
    assert!(said.ends_with("whole\n"), "{said}");
}

/// Limits of the guest's kernel on top of those of the server: `io.max` of cgroup v2 on the NBD device.
#[test]
fn the_kernels_disk_passes_fio_and_takes_io_max() {
    let place = Place::new();
    let Some(guest) = guest(&place, &["fio"]) else { return };
    let script = r#"
nbd-client -unix nbd.sock /dev/nbd0 -N one -b 4096 >/dev/null 2>&1
fio --name=verify --filename=/dev/nbd0 --rw=randwrite --bssplit=4k/60:64k/40 --size=8M --direct=1 --ioengine=libaio \
  --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 >fio || { cat fio; exit 1; }
mount -t cgroup2 none /sys/fs/cgroup
echo +io >/sys/fs/cgroup/cgroup.subtree_control
# read_below CGROUP RATE COUNT: reads so many times 64 KiB, in a cgroup of its own.
read_below() {
  mkdir /sys/fs/cgroup/$1
  echo "$(cat /sys/block/nbd0/dev) rbps=$2" >/sys/fs/cgroup/$1/io.max
  sh -c 'echo $$ >/sys/fs/cgroup/$0/cgroup.procs
    exec dd if=/dev/nbd0 of=/dev/null bs=64k count=$1 iflag=direct' $1 $3 2>/dev/null
}
read_below slow 524288 1000 &
slow=$!
read_below fast 1048576 64
grep -o 'rbytes=[0-9]*' /sys/fs/cgroup/slow/io.stat
kill $slow
nbd-client -d /dev/nbd0
kill $server
wait $server
"#;
    let said = guest.run(&[SERVE, script].concat()).output();
    let slow = said.lines().find_map(|line| line.strip_prefix("rbytes=")?.parse::<u64>().ok());
    // 4 MiB were read beside it, at twice its rate. The kernel's slices of 100 ms are 50 KiB.
    let expected = 3 << 19..=5 << 19;
    assert!(slow.is_some_and(|bytes| expected.contains(&bytes)), "{said}");
}

/// The kernel waits for a new connection, which a program gives it (`kernel-nbd`, of these tests), or it never loses the one
/// to `qemu-nbd`, which reconnects itself.
#[test]
fn the_kernels_disks_outlive_restarts_under_load() {
    let place = Place::new();
    let Some(guest) = guest(&place, &["qemu-nbd"]) else { return };
    guest.program(Path::new(env!("CARGO_BIN_EXE_kernel-nbd")));
    let script = r#"
mkdir -p /mnt/0 /mnt/1 /var/lock
yes "Weir, disks over NBD" | head -c 8388608 >data
kernel-nbd nbd.sock one 0 >connections 2>&1 &
client=$!
until grep -q connected connections; do usleep 50000; done
qemu-nbd --connect=/dev/nbd1 --fork --cache=none --image-opts \
  driver=nbd,server.type=unix,server.path=/run/nbd.sock,export=two,reconnect-delay=60
for disk in 0 1; do
  # Less is under way than the limit lets through before the kernel's timeout.
  echo 16 >/sys/block/nbd$disk/queue/nr_requests
  mkfs.ext4 -q -b 4096 /dev/nbd$disk
  mount /dev/nbd$disk /mnt/$disk
done
fill() {
  until [ -e stop ]; do dd if=data of=/mnt/$1/data bs=1M conv=fsync 2>said$1 || { cat said$1; exit 1; }; done
}
fill 0 &
first=$!
fill 1 &
second=$!
# Both write to this server, and have requests under way.
busy() {
  weir status --control control.sock --interval 10ms --format json >status
  [ "$(grep -o '"write_ios": *[1-9]' status | wc -l)" -ge 2 ] || return 1
  for disk in 0 1; do
    read -r reads writes </sys/block/nbd$disk/inflight
    [ "$writes" -gt 0 ] || return 1
  done
}
for signal in TERM KILL TERM; do
  until busy; do usleep 50000; done
  kill -$signal $server
  wait $server 2>/dev/null || [ $signal = KILL ]
  echo "ended by $signal"
  serve
done
until busy; do usleep 50000; done
touch stop
wait $first
wait $second
umount /mnt/0 /mnt/1
echo "$(grep -c connected connections) connections"
kill $client
nbd-client -d /dev/nbd0
qemu-nbd --disconnect /dev/nbd1 >/dev/null
kill $server
wait $server
serve
check one
check two
dmesg | grep -E "I/O error|EXT4-fs error" && exit 1
echo whole
kill $server
wait $server
"#;
    let said = guest.run(&[SERVE, CHECK, script].concat()).output();
    let expected = "ended by TERM\nended by KILL\nended by TERM\n4 connections\nwhole\n";
    assert!(said.ends_with(expected), "{said}");
}
