//! Our own client, flooding the server with one kind of request. Another client has its turn in between.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, eventually};

const MIB: u32 = 1 << 20;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
const BLOCK_STATUS: u16 = 7;

/// Two tenants of the device at `path`.
fn serve(place: &Place, path: &str) -> Server {
    Server::config(
        place,
        &format!(
            r#"
            [device.disk]
            path = {path:?}
            [cgroup."/bad"]
            [cgroup."/good"]
            [export.bad]
            device = "disk"
            cgroup = "/bad"
            [export.good]
            device = "disk"
            cgroup = "/good"
            "#
        ),
    )
}

fn connect(server: &Server, export: &str) -> Client {
    Client::open(nbd::dial(server.socket()), export).expect("an export")
}

/// A connection that may ask for BLOCK_STATUS.
fn connect_structured(server: &Server, export: &str) -> UnixStream {
    let mut stream = nbd::dial(server.socket());
    let number = |len: usize| u32::try_from(len).expect("names are short").to_be_bytes();
    let context = "base:allocation";
    let query = [
        &number(export.len())[..],
        export.as_bytes(),
        &number(1),
        &number(context.len()),
        context.as_bytes(),
    ]
    .concat();
    let hello = [
        nbd::CLIENT_FLAGS.to_be_bytes().to_vec(),
        nbd::option(STRUCTURED_REPLY, &[]),
        nbd::option(SET_META_CONTEXT, &query),
        nbd::go(export),
    ];
    stream.write_all(&hello.concat()).expect("the server takes a handshake");
    stream.read_exact(&mut [0; 18]).expect("a greeting");
    loop {
        let mut head = [0; 20];
        stream.read_exact(&mut head).expect("a reply");
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four"));
        stream.read_exact(&mut vec![0; word(16) as usize]).expect("its data");
        match (word(8), word(12)) {
            (nbd::OPT_GO, 1) => return stream,
            (option, reply) => assert!(reply < 1 << 31, "option {option} fails with {reply:#x}"),
        }
    }
}

#[test]
fn a_flood_of_block_status_leaves_turns_to_others() {
    let place = Place::new();
    let path = place.file("disk.img");
    let image = File::create(&path).expect("a file can be made");
    image.set_len(64 << 20).expect("a file can be long");
    for block in (0..64 << 20).step_by(32 << 10) {
        image.write_all_at(&[1; 4096], block).expect("a file can be written");
    }
    let server = serve(&place, path.to_str().expect("a plain name"));
    let mut good = connect(&server, "good");
    let bad = connect_structured(&server, "bad");
    let flood = nbd::request(BLOCK_STATUS, 0, 1, 0, 64 * MIB).repeat(1024);
    let asked = |server: &Server| server.status().cgroup("/bad").number("other_ios");
    std::thread::scope(|scope| {
        scope.spawn(|| while (&bad).write_all(&flood).is_ok() {});
        scope.spawn(|| while (&bad).read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {});
        eventually("the flood is there", || asked(&server) > 1000);
        let before = asked(&server);
        const READS: u64 = 500;
        for _ in 0..READS {
            good.read(0, 4096).expect("a good client is served");
        }
        let beside = asked(&server) - before;
        bad.shutdown(Shutdown::Both).expect("it is open");
        // A read takes a few turns of the loop, from one sleep of its client to the next; a turn answers one or two.
        assert!(beside < 100 * READS, "{beside} answers beside {READS} reads");
    });
    server.stop();
}

/// A gibibyte of zeroes that must not be holes takes this disk more than a second, and goes to it in 52 pieces: reads of
/// another tenant come in between.
#[test]
fn a_flood_of_zeroes_leaves_turns_to_others() {
    const NO_HOLE: u16 = 2;
    let place = Place::new();
    let server = serve(&place, "emulated:ssd-sata,size=1G");
    let mut good = connect(&server, "good");
    let mut bad = connect(&server, "bad");
    let stream = bad.stream().try_clone().expect("a socket can be shared");
    let flood = nbd::request(nbd::Kind::WriteZeroes as u16, NO_HOLE, 1, 0, 1024 * MIB).repeat(64);
    let done = |server: &Server| server.status().cgroup("/bad").number("completed_ios");
    std::thread::scope(|scope| {
        scope.spawn(|| while (&stream).write_all(&flood).is_ok() {});
        scope.spawn(|| while (&stream).read(&mut [0; 1 << 16]).is_ok_and(|len| len > 0) {});
        eventually("the flood is there", || server.status().number("in_flight") > 0);
        let before = done(&server);
        const READS: u64 = 20;
        for _ in 0..READS {
            good.read(0, 4096).expect("a good client is served");
        }
        let beside = done(&server) - before;
        stream.shutdown(Shutdown::Both).expect("it is open");
        assert!(beside < READS / 2, "{beside} GiB of zeroes beside {READS} reads");
    });
    server.stop();
}
