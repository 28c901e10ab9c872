//! Our own client: flushes and FUA reach the device. A loop device counts them.

use weir_tests::nbd::{self, Client, Kind};
use weir_tests::{LoopDevice, Place, Server};

#[test]
fn every_flush_and_every_durable_write_reaches_the_device() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let Some(device) = LoopDevice::new(&image, 512) else { return };
    for mode in ["on", "off"] {
        let server = Server::image(&place, device.path(), &["--direct", mode]);
        let mut client = Client::of(&server);
        let mut flushes = |count: u64, what: &str, call: &mut dyn FnMut(&mut Client, u64)| {
            let before = device.flushes();
            (0..count).for_each(|number| call(&mut client, number));
            let found = device.flushes() - before;
            assert!(found >= count, "{found} flushes for {count} {what}, direct {mode}");
        };
        flushes(5, "flushes", &mut |client, number| {
            client.write(0, number * 4096, &[1; 4096]).expect("written");
            client.call(Kind::Flush, 0, 0, 0).expect("flushed");
        });
        flushes(5, "durable writes", &mut |client, number| {
            client.write(nbd::FUA, number * 4096, &[2; 4096]).expect("written");
        });
        flushes(5, "durable writes of parts of blocks", &mut |client, number| {
            client.write(nbd::FUA, number * 4096 + 100, &[3; 200]).expect("written");
        });
        flushes(5, "durable zeroes", &mut |client, number| {
            client.call(Kind::WriteZeroes, nbd::FUA, number * 4096, 4096).expect("zeroed");
        });
        flushes(5, "durable trims", &mut |client, number| {
            client.call(Kind::Trim, nbd::FUA, number * 4096, 4096).expect("trimmed");
        });
        // No request asked for anything to last.
        let before = device.flushes();
        for number in 0..20 {
            client.write(0, number * 4096, &[4; 4096]).expect("written");
        }
        assert_eq!(device.flushes() - before, 0, "flushes nobody asked for, direct {mode}");
        // The server flushes the rest at its end.
        let before = device.flushes();
        drop(client);
        server.stop();
        assert!(device.flushes() > before, "the server ended without a flush, direct {mode}");
    }
}
