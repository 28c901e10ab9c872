//! Requests against a source directory, without a mount.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::io::Errno;
use support::{Fs, TOP, both_ways};
use weir_fuse_proto::{Op, SetAttr};

fn number(error: Errno) -> i32 {
    error.raw_os_error()
}

#[test]
fn what_is_written_is_in_the_source_and_is_read() {
    both_ways(|mut fs| {
        let (file, handle) = fs.create(TOP, "a", 0o640, 0);
        assert_eq!(fs.write(file.node, handle, 3, b"text"), Ok(4));
        assert_eq!(fs::read(fs.path("a")).unwrap(), b"\0\0\0text");
        assert_eq!(fs.read(file.node, handle, 2, 100), Ok(b"\0text".to_vec()));
        assert_eq!(fs.attributes(file.node).unwrap().size, 7);
        let set = SetAttr { size: Some(5), mode: Some(0o600), ..SetAttr::default() };
        fs.ask(file.node, Op::Setattr(set)).unwrap();
        let metadata = fs::metadata(fs.path("a")).unwrap();
        assert_eq!((metadata.len(), metadata.mode() & 0o7777), (5, 0o600));
        fs.release(file.node, handle);
        assert_eq!(fs.read(file.node, handle, 0, 1), Err(number(Errno::BADF)));
    });
}

#[test]
fn a_node_is_an_inode_whatever_it_is_called() {
    both_ways(|mut fs| {
        fs::write(fs.path("a"), "text").unwrap();
        let first = fs.look_up(TOP, "a").unwrap();
        fs.ask(TOP, Op::Link { target: first.node, name: OsStr::new("b") }).unwrap();
        let second = fs.look_up(TOP, "b").unwrap();
        assert_eq!((second.node, second.nlink), (first.node, 2));

        let (name, new_name) = (OsStr::new("b"), OsStr::new("c"));
        fs.ask(TOP, Op::Rename { name, new_parent: TOP, new_name, flags: 0 }).unwrap();
        fs.ask(TOP, Op::Unlink { name: OsStr::new("a") }).unwrap();
        assert_eq!(fs.attributes(first.node).unwrap().nlink, 1);
        assert_eq!(fs.look_up(TOP, "a"), Err(number(Errno::NOENT)));

        // Two lookups by name, one by the link: all taken back, it is not known any more.
        assert_eq!(fs.fs.size().0, 2);
        fs.forget(first.node, 3);
        assert_eq!(fs.fs.size().0, 1);
        assert_eq!(fs.attributes(first.node), Err(number(Errno::STALE)));
        assert_ne!(fs.look_up(TOP, "c").unwrap().node, first.node);
    });
}

#[test]
fn an_open_file_without_a_name_goes_on() {
    both_ways(|mut fs| {
        let (file, handle) = fs.create(TOP, "a", 0o600, 0);
        fs.ask(TOP, Op::Unlink { name: OsStr::new("a") }).unwrap();
        assert_eq!(fs.write(file.node, handle, 0, b"text"), Ok(4));
        let attributes = fs.attributes(file.node).unwrap();
        assert_eq!((attributes.size, attributes.nlink), (4, 0));
        let set = SetAttr { size: Some(1), ..SetAttr::default() };
        fs.ask(file.node, Op::Setattr(set)).unwrap();
        assert_eq!(fs.read(file.node, handle, 0, 9), Ok(b"t".to_vec()));

        // A new file of that name is another, even where it has the same inode number.
        fs.release(file.node, handle);
        let (other, _) = fs.create(TOP, "a", 0o600, 0);
        assert_ne!(other.node, file.node);
    });
}

#[test]
fn what_is_moved_below_is_found_again_by_name() {
    let mut fs = Fs::new(true);
    fs::create_dir(fs.path("d")).unwrap();
    fs::write(fs.path("d/a"), "text").unwrap();
    let directory = fs.look_up(TOP, "d").unwrap();
    let file = fs.look_up(directory.node, "a").unwrap();
    fs::rename(fs.path("d"), fs.path("e")).unwrap();
    // The kernel looks up again after this, under the name that it is told.
    assert_eq!(fs.attributes(file.node), Err(number(Errno::STALE)));
    assert_eq!(fs.look_up(TOP, "e").unwrap().node, directory.node);
    assert_eq!(fs.attributes(file.node).unwrap().size, 4);
    // Another file under the old name is not taken for it.
    fs::rename(fs.path("e/a"), fs.path("e/b")).unwrap();
    fs::write(fs.path("e/a"), "other").unwrap();
    assert_eq!(fs.attributes(file.node), Err(number(Errno::STALE)));
}

#[test]
fn a_directory_is_listed_whole_in_replies_of_any_size() {
    both_ways(|mut fs| {
        for index in 0..500 {
            fs::write(fs.path(&format!("file-{index}")), "").unwrap();
        }
        for (size, plus) in [(300, false), (300, true), (4096, true), (1 << 20, false)] {
            let mut names: Vec<_> =
                fs.list(TOP, size, plus).into_iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), 502, "{size} bytes, with attributes: {plus}");
        }
        // The kernel counts a lookup for each entry with attributes that it has got, and no more are counted here.
        let known = fs.list(TOP, 4096, true);
        known.iter().filter(|(_, node)| *node != 0).for_each(|&(_, node)| fs.forget(node, 3));
        assert_eq!(fs.fs.size(), (1, 0));
    });
}

