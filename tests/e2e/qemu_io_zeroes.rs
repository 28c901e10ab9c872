//! qemu-io: zeroes, with and without holes, and discards.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use weir_tests::{Peer, Place, Server, pattern, peer};

const SIZE: usize = 4 << 20;
const PART: u64 = 1 << 20;

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").blocks() * 512
}

/// A server of an image full of data; the command; how many bytes the image takes afterwards.
fn after(qemu_io: &Peer, serve: &[&str], commands: &[&str]) -> (u64, Vec<u8>) {
    let place = Place::new();
    let image = place.filled("disk.img", &pattern(16, SIZE));
    // On the disk before it is measured: an ext4 file has no blocks until then.
    fs::File::open(&image).and_then(|file| file.sync_all()).expect("it can be synced");
    let server = Server::image(&place, &image, serve);
    let mut arguments = vec!["-f", "raw", "-d", "unmap"];
    arguments.extend(commands.iter().flat_map(|command| ["-c", *command]));
    arguments.push(server.uri());
    let said = qemu_io.run(&arguments);
    assert!(!said.contains("failed"), "{said}");
    server.stop();
    (allocated(&image), fs::read(&image).expect("it is there"))
}

fn expected(zeroed: std::ops::Range<usize>) -> Vec<u8> {
    let mut bytes = pattern(16, SIZE);
    bytes[zeroed].fill(0);
    bytes
}

#[test]
fn zeroes_become_holes_with_unmap() {
    let Some(qemu_io) = peer("qemu-io") else { return };
    let commands = ["write -z -u 1M 1M", "read -P 0 1M 1M", "flush"];
    let (allocated, bytes) = after(&qemu_io, &[], &commands);
    assert!(bytes == expected(1 << 20..2 << 20));
    assert!(allocated <= SIZE as u64 - PART, "{allocated}");
}

#[test]
fn zeroes_without_unmap_stay_allocated() {
    let Some(qemu_io) = peer("qemu-io") else { return };
    let commands = ["write -z 1M 1M", "read -P 0 1M 1M", "flush"];
    let (allocated, bytes) = after(&qemu_io, &[], &commands);
    assert!(bytes == expected(1 << 20..2 << 20));
    assert!(allocated >= SIZE as u64, "{allocated}");
}

#[test]
fn zeroes_that_must_be_fast_are_fast_or_refused() {
    let Some(qemu_io) = peer("qemu-io") else { return };
    let place = Place::new();
    let image = place.filled("disk.img", &pattern(16, SIZE));
    let server = Server::image(&place, &image, &[]);
    let command =
        |command: &str| qemu_io.ends(&["-f", "raw", "-d", "unmap", "-c", command, server.uri()]);
    for (flags, range) in [("-n", 0..1 << 20), ("-u -n", 2 << 20..3 << 20)] {
        let ran = command(&format!("write -z {flags} {}k 1M", range.start >> 10));
        let zeroed = ran.status.success() && !ran.stdout.contains("failed");
        let refused = (ran.stdout.clone() + &ran.stderr).contains("not supported");
        assert!(zeroed != refused, "{ran:?}");
        let found = fs::read(&image).expect("it is there");
        let expected =
            if zeroed { vec![0; 1 << 20] } else { pattern(16, SIZE)[range.clone()].into() };
        assert!(found[range] == expected, "{flags}: neither zeroed nor as it was");
    }
    server.stop();
}

#[test]
fn zeroes_across_blocks_change_exactly_their_range() {
    let Some(qemu_io) = peer("qemu-io") else { return };
    let place = Place::new();
    for mode in place.direct_modes() {
        for flags in ["", "-u", "-f", "-u -f"] {
            let command = format!("write -z {flags} 1000 200000");
            let (_, bytes) = after(&qemu_io, &["--direct", mode], &[&command]);
            assert!(bytes == expected(1000..201_000), "direct {mode}, {flags}");
        }
    }
}

#[test]
fn a_discard_frees_space_in_the_file() {
    let Some(qemu_io) = peer("qemu-io") else { return };
    let (allocated, bytes) = after(&qemu_io, &[], &["discard 1M 2M", "flush"]);
    let kept = |range: std::ops::Range<usize>| bytes[range.clone()] == pattern(16, SIZE)[range];
    assert!(kept(0..1 << 20) && kept(3 << 20..SIZE), "more than was discarded has changed");
    assert!(allocated <= SIZE as u64 - 2 * PART, "{allocated}");
}
