//! libnbd: structured and simple replies, large ones and those in many parts.

use weir_tests::{Place, Server, python};

#[test]
fn structured_and_simple_replies_agree() {
    let place = Place::new();
    let Some(replies) = python("replies.py") else { return };
    let image = place.hole("disk.img", 40 << 20);
    let server = Server::image(&place, image, &[]);
    replies.run(&[server.uri()]);
    server.stop();
}

#[test]
fn the_largest_requests_are_served() {
    let place = Place::new();
    let Some(large) = python("large.py") else { return };
    for mode in place.direct_modes() {
        let image = place.hole(&format!("{mode}.img"), 40 << 20);
        let server = Server::image(&place, image, &["--direct", mode]);
        large.run(&[server.uri()]);
        server.stop();
    }
    let server = Server::image(&place, "memory:40M", &[]);
    large.run(&[server.uri()]);
    server.stop();
}
