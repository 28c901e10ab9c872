//! Settings of exports that clients are told, and what follows from them.

use serde_json::{Value, json};
use weir_tests::nbd::{self, Client};
use weir_tests::{Place, Server, peer, python};

/// What an export says of itself, and what it refuses of clients that it was told to.
#[test]
fn block_sizes_and_flags_are_those_of_the_export() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let config = r#"
        [device.disk]
        path = "memory:1M"
        [export.plain]
        device = "disk"
        cgroup = "/"
        [export.blocks]
        device = "disk"
        cgroup = "/"
        block_size = "min=4096 preferred=64K max=256K"
        rotational = true
        multi_conn = false
    "#;
    let server = Server::config(&place, config);
    let told = |export: usize| {
        let json = nbdinfo.run(&["--json", &server.uris()[export]]);
        let json: Value = serde_json::from_str(&json).expect("JSON");
        let export = &json["exports"][0];
        [
            "block_size_minimum",
            "block_size_preferred",
            "block_size_maximum",
            "is_rotational",
            "can_multi_conn",
        ]
        .map(|key| export[key].clone())
    };
    assert_eq!(told(0), [json!(1), json!(4096), json!(32 << 20), json!(false), json!(true)]);
    assert_eq!(told(1), [json!(4096), json!(65_536), json!(262_144), json!(true), json!(false)]);
    // This client does not ask for them.
    let mut client = Client::open(nbd::dial(server.socket()), "blocks").expect("an export");
    client.write(0, 512, &[7; 300_000]).expect("a write that keeps to no block size");
    assert_eq!(client.read(511, 2).expect("a read"), [0, 7]);
    drop(client);
    server.stop();
}

#[test]
fn libnbd_keeps_to_the_block_sizes_that_it_is_told() {
    let place = Place::new();
    let Some(block_sizes) = python("block_sizes.py") else { return };
    let config = r#"
        [device.disk]
        path = "memory:1M"
        [export.blocks]
        device = "disk"
        cgroup = "/"
        block_size = "min=4096 max=256K"
    "#;
    let server = Server::config(&place, config);
    block_sizes.run(&[server.uri()]);
    server.stop();
}

#[test]
fn an_export_with_a_part_of_a_block_at_its_end_is_not_served() {
    let place = Place::new();
    let config = r#"
        [device.disk]
        path = "memory:1M"
        [export.blocks]
        device = "disk"
        cgroup = "/"
        range = "0..6144"
        block_size = "min=4K"
    "#;
    let log = Server::try_config(&place, config, 1).expect_err("its end cannot be reached").log;
    assert!(log.contains("6144 bytes is no multiple of its least block size, 4096"), "{log}");
}