#[test]
fn no_descriptor_is_kept_for_a_node() {
    both_ways(|mut fs| {
        let count = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = count();
        for index in 0..1000 {
            let name = format!("file-{index}");
            fs::write(fs.path(&name), "").unwrap();
            fs.look_up(TOP, &name).unwrap();
        }
        assert_eq!(fs.fs.size().0, 1001);
        // Other tests of this process have some open.
        assert!(count() < before + 100);
    });
}

#[test]
fn links_and_devices_are_what_they_are() {
    both_ways(|mut fs| {
        symlink("/elsewhere", fs.path("link")).unwrap();
        let link = fs.look_up(TOP, "link").unwrap();
        assert_eq!(link.mode >> 12, 0o12);
        assert_eq!(fs.ask(link.node, Op::Readlink).unwrap(), b"/elsewhere");
        let name = OsStr::new("fifo");
        let op = Op::Mknod { name, mode: 0o010_644, rdev_major: 0, rdev_minor: 0, umask: 0o22 };
        fs.ask(TOP, op).unwrap();
        assert_eq!(fs.look_up(TOP, "fifo").unwrap().mode, 0o010_644);
        assert_eq!(fs.look_up(TOP, ".."), Err(number(Errno::INVAL)));
    });
}

#[test]
fn attributes_of_files_are_kept() {
    both_ways(|mut fs| {
        let (file, _) = fs.create(TOP, "a", 0o600, 0);
        let name = OsStr::new("user.weir");
        let set = Op::Setxattr { name, value: b"value", flags: 0, kills_sgid: false };
        match fs.ask(file.node, set) {
            Err(error) if error == number(Errno::OPNOTSUPP) => return,
            result => result.unwrap(),
        };
        assert_eq!(fs.ask(file.node, Op::Getxattr { name, size: 100 }).unwrap(), b"value");
        let too_small = fs.ask(file.node, Op::Getxattr { name, size: 2 });
        assert_eq!(too_small, Err(number(Errno::RANGE)));
        let size = fs.ask(file.node, Op::Getxattr { name, size: 0 }).unwrap();
        assert_eq!(size[..4], 5_u32.to_ne_bytes());
        assert!(
            fs.ask(file.node, Op::Listxattr { size: 4096 }).unwrap().starts_with(b"user.weir\0")
        );
        fs.ask(file.node, Op::Removexattr { name }).unwrap();
        let gone = fs.ask(file.node, Op::Getxattr { name, size: 100 });
        assert_eq!(gone, Err(number(Errno::NODATA)));
    });
}

#[test]
fn a_file_without_a_name_gets_one() {
    both_ways(|mut fs| {
        // O_RDWR
        let body = match fs.ask(TOP, Op::Tmpfile { flags: 2, mode: 0o100_600, umask: 0 }) {
            Err(error) if error == number(Errno::OPNOTSUPP) => return,
            result => result.unwrap(),
        };
        let node = u64::from_ne_bytes(body[..8].try_into().unwrap());
        let handle = u64::from_ne_bytes(body[128..136].try_into().unwrap());
        fs.write(node, handle, 0, b"text").unwrap();
        fs.ask(TOP, Op::Link { target: node, name: OsStr::new("a") }).unwrap();
        assert_eq!(fs::read(fs.path("a")).unwrap(), b"text");
        assert_eq!(fs.look_up(TOP, "a").unwrap().node, node);
    });
}

/// Only root can be another user.
#[test]
fn new_files_belong_to_the_caller() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    both_ways(|mut fs| {
        fs::set_permissions(fs.source.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs.become_user(12_345, 23_456);
        let (file, handle) = fs.create(TOP, "a", 0o666, 0o27);
        assert_eq!((file.owner, file.mode), ((12_345, 23_456), 0o100_640));
        let op = Op::Mkdir { name: OsStr::new("d"), mode: 0o777, umask: 0o22 };
        fs.ask(TOP, op).unwrap();
        let directory = fs.look_up(TOP, "d").unwrap();
        assert_eq!((directory.owner, directory.mode), ((12_345, 23_456), 0o040_755));

        // In a directory of a group, new files are the group's.
        let path = fs.path("d");
        std::os::unix::fs::chown(&path, None, Some(34_567)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2777)).unwrap();
        let (inner, _) = fs.create(directory.node, "b", 0o600, 0);
        assert_eq!(inner.owner, (12_345, 34_567));

        // A write takes the set-user-id bit away where the kernel says so, and the next one of root does not.
        fs::set_permissions(fs.path("a"), fs::Permissions::from_mode(0o4755)).unwrap();
        let write_flags = weir_fuse_proto::flags::WriteFlags::KILL_SUIDGID;
        let op = Op::Write { handle, offset: 0, data: b"x", flags: 2, write_flags };
        fs.ask(file.node, op).unwrap();
        assert_eq!(fs.attributes(file.node).unwrap().mode & 0o7777, 0o755);
        fs::set_permissions(fs.path("a"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs.become_user(0, 0);
        fs.write(file.node, handle, 0, b"x").unwrap();
        assert_eq!(fs.attributes(file.node).unwrap().mode & 0o7777, 0o4755);
        let (roots, _) = fs.create(TOP, "r", 0o644, 0);
        assert_eq!(roots.owner, (0, 0));
    });
}
