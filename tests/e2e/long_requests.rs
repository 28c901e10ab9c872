//! Requests of many mebibytes, which go to the device in pieces: their bytes, their order, and the end of a client
//! amid one.

use weir_tests::nbd::{self, Client, FUA, Kind};
use weir_tests::{Place, Server, eventually, pattern};

const MIB: u64 = 1 << 20;
/// Lengths and offsets that no piece, block or page ends at.
const ODD: u64 = 512 + 77;
const LEN: usize = 20 * MIB as usize + 1234;

/// Every kind of device, with and without the write-back cache.
fn each_device(place: &Place, test: impl Fn(&str, Server)) {
    let image = place.file("image");
    for what in [image.to_str().expect("a plain name"), "memory:128M", "emulated:null,size=128M"] {
        for flags in [&["--scheduler", "bfq"][..], &["--cache", "writeback"]] {
            let file = std::fs::File::create(&image).expect("a file can be made");
            file.set_len(128 * MIB).expect("there is room");
            test(&format!("{what} {flags:?}"), Server::image(place, what, flags));
        }
    }
}

#[test]
fn a_long_write_is_read_back_whole_on_every_device() {
    let place = Place::new();
    let bytes = pattern(1, LEN);
    each_device(&place, |device, server| {
        let mut client = Client::of(&server);
        for flags in [0, FUA] {
            client.write(flags, ODD, &bytes).expect("a long write");
            let read = client.read(ODD, LEN as u32).expect("a long read");
            assert!(read == bytes, "{device}: other bytes");
        }
        drop(client);
        server.stop();
    });
}

#[test]
fn long_zeroes_and_trims_change_exactly_their_range() {
    let place = Place::new();
    each_device(&place, |device, server| {
        let mut client = Client::of(&server);
        for at in (0..128).step_by(16) {
            client.write(0, at * MIB, &vec![7; 16 * MIB as usize]).expect("a long write");
        }
        let len = 70 * MIB as u32 + 99;
        client.call(Kind::WriteZeroes, FUA, MIB + ODD, len).expect("zeroes");
        let before = client.read(0, (MIB + ODD) as u32).expect("a read");
        assert!(before.iter().all(|&byte| byte == 7), "{device}: too early");
        for at in (0..70).step_by(10) {
            let read = client.read(MIB + ODD + at * MIB, 10 * MIB as u32).expect("a long read");
            assert!(read.iter().all(|&byte| byte == 0), "{device}: not zero at {at} MiB");
        }
        let end = MIB + ODD + u64::from(len);
        assert_eq!(client.read(end - 1, 2).expect("a read"), [0, 7], "{device}: its end");
        client.call(Kind::Trim, FUA, 80 * MIB, 40 * MIB as u32).expect("a trim");
        assert_eq!(client.read(79 * MIB, 1).expect("a read"), [7], "{device}");
        assert_eq!(client.read(120 * MIB, 1).expect("a read"), [7], "{device}");
        drop(client);
        assert!(server.status().balances(), "{device}");
        server.stop();
    });
}

/// On a disk that takes 7 ms for a mebibyte, zeroes of 256 MiB take seconds, and a read of another client that comes
/// after them is answered first.
#[test]
fn a_small_read_is_answered_before_a_long_request_that_came_first() {
    for scheduler in ["none", "bfq"] {
        let place = Place::new();
        let server = Server::image(&place, "emulated:hdd7200,size=1G", &["--scheduler", scheduler]);
        let mut long = Client::of(&server);
        let mut small = Client::of(&server);
        long.send(Kind::WriteZeroes, 0, 0, 256 * MIB as u32, &[]).expect("a request");
        eventually("it is at the device", || server.status().number("in_flight") == 1);
        small.read(512 * MIB, 4096).expect("a read");
        assert_eq!(server.status().number("in_flight"), 1, "the long one is still under way");
        long.receive().expect("it is answered, too");
        drop((long, small));
        assert!(server.status().is_idle() && server.status().balances());
        server.stop();
    }
}

#[test]
fn a_client_that_disconnects_during_a_long_request_leaves_nothing_behind() {
    for flags in [&[][..], &["--cache", "writeback"]] {
        let place = Place::new();
        let server = Server::image(&place, "emulated:hdd7200,size=8G", flags);
        let mut long = Client::open(nbd::dial(server.socket()), "").expect("an export");
        long.send(Kind::WriteZeroes, FUA, 0, 2 << 30, &[]).expect("a request");
        eventually("it is at the device", || server.status().number("in_flight") == 1);
        drop(long);
        eventually("nothing is under way", || server.status().is_idle());
        assert!(server.status().balances());
        let mut other = Client::of(&server);
        other.write(FUA, 0, &[1; 4096]).expect("a write to the same place");
        assert_eq!(other.read(0, 2).expect("a read"), [1, 1]);
        drop(other);
        server.stop();
    }
}
