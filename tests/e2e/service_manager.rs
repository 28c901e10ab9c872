//! A server under a service manager, as sd_notify(3) describes it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use weir_tests::nbd::{Client, Kind};
use weir_tests::{FrozenFileSystem, Place, Server, ServiceManager, eventually, peer, skip};

const SILENT: &str = "the watchdog is not told";

#[test]
fn it_hears_of_the_start_of_reloads_and_of_the_end() {
    let place = Place::new();
    let manager = ServiceManager::new(&place);
    let flags = ["--max", "wiops=1", "--burst", "1"];
    let server = Server::image_in(&place, "memory:1M", &flags, &manager.environment(0));
    assert!(manager.hears("READY=1").contains("STATUS=serving 1 export of 1 device\n"));
    server.signal(Signal::HUP);
    let reloading = manager.hears("RELOADING=1");
    let since = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(since.is_some_and(|since| since.parse::<u64>().is_ok()), "{reloading}");
    manager.hears("READY=1");
    // It has no configuration, which is a refusal.
    server.ask("reload", &[]);
    manager.hears("RELOADING=1");
    manager.hears("READY=1");
    server.signal(Signal::TERM);
    manager.hears("STOPPING=1");
    // The drain time and what comes after it.
    manager.hears("EXTEND_TIMEOUT_USEC=25000000");
    server.log_when_ended(0);
    assert!(!manager.heard().contains("WATCHDOG"), "none was asked for");
}

#[test]
fn an_end_that_gets_on_has_more_time() {
    let place = Place::new();
    let manager = ServiceManager::new(&place);
    let flags = ["--depth", "1", "--drain-time", "40s"];
    let device = "emulated:null,latency=500ms,size=16M";
    let server = Server::image_in(&place, device, &flags, &manager.environment(0));
    let mut client = Client::of(&server);
    for number in 0..12 {
        client.send(Kind::Write, 0, number * 4096, 4096, &[1; 4096]).expect("it is taken");
    }
    eventually("all requests are inside", || server.status().number("ready") > 8);
    server.signal(Signal::TERM);
    for _ in 0..3 {
        manager.hears("EXTEND_TIMEOUT_USEC=55000000");
    }
    server.log_when_ended(0);
}

/// Stops one thread, not its process, until its standard input ends.
const HOLD: &str = r#"
import ctypes, os, sys
tid = int(sys.argv[1])
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
if ptrace(SEIZE, tid, None, None) or ptrace(INTERRUPT, tid, None, None):
    print(os.strerror(ctypes.get_errno()), flush=True)
    sys.exit()
os.waitpid(tid, WALL)
print("held", flush=True)
sys.stdin.read()
ptrace(DETACH, tid, None, None)
"#;

/// Stops the thread of the one device; `None`, after [`skip`], where that is not allowed.
fn hold(server: &Server) -> Option<Child> {
    peer("python3")?;
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).expect("it is there");
    let id = tasks.map(|task| task.expect("a thread").path()).find(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "weir-disk")
    });
    let id = id.expect("its device has a thread");
    let id = id.file_name().expect("a number").to_owned();
    let mut python = Command::new("python3");
    python.args(["-c", HOLD]).arg(id).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().expect("it is there");
    let mut said = String::new();
    BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut said).expect("text");
    if said.trim() == "held" {
        return Some(child);
    }
    skip(&format!("a thread cannot be stopped: {}", said.trim()));
    child.wait().expect("it has ended");
    None
}

#[test]
fn the_watchdog_is_not_told_while_a_devices_thread_does_not_turn() {
    let place = Place::new();
    let manager = ServiceManager::new(&place);
    let server = Server::image_in(&place, "memory:1M", &[], &manager.environment(900));
    manager.hears("WATCHDOG=1");
    let Some(mut held) = hold(&server) else { return };
    let lines = || server.log().matches(SILENT).count();
    eventually("it is in the log", || lines() > 0);
    // What was under way when the thread was stopped is over now.
    let (before, _) = (lines(), manager.heard());
    eventually("it is in the log again", || lines() > before + 2);
    assert_eq!(manager.heard(), "");
    drop(held.stdin.take());
    held.wait().expect("it ends");
    manager.hears("WATCHDOG=1");
    server.stop();
}

/// No other process would get further with that disk, and a kill would cut the tenants of all others.
#[test]
fn the_watchdog_is_told_while_a_disk_hangs() {
    let place = Place::new();
    let Some(file_system) = FrozenFileSystem::new(&place) else { return };
    let image = file_system.path().join("disk.img");
    fs::File::create(&image).and_then(|file| file.set_len(1 << 20)).expect("a file can be made");
    let manager = ServiceManager::new(&place);
    let server = Server::image_in(&place, &image, &["--direct", "off"], &manager.environment(900));
    let mut client = Client::of(&server);
    file_system.freeze();
    client.send(Kind::Write, 0, 0, 4096, &[1; 4096]).expect("it is taken");
    eventually("the disk has it", || server.status().number("in_flight") > 0);
    manager.heard();
    for _ in 0..4 {
        manager.hears("WATCHDOG=1");
    }
    file_system.thaw();
    assert_eq!(client.receive().expect("it is answered").error, 0);
    server.stop();
}
