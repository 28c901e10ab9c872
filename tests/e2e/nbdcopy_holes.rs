//! nbdcopy: holes stay holes, in both directions.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use weir_tests::{Place, Server, pattern, peer};

const SIZE: u64 = 256 << 20;
const DATA: usize = 1 << 20;

fn assert_alike(a: &Path, b: &Path) {
    let read = |path: &Path| fs::read(path).expect("it is there");
    assert!(read(a) == read(b), "{} and {} differ", a.display(), b.display());
}

/// Bytes that a file takes on its disk; `st_blocks` counts in 512 bytes whatever the file system's block.
fn allocated(path: &Path) -> u64 {
    fs::metadata(path).expect("it is there").blocks() * 512
}

#[test]
fn a_sparse_image_stays_sparse() {
    let place = Place::new();
    let Some(nbdcopy) = peer("nbdcopy") else { return };
    let data = pattern(7, DATA);
    let places = [0, 100 << 20, SIZE - DATA as u64].map(|at| (at, &data[..]));
    let source = place.sparse("source", SIZE, &places);
    let (image, copy) = (place.hole("disk.img", SIZE), place.file("copy"));
    let server = Server::image(&place, &image, &[]);
    let path = |path: &Path| path.to_str().expect("a plain name").to_owned();
    nbdcopy.run(&[&path(&source), server.uri()]);
    nbdcopy.run(&[server.uri(), &path(&copy)]);
    let read = server.status().cgroup("/main").number("read_bytes");
    assert!(read < SIZE / 8, "holes were read: {read} bytes");
    server.stop();
    for file in [&image, &copy] {
        assert_alike(&source, file);
        assert!(allocated(file) < SIZE / 8, "{}: {}", file.display(), allocated(file));
    }
}

#[test]
fn old_data_under_new_holes_is_gone() {
    let place = Place::new();
    let Some(nbdcopy) = peer("nbdcopy") else { return };
    let size = 8 << 20;
    let data = pattern(8, DATA);
    let source = place.sparse("source", size, &[(3 << 20, &data)]);
    let image = place.filled("disk.img", &pattern(9, size as usize));
    let server = Server::image(&place, &image, &[]);
    nbdcopy.run(&[source.to_str().expect("a plain name"), server.uri()]);
    server.stop();
    assert_alike(&source, &image);
    assert!(allocated(&image) < size / 2, "zeroes were written instead of holes");
}

/// With `--allocated` the zeroes are to have room on the disk, so that later writes cannot fail for want of it.
#[test]
fn allocated_zeroes_take_room() {
    let place = Place::new();
    let Some(nbdcopy) = peer("nbdcopy") else { return };
    let size = 8 << 20;
    let data = pattern(10, DATA);
    let source = place.sparse("source", size, &[(3 << 20, &data)]);
    let image = place.filled("disk.img", &pattern(11, size as usize));
    let server = Server::image(&place, &image, &[]);
    nbdcopy.run(&["--allocated", source.to_str().expect("a plain name"), server.uri()]);
    server.stop();
    assert_alike(&source, &image);
    assert!(allocated(&image) >= size, "{} of {size} bytes are allocated", allocated(&image));
}
