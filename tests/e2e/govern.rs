//! `weir govern` on this machine's kernel: its throttle, over a loop device on an emulated disk; and its command line.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use weir_tests::{LoopDevice, Place, eventually, peer, run, skip, wait, weir};

use crate::disk_mount::Mounted;

const MIB: u64 = 1 << 20;
/// Slow, so that it is the disk that is slow on a busy machine, too.
const DISK: &str = "null,rate=5M,size=64M";
const BLOCK: usize = 16 << 10;
/// Requests of a cgroup at once: the disk is never without one while its thread is late.
const DEPTH: u64 = 4;
const LIMIT_FILES: [&str; 4] = [
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_bps_device",
    "blkio.throttle.read_iops_device",
    "blkio.throttle.write_iops_device",
];

/// Cgroups of version 1 below one of the test's own, removed when dropped.
struct Cgroups(PathBuf);

impl Cgroups {
    /// `None`, after [`skip`], where the kernel has no such tree or it is not ours to change.
    fn new(names: &[&str]) -> Option<Cgroups> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
        let root = mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let is_one = after.next() == Some("cgroup")
                && after
                    .nth(1)
                    .is_some_and(|options| options.split(',').any(|option| option == "blkio"));
            is_one.then(|| before.split(' ').nth(4).unwrap_or_default().to_owned())
        });
        let Some(root) = root else {
            skip("there is no tree of cgroup v1 with blkio");
            return None;
        };
        let own = Path::new(&root).join(format!("weir-test-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&own) {
            skip(&format!("{}: {error}", own.display()));
            return None;
        }
        let cgroups = Cgroups(own);
        if !cgroups.0.join(LIMIT_FILES[0]).exists() {
            skip("the kernel has no throttle for cgroups");
            return None;
        }
        for name in names {
            fs::create_dir(cgroups.0.join(name)).expect("it is below one of ours");
        }
        Some(cgroups)
    }

    fn file(&self, cgroup: &str, file: &str) -> PathBuf {
        self.0.join(cgroup).join(file)
    }

    fn limit_reads(&self, cgroup: &str, device: &str, limit: u64) {
        fs::write(self.file(cgroup, LIMIT_FILES[0]), format!("{device} {limit}")).expect("a limit");
    }

    /// The limit on reads of the one device that has any.
    fn read_limit(&self, cgroup: &str) -> Option<u64> {
        let text = fs::read_to_string(self.file(cgroup, LIMIT_FILES[0])).expect("it is there");
        text.split_whitespace().nth(1).map(|limit| limit.parse().expect("a number"))
    }

    /// All files with limits, byte for byte.
    fn limits(&self, cgroups: &[&str]) -> Vec<String> {
        let files =
            cgroups.iter().flat_map(|cgroup| LIMIT_FILES.map(|file| self.file(cgroup, file)));
        files.map(|file| fs::read_to_string(file).expect("it is there")).collect()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let below = fs::read_dir(&self.0).into_iter().flatten().flatten();
        for cgroup in below.filter(|entry| entry.path().is_dir()) {
            // Threads that have ended leave it a moment later.
            eventually("a cgroup is empty", || fs::remove_dir(cgroup.path()).is_ok());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Threads of one cgroup that read a device past the page cache, each one block at a time.
struct Reader {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Reader {
    fn new(device: &Path, tasks: PathBuf, threads: u64) -> Reader {
        let (stop, bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..threads).map(|index| {
            let (device, tasks) = (device.to_owned(), tasks.clone());
            let (stop, bytes) = (Arc::clone(&stop), Arc::clone(&bytes));
            std::thread::spawn(move || {
                // 0 is the thread that writes it.
                fs::write(tasks, "0").expect("a thread may move to another cgroup");
                let mut options = File::options();
                options.read(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
                let device = options.open(device).expect("a device");
                let mut buffer = vec![0; BLOCK + 4096];
                let start = buffer.as_ptr().align_offset(4096);
                let mut at = index * 16 * MIB;
                while !stop.load(Ordering::Relaxed) {
                    let block = &mut buffer[start..start + BLOCK];
                    device.read_exact_at(block, at).expect("it can be read");
                    bytes.fetch_add(BLOCK as u64, Ordering::Relaxed);
                    at = (at + BLOCK as u64) % (64 * MIB);
                }
            })
        });
        let threads = threads.collect();
        Reader { stop, bytes, threads }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// MiB/s of each reader over `time`.
#[expect(clippy::disallowed_methods, reason = "the kernel's throttle is measured in real time")]
fn rates(readers: &[&Reader], time: Duration) -> Vec<f64> {
    let before: Vec<u64> = readers.iter().map(|reader| reader.bytes()).collect();
    let start = Instant::now();
    std::thread::sleep(time);
    let seconds = start.elapsed().as_secs_f64();
    let after = readers.iter().map(|reader| reader.bytes());
    after
        .zip(before)
        .map(|(after, before)| (after - before) as f64 / MIB as f64 / seconds)
        .collect()
}

/// A `weir govern`, killed when dropped.
struct Governor {
    child: Child,
    state: PathBuf,
    log: PathBuf,
}

impl Governor {
    fn start(place: &Place, device: &Path, flags: &[&str]) -> Governor {
        let (state, log) = (place.file("state"), place.file("log"));
        let child = Command::new(weir())
            .arg("govern")
            .arg(device)
            .arg("--state")
            .arg(&state)
            .args(["--log", "text", "--log-level", "debug"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().append(true).create(true).open(&log).expect("ours"))
            .spawn()
            .expect("weir can be started");
        let governor = Governor { child, state, log };
        eventually("it governs", || governor.has_said(" governs "));
        governor
    }

    fn has_said(&self, words: &str) -> bool {
        fs::read_to_string(&self.log).expect("ours").contains(words)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    #[track_caller]
    fn ended(mut self) -> ExitStatus {
        wait(&mut self.child).expect("it ends")
    }

    fn status(&self) -> Option<serde_json::Value> {
        let mut command = Command::new(weir());
        command.args(["govern", "status", "--format", "json", "--state"]).arg(&self.state);
        let all: serde_json::Value = serde_json::from_str(&run(&mut command).stdout).ok()?;
        all.get(0).cloned()
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The disk as a loop device, with its number.
fn device(place: &Place) -> Option<(Mounted, LoopDevice, String)> {
    let mounted = Mounted::with_disk(place, DISK, &[])?;
    let device = LoopDevice::new(mounted.file(), 512)?;
    let name =
        device.path().file_name().expect("a device has a name").to_string_lossy().into_owned();
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("sysfs");
    Some((mounted, device, number.trim().to_owned()))
}

/// Two tenants limited to 1 MiB/s and half of it, on a disk of 5, and a third without a limit.
#[test]
fn limits_of_the_kernel_bind_while_the_disk_is_busy() {
    if !geteuid().is_root() {
        return skip("limits of cgroups take root");
    }
    let place = Place::new();
    let Some(cgroups) = Cgroups::new(&["a", "b", "other"]) else { return };
    let Some((_mounted, device, number)) = device(&place) else { return };
    cgroups.limit_reads("a", &number, MIB);
    cgroups.limit_reads("b", &number, MIB / 2);
    let before = cgroups.limits(&["a", "b"]);
    let reader = |cgroup: &str| Reader::new(device.path(), cgroups.file(cgroup, "tasks"), DEPTH);
    let whole = {
        let alone = reader("other");
        rates(&[&alone], Duration::from_secs(2))[0]
    };
    let (a, b) = (reader("a"), reader("b"));
    let governor = Governor::start(&place, device.path(), &[]);
    // Neither is measured well while other tests use the machine: one good window shows that it can be.
    let mut windows = Vec::new();
    let is_shared = |window: &[f64]| {
        let (sum, ratio) = (window[0] + window[1], window[0] / window[1]);
        sum > 0.9 * whole && (1.8..2.2).contains(&ratio)
    };
    while windows.len() < 15 && !windows.last().is_some_and(|last: &Vec<f64>| is_shared(last)) {
        windows.push(rates(&[&a, &b], Duration::from_secs(2)));
    }
    eprintln!("alone {whole:.1}, governed {windows:.2?} MiB/s");
    let last = windows.last().expect("there is one");
    assert!(is_shared(last), "of {whole:.2} MiB/s in no window 90 % at 2 to 1: {windows:.2?}");

    let other = reader("other");
    eventually("both are back at their limits", || cgroups.limits(&["a", "b"]) == before);
    let together = rates(&[&a, &b, &other], Duration::from_secs(2));
    eprintln!("with a newcomer {together:.2?} MiB/s");
    assert!(together[0] < 1.2 && together[1] < 0.6, "{together:?}");
    let status = governor.status().expect("it runs");
    assert_eq!(status["interface"], "cgroup v1");
    assert_eq!(status["cgroups"].as_array().map(Vec::len), Some(2), "{status}");
    drop(other);

    let is_raised = || {
        cgroups.read_limit("a") > Some(5 * MIB / 4) && cgroups.read_limit("b") > Some(5 * MIB / 8)
    };
    eventually("they are raised again", is_raised);
    let second = run(Command::new(weir())
        .arg("govern")
        .arg(device.path())
        .arg("--state")
        .arg(&governor.state));
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    let said = format!("is governed by process {} already", governor.child.id());
    assert!(second.stderr.contains(&said), "{second:?}");
    governor.signal(Signal::KILL);
    let state = governor.state.clone();
    assert!(!governor.ended().success());
    assert!(is_raised(), "limits are loose, never tight");
    let restored = run(Command::new(weir()).args(["govern", "--restore", "--state"]).arg(&state));
    assert_eq!(
        restored.stdout,
        format!("{number}: limits of 2 cgroups put back\n"),
        "{restored:?}"
    );
    assert_eq!(cgroups.limits(&["a", "b"]), before);

    // What others write meanwhile is adopted, and is what an end puts back.
    let governor = Governor::start(&place, device.path(), &[]);
    eventually("they are raised", is_raised);
    cgroups.limit_reads("b", &number, 700 << 10);
    let adopted = cgroups.limits(&["b"]);
    eventually("it is adopted", || governor.has_said("rbps=716800"));
    eventually("it is raised", || cgroups.read_limit("b") > Some(800 << 10));
    governor.signal(Signal::TERM);
    assert_eq!(governor.ended().code(), Some(0));
    assert_eq!(cgroups.limits(&["a"]), before[..4]);
    assert_eq!(cgroups.limits(&["b"]), adopted);
}

#[test]
fn what_cannot_be_governed_is_explained() {
    let place = Place::new();
    let tree = place.file("cgroup");
    fs::create_dir(&tree).expect("ours");
    fs::write(tree.join("cgroup.controllers"), "io\n").expect("ours");
    let config = place.file("govern.toml");
    fs::write(&config, "[unit.backup]\n\"io.max\" = \"rbps=2O\"\n").expect("ours");
    let (tree, config) = (tree.to_str().expect("plain"), config.to_str().expect("plain"));
    for (arguments, code, words) in [
        (&["--cgroup-root", tree][..], 2, &["no device is named", "weir govern /dev/sdb"][..]),
        (&["/proc", "--cgroup-root", tree], 2, &["proc, a file system without a block device"]),
        (&["/nowhere", "--cgroup-root", tree], 1, &["/nowhere: No such file"]),
        (&["9999:1", "--cgroup-root", tree], 1, &["no block device 9999:1", "lsblk"]),
        (&["9999:1", "--cgroup-root", "/proc"], 2, &["/proc: no tree of cgroups"]),
        (&["--config", config], 2, &["govern.toml:2:13", "rbps=2O"]),
        (&["status", "--state", tree], 1, &["nothing is governed"]),
    ] {
        let ran = run(Command::new(weir()).arg("govern").args(arguments));
        let (said, status) = (&ran.stderr, ran.status.code());
        assert_eq!(status, Some(code), "{arguments:?}: {said}");
        for word in words {
            assert!(said.contains(word), "no {word:?} in {said}");
        }
    }
}

/// Metrics have help and types, and names that Prometheus likes.
#[test]
fn metrics_of_a_governor_are_good() {
    let place = Place::new();
    let Some(promtool) = peer("promtool") else { return };
    // A disk and a cgroup that are files, so that it takes no rights.
    let sys = place.file("sys");
    fs::create_dir_all(sys.join("dev/block/8:16")).expect("ours");
    fs::write(sys.join("dev/block/8:16/stat"), "0 0 0 0 0 0 0 0 0 0 0\n").expect("ours");
    let cgroup = place.file("cgroup/a \"b\"");
    fs::create_dir_all(&cgroup).expect("ours");
    fs::write(place.file("cgroup/cgroup.controllers"), "io\n").expect("ours");
    fs::write(cgroup.join("io.max"), "8:16 rbps=4096 wbps=max riops=7 wiops=max\n").expect("ours");
    fs::write(cgroup.join("io.stat"), "").expect("ours");
    let metrics = place.file("weir.prom");
    let path = |path: &Path| path.to_str().expect("plain").to_owned();
    let (sys, tree, file) = (path(&sys), path(&place.file("cgroup")), path(&metrics));
    let flags = ["--sysfs", &sys, "--cgroup-root", &tree, "--metrics", &file];
    let governor = Governor::start(&place, Path::new("8:16"), &flags);
    eventually("metrics are written", || metrics.exists());
    let mut text = String::new();
    File::open(&metrics).and_then(|mut file| file.read_to_string(&mut text)).expect("it is there");
    assert!(
        text.contains(
            "weir_govern_limit{device=\"8:16\",cgroup=\"/a \\\"b\\\"\",limit=\"riops\"} 7\n"
        ),
        "{text}"
    );
    promtool.run_with(&["check", "metrics"], &text);
    governor.signal(Signal::INT);
    assert_eq!(governor.ended().code(), Some(0));
    assert!(!metrics.exists(), "old values do not stay");
}
