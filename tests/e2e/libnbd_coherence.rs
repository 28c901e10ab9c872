//! libnbd: several connections see one disk.

use weir_tests::{Place, Server, python};

#[test]
fn all_connections_read_what_one_has_flushed() {
    let place = Place::new();
    let Some(coherence) = python("coherence.py") else { return };
    for mode in place.direct_modes() {
        let image = place.hole(&format!("{mode}.img"), 1 << 20);
        let server = Server::image(&place, &image, &["--direct", mode]);
        coherence.run(&[server.uri(), image.to_str().expect("a plain name")]);
        server.stop();
    }
    let image = place.hole("cached.img", 1 << 20);
    let server = Server::image(&place, &image, &["--cache", "writeback"]);
    coherence.run(&[server.uri(), image.to_str().expect("a plain name")]);
    server.stop();
    let server = Server::image(&place, "memory:1M", &[]);
    coherence.run(&[server.uri()]);
    server.stop();
}
