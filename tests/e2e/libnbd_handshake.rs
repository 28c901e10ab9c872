//! libnbd: old and new ways to shake hands.

use weir_tests::{Place, Server, python};

#[test]
fn clients_without_option_go_are_served() {
    let place = Place::new();
    let Some(old) = python("old_handshakes.py") else { return };
    let server = Server::image(&place, "memory:1M", &[]);
    old.run(&[server.uri(), "1048576"]);
    server.stop();
}

#[test]
fn option_info_describes_the_export_before_go() {
    let place = Place::new();
    let Some(options) = python("options.py") else { return };
    let server = Server::config(
        &place,
        r#"
        [device.disk]
        path = "memory:3M"
        [export.one]
        device = "disk"
        cgroup = "/"
        range = "0..1M"
        description = "the first"
        [export.two]
        device = "disk"
        cgroup = "/"
        range = "1M..3M"
        "#,
    );
    options.run(&[server.uri()]);
    server.stop();
}
