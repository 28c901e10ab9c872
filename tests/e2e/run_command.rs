//! One command under limits, with nothing set up.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;
use serde_json::Value;
use weir_tests::{Place, Ran, peer, run, skip, weir};

use crate::disk_mount::may_mount;

fn report(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).expect("it was written")).expect("JSON")
}

#[test]
fn a_command_runs_under_limits_and_nothing_is_left() {
    let place = Place::new();
    if !may_mount() {
        return;
    }
    let directory = place.file("directory");
    fs::create_dir(&directory).expect("a directory can be made");
    fs::write(directory.join("large"), vec![1; 2 << 20]).expect("it can be written");
    let told = place.file("report.json");
    let Ran { status, stdout, stderr } = run(Command::new(weir())
        .args(["run", "--max", "rbps=2M wbps=1M", "--report"])
        .arg(&told)
        .args([
            "--",
            "sh",
            "-c",
            "cat large | wc -c; echo text > made; grep -cF \" $PWD fuse.weir\" /proc/self/mounts; exit 3",
        ])
        .current_dir(&directory));
    assert_eq!((status.code(), &*stdout), (Some(3), "2097152\n1\n"), "{stderr}");
    assert_eq!(fs::read(directory.join("made")).expect("it is there"), b"text\n");
    let mounts = fs::read_to_string("/proc/self/mounts").expect("it can be read");
    assert!(!mounts.contains("fuse.weir") || !mounts.contains(directory.to_str().expect("plain")));
    let root = &report(&told)["cgroups"][0];
    assert!(root["read_bytes"].as_u64() >= Some(2 << 20), "{root:#}");
    assert_eq!(root["write_bytes"], 5);
    assert!(root["throttled"].as_u64() > Some(0), "{root:#}");
}

#[test]
fn a_command_that_cannot_be_run_is_status_125() {
    let place = Place::new();
    if !may_mount() {
        return;
    }
    let command = ["run", "--max", "rbps=2M", "--", "there-is-no-such-command"];
    let ran = run(Command::new(weir()).args(command).current_dir(place.file("")));
    assert_eq!(ran.status.code(), Some(125));
    assert!(ran.stderr.contains("there-is-no-such-command"), "{}", ran.stderr);
}

/// As on most systems, where all users may open `/dev/fuse`: in a mount namespace it may be here too.
#[test]
fn a_user_needs_no_privileges() {
    let place = Place::new();
    let (Some(unshare), Some(setpriv)) = (peer("unshare"), peer("setpriv")) else { return };
    if !may_mount() || !geteuid().is_root() {
        return;
    }
    let directory = place.file("directory");
    fs::create_dir(&directory).expect("a directory can be made");
    std::os::unix::fs::chown(&directory, Some(65_534), Some(65_534)).expect("root may");
    let script = format!(
        "mount -t tmpfs none /mnt && mknod -m 0666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse &&
         exec {} --reuid 65534 --regid 65534 --clear-groups {} run --max rbps=1M -- sh -c '
             set -e; mkdir a; echo text > a/f; mv a b; cat b/f; ln b/f g; rm b/f; chmod 600 g; ls -l g | cut -c1-10
             id -u; grep -cF \" $PWD fuse.weir\" /proc/self/mounts; rm -r b; ls; cat no-such-file || true'",
        setpriv.program().display(),
        weir().display(),
    );
    let mut command = Command::new(unshare.program());
    let command = command.args(["--mount", "sh", "-c", &script]).current_dir(&directory);
    let Ran { status, stdout, stderr } = run(command);
    if stderr.contains("user namespace") || stderr.contains("Permission denied") {
        return skip("user namespaces, or the build directory, are for root here");
    }
    assert!(status.success(), "{stdout}\n{stderr}");
    assert_eq!(stdout, "text\n-rw-------\n65534\n1\ng\n");
}
