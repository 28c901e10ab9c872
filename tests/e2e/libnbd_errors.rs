//! libnbd: refused requests, their error numbers, and no side effects.

use weir_tests::{Place, Server, pattern, python};

#[test]
fn a_read_only_export_stays_as_it_is() {
    let place = Place::new();
    let bytes = pattern(3, 1 << 20);
    let image = place.filled("disk.img", &bytes);
    let Some(read_only) = python("read_only.py") else { return };
    let server = Server::image(&place, &image, &["--read-only"]);
    read_only.run(&[server.uri()]);
    server.stop();
    assert!(std::fs::read(&image).expect("the image is there") == bytes);
}

#[test]
fn a_read_only_export_of_a_writable_device_stays_as_it_is() {
    let place = Place::new();
    let Some(read_only) = python("read_only.py") else { return };
    let server = Server::config(
        &place,
        r#"
        [device.disk]
        path = "memory:1M"
        [export.""]
        device = "disk"
        cgroup = "/"
        read_only = true
        "#,
    );
    read_only.run(&[server.uri()]);
    server.stop();
}

#[test]
fn a_bad_request_fails_alone() {
    let place = Place::new();
    let bytes = pattern(4, (1 << 20) + 100);
    let image = place.filled("disk.img", &bytes);
    let Some(bounds) = python("bounds.py") else { return };
    let server = Server::image(&place, &image, &[]);
    bounds.run(&[server.uri()]);
    assert!(server.status().is_idle());
    server.stop();
    assert!(std::fs::read(&image).expect("the image is there") == bytes);
}
