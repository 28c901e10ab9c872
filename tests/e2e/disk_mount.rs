//! An emulated disk as a file: mounted, used by programs that know nothing of it, and let go in every way.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use weir_tests::{LoopDevice, Place, eventually, pattern, peer, skip, wait, weir};

/// No platters to wait for.
const DISK: &str = "null,latency=0ns,size=64M";
const SIZE: u64 = 64 << 20;

/// A `weir disk mount --foreground`, killed and unmounted when dropped.
pub(crate) struct Mounted {
    child: Child,
    directory: PathBuf,
    file: PathBuf,
}

impl Mounted {
    /// `None`, after [`skip`], where it takes rights that the test has not got.
    pub(crate) fn new(place: &Place, flags: &[&str]) -> Option<Mounted> {
        Mounted::with_disk(place, DISK, flags)
    }

    /// Likewise another disk.
    pub(crate) fn with_disk(place: &Place, disk: &str, flags: &[&str]) -> Option<Mounted> {
        if !may_mount() {
            return None;
        }
        let directory = empty(place);
        let mut child = Command::new(weir())
            .args(["disk", "mount", disk, "--foreground"])
            .arg(&directory)
            .args(flags)
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("weir can be started");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        let file = PathBuf::from(line.trim_end());
        let mounted = Mounted { child, directory, file };
        assert!(mounted.file.starts_with(&mounted.directory), "{line:?} is where the disk is");
        Some(mounted)
    }

    /// Where the disk is.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    #[track_caller]
    fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child).expect("it ends")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Both fail when all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.directory)
            .stderr(Stdio::null())
            .status();
    }
}

pub(crate) fn may_mount() -> bool {
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    match fuse {
        Ok(_) if geteuid().is_root() => true,
        Ok(_) => {
            skip("mounting takes root");
            false
        }
        Err(error) => {
            skip(&format!("/dev/fuse: {error}"));
            false
        }
    }
}

fn empty(place: &Place) -> PathBuf {
    let directory = place.file("mounted");
    fs::create_dir(&directory).expect("a directory can be made");
    directory
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test files have plain names")
}

#[test]
fn a_mounted_disk_keeps_what_programs_write() {
    let place = Place::new();
    let Some(mut mounted) = Mounted::new(&place, &[]) else { return };
    let (Some(dd), Some(sums)) = (peer("dd"), peer("sha256sum")) else { return };
    let source = place.filled("source", &pattern(3, 9 << 20));
    let disk = mounted.file.clone();
    let (from, to) = (format!("if={}", text(&source)), format!("of={}", text(&disk)));
    // Opened with `O_TRUNC`, which a disk ignores.
    dd.run(&[&from, &to, "bs=1M", "status=none"]);
    assert_eq!(fs::metadata(&disk).expect("it is there").len(), SIZE);
    // Small, odd and direct, over a part of the first.
    dd.run(&[&from, &to, "bs=512", "count=100", "seek=100", "oflag=direct,dsync", "status=none"]);
    let back = place.file("back");
    let (from, to) = (format!("if={}", text(&disk)), format!("of={}", text(&back)));
    dd.run(&[&from, &to, "bs=3M", "count=3", "status=none"]);
    let mut wanted = pattern(3, 9 << 20);
    wanted.copy_within(..100 * 512, 100 * 512);
    let wanted = place.filled("wanted", &wanted);
    let sum = |path: &Path| sums.run(&[text(path)]).split(' ').next().map(str::to_owned);
    assert_eq!(sum(&back), sum(&wanted));
    mounted.signal(Signal::TERM);
    assert_eq!(mounted.ended().code(), Some(0));
    assert!(is_empty(&mounted.directory));
}

#[test]
fn a_loop_device_works_on_a_mounted_disk() {
    let place = Place::new();
    let Some(mut mounted) = Mounted::new(&place, &["--name", "platters"]) else { return };
    assert_eq!(mounted.file, mounted.directory.join("platters"));
    let Some(device) = LoopDevice::new(&mounted.file, 512) else { return };
    let bytes = pattern(4, 1 << 20);
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    let mut file = File::options().read(true).write(true).open(device.path()).expect("a device");
    file.write_all(&bytes).expect("it can be written");
    file.sync_all().expect("it can be flushed");
    assert!(device.flushes() > 0);
    let mut found = vec![0; bytes.len()];
    File::open(&mounted.file)
        .and_then(|mut disk| disk.read_exact(&mut found))
        .expect("it is there");
    assert!(found == bytes);
    if let Some(discard) = peer("blkdiscard") {
        drop(file);
        discard.run(&["--offset", "4096", "--length", "8192", text(device.path())]);
        let disk = File::open(&mounted.file).expect("it is there");
        disk.read_exact_at(&mut found, 0).expect("it can be read");
        assert!(found[4096..12288].iter().all(|byte| *byte == 0));
        assert!(found[..4096] == bytes[..4096] && found[12288..] == bytes[12288..]);
    }
    drop(device);
    mounted.signal(Signal::INT);
    assert_eq!(mounted.ended().code(), Some(0));
}

#[test]
fn a_disk_that_is_open_stays_mounted() {
    let place = Place::new();
    let Some(mut mounted) = Mounted::new(&place, &[]) else { return };
    let disk = File::options().read(true).write(true).open(&mounted.file).expect("it is there");
    mounted.signal(Signal::TERM);
    eventually("the directory is given back", || is_empty(&mounted.directory));
    disk.write_all_at(b"still", 7).expect("it is served");
    let mut found = [0; 5];
    disk.read_exact_at(&mut found, 7).expect("it is served");
    assert_eq!(&found, b"still");
    drop(disk);
    assert_eq!(mounted.ended().code(), Some(0));
}

