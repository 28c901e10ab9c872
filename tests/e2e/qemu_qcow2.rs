//! QEMU: a qcow2 image that lives on an export, with the many small and dependent writes of its metadata.

use weir_tests::{Place, Server, peer};

#[test]
fn qemu_img_check_passes_on_a_qcow2_image_in_an_export() {
    let place = Place::new();
    let (Some(qemu_img), Some(qemu_io)) = (peer("qemu-img"), peer("qemu-io")) else { return };
    let image = place.hole("disk.img", 32 << 20);
    let server = Server::image(&place, &image, &[]);
    let uri = server.uri();
    qemu_img.run(&["create", "-q", "-f", "qcow2", "-o", "cluster_size=4k", uri, "16M"]);
    let script: Vec<String> = (0..60u32)
        .flat_map(|number| {
            let at = u64::from(number) * 7 % 60 * 250;
            [
                format!("write -q -P {} {at}k 9k", number + 1),
                format!("read -q -P {} {at}k 9k", number + 1),
            ]
        })
        .chain(["discard 0 100k".into(), "flush".into()])
        .collect();
    let mut arguments = vec!["-f", "qcow2"];
    arguments.extend(script.iter().flat_map(|command| ["-c", command]));
    arguments.push(uri);
    let said = qemu_io.run(&arguments);
    assert!(!said.contains("failed"), "{said}");
    let said = qemu_img.run(&["check", "-f", "qcow2", uri]);
    assert!(said.contains("No errors were found"), "{said}");
    qemu_img.run(&["snapshot", "-c", "before", uri]);
    qemu_io.run(&["-f", "qcow2", "-c", "write -P 0xff 1M 1M", uri]);
    qemu_img.run(&["snapshot", "-a", "before", uri]);
    let said = qemu_img.run(&["check", "-f", "qcow2", uri]);
    assert!(said.contains("No errors were found"), "{said}");
    server.stop();
    // The same without a server between.
    let said = qemu_img.run(&["check", "-f", "qcow2", image.to_str().expect("a plain name")]);
    assert!(said.contains("No errors were found"), "{said}");
}
