//! QEMU, which reconnects: the server is restarted under load, and clients notice nothing but a pause.

use std::process::{Command, Stdio};

use weir_tests::{Background, Place, Server, eventually, peer};

/// QEMU's block layer as a guest has it, between a client and the server, with `reconnect-delay`.
fn qemu(server: &Server, place: &Place) -> Option<(Background, String)> {
    peer("qemu-storage-daemon")?;
    let socket = place.socket("qemu.sock");
    let disk = format!(
        "driver=nbd,node-name=disk,server.type=unix,server.path={},reconnect-delay=60",
        server.socket().display()
    );
    let mut command = Command::new("qemu-storage-daemon");
    command
        .args(["--blockdev", &disk, "--nbd-server"])
        .arg(format!("addr.type=unix,addr.path={}", socket.display()))
        .args(["--export", "type=nbd,id=disk,node-name=disk,name=disk,writable=on"])
        .stdin(Stdio::null());
    let daemon = Background::start(&mut command);
    eventually("QEMU listens", || socket.exists());
    Some((daemon, format!("nbd+unix:///disk?socket={}", socket.display())))
}

#[test]
fn qemu_goes_on_across_restarts_under_load() {
    let Some(fio) = peer("fio") else { return };
    let place = Place::new();
    let image = place.hole("disk.img", 16 << 20);
    // So slow that fio writes while the server is restarted.
    let flags = ["--max", "wiops=1500", "--burst", "16"];
    let mut server = Server::image(&place, &image, &flags);
    let Some((_qemu, uri)) = qemu(&server, &place) else { return };
    let uri = format!("--uri={uri}");
    let verified = std::thread::spawn(move || {
        let job = ["--name=verify", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--size=16M"];
        let verify =
            ["--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0"];
        fio.run(&[&job[..], &verify[..], &[&uri]].concat())
    });
    for is_killed in [false, true, false] {
        eventually("fio writes", || server.status().cgroup("/main").number("write_ios") > 300);
        if is_killed {
            server.kill();
        } else {
            server.stop();
        }
        server = Server::image(&place, &image, &flags);
    }
    let said = verified.join().expect("fio finds what it wrote");
    assert!(said.contains("err= 0"), "{said}");
    assert_eq!(server.status().cgroup("/main").number("failed_ios"), 0);
    server.stop();
}
