//! nbdinfo: the map of data and holes.

use serde_json::{Value, json};
use weir_tests::{Place, Server, pattern, peer};

const MIB: u64 = 1 << 20;

#[test]
fn the_map_shows_data_and_holes() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let data = pattern(5, MIB as usize);
    let image = place.sparse("disk.img", 16 * MIB, &[(MIB, &data), (8 * MIB, &data)]);
    let server = Server::image(&place, image, &[]);
    let map: Value =
        serde_json::from_str(&nbdinfo.run(&["--map", "--json", server.uri()])).expect("JSON");
    let told = |extent: &Value| {
        (extent["offset"].clone(), extent["length"].clone(), extent["type"].clone())
    };
    let extents: Vec<_> = map.as_array().expect("a list").iter().map(told).collect();
    let expected = [(0, 1, 3), (1, 1, 0), (2, 6, 3), (8, 1, 0), (9, 7, 3)]
        .map(|(at, len, kind)| (json!(at * MIB), json!(len * MIB), json!(kind)));
    assert_eq!(extents, expected);
    let map = nbdinfo.run(&["--map=qemu:allocation-depth", "--json", server.uri()]);
    let map: Value = serde_json::from_str(&map).expect("JSON");
    let depths: Vec<_> =
        map.as_array().expect("a list").iter().map(|extent| extent["type"].clone()).collect();
    assert_eq!(depths, [0, 1, 0, 1, 0].map(|depth| json!(depth)));
    server.stop();
}
