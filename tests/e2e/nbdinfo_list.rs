//! nbdinfo: list of exports.

use serde_json::Value;
use weir_tests::{Place, Server, peer};

const CONFIG: &str = r#"
    listen = "127.0.0.1:0"
    [device.a]
    path = "memory:8M"
    [device.b]
    path = "memory:4M"
    [export.a]
    device = "a"
    cgroup = "/"
    description = "all of a"
    [export."with space/ü"]
    device = "b"
    cgroup = "/"
    range = "1M..3M"
    [export.readme]
    device = "b"
    cgroup = "/"
    range = "3M.."
    read_only = true
    "#;

#[test]
fn every_export_is_listed() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let server = Server::config(&place, CONFIG);
    for uri in [server.uri(), &server.uris()[1]] {
        let list = nbdinfo.run(&["--list", "--json", uri]);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let told = |export: &Value| {
            let text = |key: &str| export[key].as_str().unwrap_or_default().to_owned();
            let read_only = export["is_read_only"].as_bool().expect("a boolean");
            (text("export-name"), text("description"), export["export-size"].as_u64(), read_only)
        };
        let mut found: Vec<_> =
            list["exports"].as_array().expect("exports").iter().map(told).collect();
        found.sort();
        assert_eq!(
            found,
            [
                ("a".into(), "all of a".into(), Some(8 << 20), false),
                ("readme".into(), String::new(), Some(1 << 20), true),
                ("with space/ü".into(), String::new(), Some(2 << 20), false),
            ]
        );
    }
    server.stop();
}

#[test]
fn every_printed_uri_leads_to_its_export() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let server = Server::config(&place, CONFIG);
    assert_eq!(server.uris().len(), 6);
    let mut sizes: Vec<String> =
        server.uris().iter().map(|uri| nbdinfo.run(&["--size", uri]).trim().to_owned()).collect();
    sizes.sort();
    assert_eq!(sizes, ["1048576", "1048576", "2097152", "2097152", "8388608", "8388608"]);
    server.stop();
}

#[test]
fn an_export_that_is_not_there_is_an_error() {
    let place = Place::new();
    let Some(nbdinfo) = peer("nbdinfo") else { return };
    let server = Server::config(&place, CONFIG);
    let uri = server.uri().replace(":///a", ":///nope");
    let said = nbdinfo.fails(&[&uri]);
    assert!(said.contains("No such file or directory"), "{said}");
    server.stop();
}
