//! qemu-img: size, map and format of an export.

use serde_json::{Value, json};
use weir_tests::{Place, Server, pattern, peer};

const MIB: u64 = 1 << 20;

#[test]
fn the_map_shows_data_and_holes() {
    let place = Place::new();
    let Some(qemu_img) = peer("qemu-img") else { return };
    let data = pattern(15, MIB as usize);
    let image = place.sparse("disk.img", 16 * MIB, &[(0, &data), (5 * MIB, &data)]);
    let server = Server::image(&place, image, &[]);
    let map = qemu_img.run(&["map", "--output=json", "-f", "raw", server.uri()]);
    let map: Value = serde_json::from_str(&map).expect("JSON");
    let told = |extent: &Value| ["start", "length", "data", "zero"].map(|key| extent[key].clone());
    let extents: Vec<_> = map.as_array().expect("a list").iter().map(told).collect();
    let expected = [(0, 1, true), (1, 4, false), (5, 1, true), (6, 10, false)]
        .map(|(at, len, data)| [json!(at * MIB), json!(len * MIB), json!(data), json!(!data)]);
    assert_eq!(extents, expected);
    server.stop();
}

#[test]
fn info_tells_the_size() {
    let place = Place::new();
    let Some(qemu_img) = peer("qemu-img") else { return };
    let server = Server::image(&place, "memory:12M", &[]);
    let info = qemu_img.run(&["info", "--output=json", "-f", "raw", server.uri()]);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["virtual-size"], json!(12 * MIB));
    server.stop();
}
