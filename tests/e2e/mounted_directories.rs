//! A directory under limits: used by programs that know nothing of it, by several users, and while it is held.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use weir_tests::{Place, crates_io, eventually, pattern, peer, wait, weir};

use crate::disk_mount::may_mount;

/// A `weir mount`, killed and unmounted when dropped.
struct MountedDirectory {
    weir: Child,
    source: PathBuf,
    mountpoint: PathBuf,
    report: PathBuf,
}

/// A counter of a cgroup.
fn counter(report: &Value, path: &str, name: &str) -> u64 {
    let cgroups = report["cgroups"].as_array().expect("a list");
    let cgroup = cgroups.iter().find(|cgroup| cgroup["path"] == path);
    cgroup.unwrap_or_else(|| panic!("{path} in {report:#}"))[name].as_u64().expect("a number")
}

impl MountedDirectory {
    /// `None`, after a skip, where it takes rights that the test has not got.
    fn new(place: &Place, flags: &[&str]) -> Option<MountedDirectory> {
        if !may_mount() {
            return None;
        }
        // Short: pjdfstest makes sockets there.
        let (source, mountpoint) = (place.file("source"), place.socket("m"));
        fs::create_dir(&source).expect("a directory can be made");
        fs::create_dir(&mountpoint).expect("a directory can be made");
        let report = place.file("report.json");
        let mut weir = Command::new(weir())
            .arg("mount")
            .args([&source, &mountpoint])
            .args(flags)
            .arg("--report")
            .arg(&report)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("weir can be started");
        let mut line = String::new();
        let stdout = weir.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("text");
        let mounted = MountedDirectory { weir, source, mountpoint, report };
        assert_eq!(Path::new(line.trim_end()), mounted.mountpoint);
        Some(mounted)
    }

    fn path(&self, name: &str) -> String {
        self.mountpoint.join(name).to_str().expect("test files have plain names").to_owned()
    }

    /// Unmounts; the report.
    #[track_caller]
    fn end(mut self) -> Value {
        kill_process(Pid::from_child(&self.weir), Signal::TERM).expect("it runs");
        let status = wait(&mut self.weir).expect("it ends");
        assert!(status.success(), "{status}");
        serde_json::from_slice(&fs::read(&self.report).expect("it was written")).expect("JSON")
    }
}

impl Drop for MountedDirectory {
    fn drop(&mut self) {
        // All fail when all went well.
        let _ = self.weir.kill();
        let _ = self.weir.wait();
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(&self.mountpoint)
            .stderr(Stdio::null())
            .status();
    }
}

fn start(program: &Path, arguments: &[&str]) -> Child {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it can be started")
}

#[test]
fn git_and_sqlite_work_in_a_mounted_directory() {
    let place = Place::new();
    let Some(mounted) = MountedDirectory::new(&place, &[]) else { return };
    let (Some(git), Some(sqlite)) = (peer("git"), peer("sqlite3")) else { return };
    let tree = mounted.path("tree");
    git.run(&["init", "--quiet", &tree]);
    fs::write(mounted.path("tree/file"), pattern(1, 300_000)).expect("it can be written");
    git.run(&["-C", &tree, "add", "."]);
    let (name, email) = ("user.name=test", "user.email=test@localhost");
    git.run(&["-C", &tree, "-c", name, "-c", email, "commit", "--quiet", "--message=first"]);
    git.run(&["-C", &tree, "fsck", "--strict"]);

    let database = mounted.path("database");
    for mode in ["delete", "wal"] {
        let script = format!(
            "pragma journal_mode={mode}; create table if not exists t(x);
             insert into t select hex(randomblob(500)) from generate_series(1, 500);
             pragma integrity_check;"
        );
        let said = sqlite.run(&[&database, &script]);
        assert!(said.ends_with("ok\n"), "{said}");
    }
    let report = mounted.end();
    assert!(counter(&report, "/users/root", "write_bytes") > 300_000);
    assert_eq!(report["unknown_bytes"], 0, "mappings have a writer too");
}

#[test]
fn pjdfstest_has_no_failures() {
    let place = Place::new();
    let Some(mounted) = MountedDirectory::new(&place, &[]) else { return };
    let Some(pjdfstest) = crates_io("pjdfstest@0.2.2", "pjdfstest") else { return };
    let settings = place.filled(
        "pjdfstest.toml",
        b"[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nutime_now = {}\n\
          [settings]\nnaptime = 0.02\nallow_remount = false\n\
          [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n",
    );
    let settings = settings.to_str().expect("test files have plain names");
    // It fails if any of its tests does.
    let said = pjdfstest.run(&["-c", settings, "-p", &mounted.path("")]);
    let passed = said.lines().filter(|line| line.ends_with(" ok")).count();
    assert!(passed > 350, "{passed} have passed, and the others were skipped:\n{said}");
}

#[test]
fn fsx_reads_what_it_has_written() {
    let place = Place::new();
    let Some(mounted) = MountedDirectory::new(&place, &[]) else { return };
    let Some(fsx) = crates_io("fsx@0.3.2", "fsx") else { return };
    for seed in ["1", "2"] {
        fsx.run(&["-N", "1000", "-S", seed, &mounted.path("fsx")]);
    }
}