#[test]
fn a_second_signal_does_not_wait_for_users() {
    let place = Place::new();
    let Some(mut mounted) = Mounted::new(&place, &[]) else { return };
    let disk = File::open(&mounted.file).expect("it is there");
    mounted.signal(Signal::TERM);
    eventually("the directory is given back", || is_empty(&mounted.directory));
    let mut ended = None;
    eventually("a second one ends it", || {
        mounted.signal(Signal::TERM);
        ended = mounted.child.try_wait().expect("a child can be asked");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.code()), Some(143));
    disk.read_at(&mut [0], 0).expect_err("nobody serves it");
}

#[test]
fn a_full_memory_refuses_writes_until_a_discard() {
    let place = Place::new();
    let Some(mounted) = Mounted::new(&place, &["--memory", "1M"]) else { return };
    let disk = File::options().read(true).write(true).open(&mounted.file).expect("it is there");
    let bytes = pattern(5, 1 << 20);
    disk.write_all_at(&bytes, 32 << 20).expect("it fits");
    let refused = disk.write_all_at(&bytes, 0).expect_err("it does not fit");
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    disk.write_all_at(&bytes, 32 << 20).expect("it is there already");
    let Some(fallocate) = peer("fallocate") else { return };
    fallocate.run(&["--punch-hole", "--offset", "32M", "--length", "1M", text(&mounted.file)]);
    disk.write_all_at(&bytes, 0).expect("there is room");
    let mut found = vec![1; bytes.len()];
    disk.read_exact_at(&mut found, 32 << 20).expect("it can be read");
    assert!(found.iter().all(|byte| *byte == 0));
}

#[test]
fn a_background_server_ends_with_its_mount() {
    let place = Place::new();
    if !may_mount() {
        return;
    }
    let Some(umount) = peer("umount") else { return };
    let directory = empty(&place);
    let started = Command::new(weir())
        .args(["disk", "mount", "hdd7200"])
        .arg(&directory)
        .args(["--size", "1G"])
        .output()
        .expect("weir can be started");
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let disk = directory.join("disk");
    assert_eq!(String::from_utf8_lossy(&started.stdout), format!("{}\n", disk.display()));
    assert_eq!(fs::metadata(&disk).expect("it is there").len(), 1 << 30);
    umount.run(&[text(&directory)]);
    assert!(is_empty(&directory));
    // Its number is not known, its argument is.
    let mine = text(&directory).as_bytes();
    let runs = |process: fs::DirEntry| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == mine)
    };
    eventually("nobody serves it any more", || {
        !fs::read_dir("/proc").expect("it is there").filter_map(Result::ok).any(runs)
    });
}

#[test]
fn the_mount_of_a_killed_server_can_be_removed() {
    let place = Place::new();
    let Some(mut mounted) = Mounted::new(&place, &[]) else { return };
    let Some(umount) = peer("umount") else { return };
    mounted.signal(Signal::KILL);
    assert_eq!(mounted.ended().code(), None);
    let again = Command::new(weir()).args(["disk", "mount", DISK]).arg(&mounted.directory).output();
    let again = again.expect("weir can be started");
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1), "{said}");
    assert!(said.contains("is a mount whose server has ended"), "{said}");
    assert!(said.contains(&format!("umount {}", mounted.directory.display())), "{said}");
    umount.run(&[text(&mounted.directory)]);
    assert!(is_empty(&mounted.directory));
}

#[test]
fn mounts_that_cannot_work_are_explained() {
    let place = Place::new();
    let directory = empty(&place);
    let file = place.filled("file", b"x");
    let files = file.parent().expect("it is in a directory");
    let missing = place.file("missing");
    for (arguments, code, words) in [
        (&["hdd7201", text(&directory)][..], 2, &["no disk model", "hdd7200"][..]),
        (&["null,latncy=1us", text(&directory)], 2, &["latncy", "did you mean `latency`?"]),
        (&["null,size=1M", text(&directory), "--size", "2M"], 2, &["`size` is given twice"]),
        (&["null", text(&directory), "--memory", "lots"], 2, &["--memory: ", "lots"]),
        (&["null", text(&directory), "--name", "a/b"], 2, &["named \"a/b\""]),
        (&["null", text(files)], 1, &["is not empty", "name an empty directory"]),
        (&["null", text(&file)], 1, &["is no directory"]),
        (&["null", text(&missing)], 1, &["No such file", "mkdir"]),
    ] {
        let ran = Command::new(weir()).args(["disk", "mount"]).args(arguments).output();
        let ran = ran.expect("weir can be started");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(ran.stdout.is_empty(), "{arguments:?}");
        for word in words {
            assert!(said.contains(word), "no {word:?} in {said}");
        }
    }
}

#[test]
fn disks_are_listed() {
    let listed = Command::new(weir()).args(["disk", "list", "--format", "json"]).output();
    let listed = listed.expect("weir can be started");
    assert!(listed.status.success());
    let disks: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    let disks = disks.as_array().expect("a list");
    let named = |name: &str| disks.iter().find(|disk| disk["name"] == name);
    let hdd = named("hdd7200").expect("it is there");
    assert!(hdd["size_bytes"].as_u64().is_some_and(|size| size > 1 << 39), "{hdd}");
    assert!(named("null").is_some());
}
