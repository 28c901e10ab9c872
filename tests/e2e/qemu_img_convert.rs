//! qemu-img: images are converted to and from an export.

use weir_tests::{Place, Server, pattern, peer};

const SIZE: usize = 8 << 20;

#[test]
fn qemu_img_converts_raw_to_qcow2_through_weir() {
    let place = Place::new();
    let Some(qemu_img) = peer("qemu-img") else { return };
    let data = pattern(12, 1 << 20);
    let places = [(0, &data[..]), (3 << 20, &data), (SIZE as u64 - 4096, &data[..4096])];
    let source = place.sparse("source", SIZE as u64, &places);
    let image = place.filled("disk.img", &pattern(13, SIZE));
    let qcow2 = place.file("copy.qcow2");
    let server = Server::image(&place, &image, &[]);
    let (uri, source) = (server.uri(), source.to_str().expect("a plain name"));
    let qcow2 = qcow2.to_str().expect("a plain name");
    qemu_img.run(&["convert", "-n", "-f", "raw", "-O", "raw", source, uri]);
    qemu_img.run(&["compare", "-f", "raw", "-F", "raw", source, uri]);
    qemu_img.run(&["convert", "-f", "raw", "-O", "qcow2", uri, qcow2]);
    qemu_img.run(&["compare", "-f", "raw", "-F", "qcow2", uri, qcow2]);
    // Many coroutines, out of order.
    qemu_img.run(&["convert", "-n", "-m", "16", "-W", "-f", "qcow2", "-O", "raw", qcow2, uri]);
    let said = qemu_img.run(&["compare", "-f", "raw", "-F", "raw", source, uri]);
    assert!(said.contains("identical"), "{said}");
    server.stop();
    assert!(std::fs::read(source).expect("source") == std::fs::read(&image).expect("image"));
}

#[test]
fn qemu_img_compare_finds_one_changed_byte() {
    let place = Place::new();
    let Some(qemu_img) = peer("qemu-img") else { return };
    let mut bytes = pattern(14, 1 << 20);
    let image = place.filled("disk.img", &bytes);
    bytes[777_777] ^= 1;
    let other = place.filled("other", &bytes);
    let server = Server::image(&place, image, &[]);
    let other = other.to_str().expect("a plain name");
    let said = qemu_img.fails(&["compare", "-f", "raw", "-F", "raw", other, server.uri()]);
    assert!(said.contains("mismatch at offset 777728") || said.contains("777777"), "{said}");
    server.stop();
}
