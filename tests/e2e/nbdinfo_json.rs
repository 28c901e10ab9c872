//! nbdinfo: description of an export.

use std::path::Path;

use serde_json::{Value, json};
use weir_tests::{LoopDevice, Place, Server, peer, skip};

fn export_of(server: &Server) -> Option<Value> {
    let info = peer("nbdinfo")?.run(&["--json", server.uri()]);
    let mut info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    Some(info["exports"][0].take())
}

#[test]
fn flags_size_and_block_sizes_are_told() {
    let place = Place::new();
    let image = place.hole("disk.img", 10 << 20);
    let server = Server::image(&place, image, &[]);
    let Some(export) = export_of(&server) else { return };
    for (key, expected) in [
        ("export-name", json!("")),
        ("export-size", json!(10 << 20)),
        ("is_read_only", json!(false)),
        ("is_rotational", export["is_rotational"].clone()),
        ("can_flush", json!(true)),
        ("can_fua", json!(true)),
        ("can_trim", json!(true)),
        ("can_zero", json!(true)),
        ("can_fast_zero", json!(true)),
        ("can_cache", json!(true)),
        ("can_df", json!(true)),
        ("can_multi_conn", json!(true)),
        ("block_size_minimum", json!(1)),
        ("block_size_maximum", json!(32 << 20)),
        ("contexts", json!(["base:allocation", "qemu:allocation-depth"])),
    ] {
        assert_eq!(export[key], expected, "{key} of {export:#}");
    }
    let preferred = export["block_size_preferred"].as_u64().expect("a number");
    assert!(preferred >= 4096 && preferred.is_power_of_two(), "{preferred}");
    server.stop();
}

#[test]
fn a_read_only_export_offers_no_writes() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let server = Server::image(&place, image, &["--read-only"]);
    let Some(export) = export_of(&server) else { return };
    for (key, expected) in [
        ("is_read_only", true),
        ("can_trim", false),
        ("can_zero", false),
        ("can_fast_zero", false),
        ("can_cache", true),
        ("can_df", true),
        ("can_multi_conn", true),
    ] {
        assert_eq!(export[key], expected, "{key} of {export:#}");
    }
    server.stop();
}

#[test]
fn an_odd_size_is_exact_to_the_byte() {
    let place = Place::new();
    let image = place.hole("disk.img", 1_234_567);
    let server = Server::image(&place, image, &[]);
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    assert_eq!(nbdinfo.run(&["--size", server.uri()]).trim(), "1234567");
    server.stop();
}

#[test]
fn a_disk_with_platters_has_the_rotational_flag() {
    for (disk, rotates) in [
        ("emulated:hdd7200,size=16M", true),
        ("emulated:ssd-nvme,size=16M", false),
        ("emulated:null,size=16M", false),
        ("memory:16M", false),
    ] {
        let place = Place::new();
        let server = Server::image(&place, disk, &[]);
        let Some(export) = export_of(&server) else { return };
        assert_eq!(export["is_rotational"], rotates, "{disk}");
        server.stop();
    }
}

#[test]
fn a_block_device_has_the_rotational_flag_of_the_system() {
    let place = Place::new();
    let image = place.hole("disk.img", 1 << 20);
    let Some(device) = LoopDevice::new(&image, 512) else { return };
    let name = device.path().file_name().expect("it has a name").to_owned();
    let attribute = Path::new("/sys/block").join(name).join("queue/rotational");
    for rotates in [true, false] {
        if std::fs::write(&attribute, if rotates { "1" } else { "0" }).is_err() {
            return skip("sysfs cannot be written");
        }
        let server = Server::image(&place, device.path(), &[]);
        let Some(export) = export_of(&server) else { return };
        assert_eq!(export["is_rotational"], rotates);
        server.stop();
    }
}

#[test]
fn multi_conn_is_offered_unless_the_maximum_is_one() {
    for connections in [1, 2] {
        let place = Place::new();
        let config = format!(
            r#"
            max_connections = {connections}
            [device.disk]
            path = "memory:1M"
            [export.""]
            device = "disk"
            cgroup = "/"
            "#
        );
        let server = Server::config(&place, &config);
        let Some(export) = export_of(&server) else { return };
        assert_eq!(export["can_multi_conn"], connections > 1);
        server.stop();
    }
}
