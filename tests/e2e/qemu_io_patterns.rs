//! qemu-io: patterns written and read back, one at a time and many at once.

use weir_tests::{Peer, Place, Server, peer};

/// Runs qemu-io commands, one after the other; a read with `-P` that finds something else fails.
fn commands(qemu_io: &Peer, uri: &str, commands: &[&str]) -> String {
    let mut arguments = vec!["-f", "raw", "-t", "none"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", *command]));
    arguments.push(uri);
    let said = qemu_io.run(&arguments);
    assert!(!said.contains("verification failed"), "{said}");
    said
}

#[test]
fn written_patterns_are_read_back() {
    let place = Place::new();
    let Some(qemu_io) = peer("qemu-io") else { return };
    for mode in place.direct_modes() {
        let image = place.hole(&format!("{mode}.img"), 4 << 20);
        let server = Server::image(&place, image, &["--direct", mode]);
        let uri = server.uri();
        commands(
            &qemu_io,
            uri,
            &[
                "write -P 0x11 0 1M",
                "write -P 0x22 512 512",
                "write -f -P 0x33 3M 64k",
                "writev -P 0x44 2M 4096 512 8192",
                "flush",
                "read -P 0x11 0 512",
                "read -P 0x22 512 512",
                "read -P 0x11 1024 1047552",
                "read -P 0x33 3M 64k",
                "readv -P 0x44 2M 8192 4096 512",
                "read -P 0 1M 1M",
            ],
        );
        // Another process, another connection.
        commands(&qemu_io, uri, &["read -P 0x22 512 512", "read -P 0x33 3M 64k"]);
        server.stop();
    }
}

#[test]
fn many_parallel_patterns_are_read_back() {
    let place = Place::new();
    let Some(qemu_io) = peer("qemu-io") else { return };
    let image = place.hole("disk.img", 8 << 20);
    let server = Server::image(&place, image, &[]);
    let at =
        |command: &str, number: u32| format!("{command} -P {} {}k 64k", number + 1, number * 64);
    let mut script: Vec<String> = (0..100).map(|number| at("aio_write -q", number)).collect();
    script.push("aio_flush".into());
    script.extend((0..100).map(|number| at("aio_read -q", number)));
    script.push("aio_flush".into());
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let said = commands(&qemu_io, server.uri(), &script);
    assert!(!said.contains("failed"), "{said}");
    server.stop();
}

#[test]
fn a_read_only_export_is_opened_for_reading_only() {
    let place = Place::new();
    let Some(qemu_io) = peer("qemu-io") else { return };
    let server = Server::image(&place, "memory:1M", &["--read-only"]);
    let said = qemu_io.fails(&["-f", "raw", "-c", "write 0 512", server.uri()]);
    assert!(said.contains("Permission denied"), "{said}");
    qemu_io.run(&["-r", "-f", "raw", "-c", "read -P 0 0 1M", server.uri()]);
    server.stop();
}
