//! Our own client, at devices that are cut short or gone while they are served.

use std::fs::File;

use weir_tests::nbd::{Client, EIO, Kind};
use weir_tests::{LoopDevice, Place, Server, eventually, peer};

const BLOCK: u32 = 4096;

/// Cuts a file short, or makes it longer again.
fn set_len(path: &std::path::Path, len: u64) {
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_len(len))
        .expect("it can be set");
}

/// The error of one request's answer, 0 for none.
fn answer(client: &mut Client, kind: Kind, offset: u64) -> u32 {
    let payload = if kind == Kind::Write { &[9; BLOCK as usize][..] } else { &[] };
    client.send(kind, 0, offset, BLOCK, payload).expect("it is taken");
    client.receive().expect("it is answered").error
}

#[test]
fn a_truncated_image_does_not_grow_and_reports_no_hole() {
    let place = Place::new();
    let image = place.filled("disk.img", &vec![7; 1 << 20]);
    let server = Server::image(&place, &image, &[]);
    let mut client = Client::of(&server);
    assert_eq!(answer(&mut client, Kind::Read, 768 << 10), 0);
    set_len(&image, 512 << 10);
    eventually("it is noticed", || {
        assert_eq!(answer(&mut client, Kind::Read, 768 << 10), EIO);
        server.log().contains("cut short")
    });
    for kind in [Kind::Write, Kind::WriteZeroes] {
        assert_eq!(answer(&mut client, kind, 768 << 10), EIO);
    }
    assert_eq!(image.metadata().expect("it is there").len(), 512 << 10);
    assert_eq!(answer(&mut client, Kind::Write, 0), 0, "what is there is served");
    assert_eq!(answer(&mut client, Kind::Read, 0), 0);
    if let Some(nbdinfo) = peer("nbdinfo") {
        let map = nbdinfo.run(&["--map", server.uri()]);
        assert!(map.contains("data") && !map.contains("hole"), "{map}");
    }
    set_len(&image, 1 << 20);
    eventually("it is whole again", || answer(&mut client, Kind::Write, 768 << 10) == 0);
    server.stop();
}

#[test]
fn queued_requests_beyond_a_truncated_end_fail_at_once() {
    let place = Place::new();
    let image = place.filled("disk.img", &vec![7; 4 << 20]);
    let server = Server::image(&place, &image, &["--max", "riops=4", "--burst", "1"]);
    let mut client = Client::of(&server);
    // At the limit, two minutes of reads; those of the first half are few.
    for number in 0..500 {
        let half = if number < 10 { 0 } else { 2 << 20 };
        client
            .send(Kind::Read, 0, half + number * u64::from(BLOCK), BLOCK, &[])
            .expect("it is taken");
    }
    eventually("they wait", || server.status().number("throttled") > 480);
    set_len(&image, 2 << 20);
    let mut failed = 0;
    while client.pending() > 0 {
        let reply = client.receive().expect("it is answered");
        assert!(reply.error == 0 || reply.error == EIO, "{reply:?}");
        failed += u32::from(reply.error == EIO);
    }
    assert_eq!(failed, 490);
    assert!(server.status().cgroup("/main").number("read_ios") < 400);
    server.stop();
}

/// A loop device over a file that has nothing any more fails every read, and its size says nothing of it.
#[test]
fn queued_requests_of_a_removed_device_fail_at_once() {
    let place = Place::new();
    let image = place.filled("disk.img", &vec![7; 4 << 20]);
    let Some(device) = LoopDevice::new(&image, 512) else { return };
    let flags = ["--max", "riops=4", "--burst", "1", "--direct", "on"];
    let server = Server::image(&place, device.path(), &flags);
    let mut client = Client::of(&server);
    // Eight reads in a row are in eight of the device's 64 areas.
    for number in 0..500 {
        let block = number * 37 % 1024;
        client.send(Kind::Read, 0, block * u64::from(BLOCK), BLOCK, &[]).expect("it is taken");
    }
    eventually("they wait", || server.status().number("throttled") > 480);
    set_len(&image, 0);
    let mut failed = 0;
    while client.pending() > 0 {
        failed += u32::from(client.receive().expect("it is answered").error == EIO);
    }
    assert!(failed > 400, "{failed} failed");
    assert!(server.log().contains("the device is gone"), "{}", server.log());
    assert!(server.status().cgroup("/main").number("read_ios") < 400);
    assert!(server.status().balances());
    // Nothing was written, so nothing is lost.
    server.stop();
}