/// 4 KiB a second: a request of 1 MiB would take minutes.
#[test]
fn a_program_that_waits_for_a_limit_is_stopped_by_any_signal() {
    let place = Place::new();
    let flags = ["--max", "rbps=4K wbps=4K"];
    let Some(mounted) = MountedDirectory::new(&place, &flags) else { return };
    let Some(env) = peer("env") else { return };
    fs::write(mounted.source.join("large"), vec![1; 4 << 20]).expect("it can be written");
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for (reads, writes) in [("fullblock", "nofollow"), ("direct", "direct")] {
            let name = format!("written-{}-{writes}", signal.as_raw());
            let (from, to) =
                (format!("if={}", mounted.path("large")), format!("of={}", mounted.path(&name)));
            let (input, output) = (format!("iflag={reads}"), format!("oflag={writes}"));
            // A shell that runs the tests in the background has them ignore SIGINT, and so all that they start.
            let dd = ["--default-signal=INT", "dd"];
            let reading = start(
                env.program(),
                &[&dd[..], &[&from, "of=/dev/null", "bs=1M", &input]].concat(),
            );
            let writing =
                start(env.program(), &[&dd[..], &["if=/dev/zero", &to, "bs=1M", &output]].concat());
            // It has made the file, and then it writes.
            let written = mounted.source.join(&name);
            eventually("the writer has begun", || written.is_file());
            for mut program in [writing, reading] {
                eventually("it sleeps", || sleeps(program.id()));
                // Again and again: `dd` looks for a signal before a call, and may have just done so.
                let process = Pid::from_child(&program);
                eventually("it ends while its request waits", || {
                    kill_process(process, signal).expect("it is a child");
                    program.try_wait().expect("it is a child").is_some()
                });
                let status = program.wait().expect("it has ended");
                assert_eq!(status.signal(), Some(signal.as_raw()), "{signal:?}, {reads}, {writes}");
            }
        }
    }
    let report = mounted.end();
    assert!(report["interrupted"].as_u64() > Some(0), "{report:#}");
}

/// Whether a program waits, where a signal reaches it.
fn sleeps(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

#[test]
fn users_have_their_rates_side_by_side() {
    let place = Place::new();
    let flags = ["--max", "/users/*: rbps=512K", "--max", "/users/daemon: rbps=1M"];
    let Some(mounted) = MountedDirectory::new(&place, &flags) else { return };
    let (Some(dd), Some(setpriv)) = (peer("dd"), peer("setpriv")) else { return };
    let users = [("daemon", "1"), ("bin", "2")].map(|(name, id)| {
        let file = mounted.source.join(name);
        fs::File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("a file can be made");
        let out = place.file(&format!("read-by-{name}"));
        fs::write(&out, "").expect("it can be written");
        std::os::unix::fs::chown(&out, Some(id.parse().expect("a number")), None)
            .expect("root may");
        let (from, to) = (format!("if={}", mounted.path(name)), format!("of={}", out.display()));
        let dd = dd.program().to_str().expect("a plain name");
        let arguments = ["--reuid", id, "--clear-groups", dd, &from, &to, "bs=128K"];
        (start(setpriv.program(), &arguments), out)
    });
    // What the faster has read tells the time.
    let faster = users[0].1.clone();
    eventually("the faster has read 4 MiB", || {
        fs::metadata(&faster).is_ok_and(|read| read.len() >= 4 << 20)
    });
    for (mut user, _) in users {
        user.kill().expect("it runs");
        wait(&mut user).expect("it ends");
    }
    let report = mounted.end();
    let read = |user| counter(&report, user, "read_bytes") as f64;
    let ratio = read("/users/daemon") / read("/users/bin");
    assert!((1.5..=2.7).contains(&ratio), "{ratio} in {report:#}");
    assert!(counter(&report, "/users/bin", "throttled") > 0);
}

#[test]
fn programs_get_an_error_when_the_mount_is_killed() {
    let place = Place::new();
    let Some(mut mounted) = MountedDirectory::new(&place, &["--max", "wbps=4K"]) else { return };
    let Some(dd) = peer("dd") else { return };
    let to = format!("of={}", mounted.path("file"));
    let mut writing = start(dd.program(), &["if=/dev/zero", &to, "bs=1M"]);
    let file = mounted.source.join("file");
    eventually("it writes", || file.is_file() && sleeps(writing.id()));
    mounted.weir.kill().expect("it runs");
    let status = wait(&mut writing).expect("it ends");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_mount_that_would_show_itself_is_refused() {
    let place = Place::new();
    let inside = place.file("source");
    fs::create_dir_all(inside.join("mounted")).expect("directories can be made");
    let ran =
        weir_tests::run(Command::new(weir()).arg("mount").arg(&inside).arg(inside.join("mounted")));
    assert_eq!(ran.status.code(), Some(2));
    assert!(ran.stderr.contains("would show itself"), "{}", ran.stderr);
}
