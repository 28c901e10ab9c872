//! vhost-user-blk: qemu-storage-daemon makes a disk of virtual machines of an export, under the limits of the server.

use std::fs;
use std::process::{Command, Stdio};

use weir_tests::{Background, Guest, Place, Server, eventually, peer};

/// What the guest writes at 32 MiB.
const LINE: &str = "Weir, disks over vhost-user\n";

#[test]
fn a_guests_vhost_user_disk_has_the_servers_limits() {
    let place = Place::new();
    let (Some(daemon), Some(fio)) = (peer("qemu-storage-daemon"), peer("fio")) else { return };
    let Some(mut guest) = Guest::new(&place) else { return };
    let image = place.hole("disk.img", 64 << 20);
    let server = Server::image(&place, &image, &["--max", "rbps=4M wbps=4M"]);
    let disk = place.socket("disk.sock");
    let blockdev = format!(
        "driver=nbd,node-name=disk,server.type=unix,server.path={},reconnect-delay=60",
        server.socket().display()
    );
    let export = format!(
        "type=vhost-user-blk,id=disk,node-name=disk,writable=on,addr.type=unix,addr.path={}",
        disk.display()
    );
    let mut command = Command::new(daemon.program());
    command.args(["--blockdev", &blockdev, "--export", &export]).stdin(Stdio::null());
    let _daemon = Background::start(&mut command);
    eventually("the daemon listens", || disk.exists());
    guest.vhost_user_disk(&disk);
    guest.program(fio.program());
    guest.text(&LINE.repeat(40_000)[..1 << 20], "/data");
    let script = r#"
dd if=/data of=/dev/vda bs=64k seek=512 oflag=direct 2>/dev/null
fio --name=verify --filename=/dev/vda --rw=randwrite --bssplit=4k/60:64k/40 --size=8M --direct=1 --ioengine=libaio \
  --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 >fio || { cat fio; exit 1; }
dd if=/dev/vda bs=64k skip=512 count=16 iflag=direct 2>/dev/null | cmp - /data
echo whole
"#;
    let said = guest.run(script).output();
    assert!(said.ends_with("whole\n"), "{said}");
    // Each waits as long as the bytes beyond the first burst take at the rate.
    let cgroup = server.status().cgroup("/main");
    for key in ["rbps", "wbps"] {
        assert!(
            cgroup.number(&format!("wait/limits/0/wait_ns/{key}")) > 1_000_000_000,
            "{cgroup:?}"
        );
    }
    let stored = fs::read(&image).expect("it is served");
    assert!(stored[32 << 20..].starts_with(&LINE.repeat(40_000).as_bytes()[..1 << 20]));
    server.stop();
}
