//! Running a program to its end, within bounds.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::PATIENCE;

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Runs `command`, with nothing on its standard input.
///
/// # Panics
/// When it cannot be started or does not end in time.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    run_within(command, PATIENCE)
}

/// The same, where it may take as long as `limit`.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Ran {
    start(command, limit, Stdio::null(), |_| {})
}

/// The same, with `input` on its standard input.
///
/// # Panics
/// As [`run`].
#[track_caller]
pub(crate) fn run_with(command: &mut Command, input: &str) -> Ran {
    let input = input.to_owned();
    start(command, PATIENCE, Stdio::piped(), |child| {
        let mut stdin = child.stdin.take().expect("it is piped");
        // It may end without having read all of it.
        thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    })
}

#[track_caller]
fn start(
    command: &mut Command,
    limit: Duration,
    stdin: Stdio,
    feed: impl FnOnce(&mut Child),
) -> Ran {
    let what = format!("{command:?}");
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    feed(&mut child);
    let stdout = reader(child.stdout.take().expect("it is piped"));
    let stderr = reader(child.stderr.take().expect("it is piped"));
    let status = wait_within(&mut child, limit)
        .unwrap_or_else(|| panic!("{what}: still runs after {limit:?}"));
    let said = |reader: thread::JoinHandle<String>| reader.join().expect("it only reads");
    Ran { status, stdout: said(stdout), stderr: said(stderr) }
}

/// Waits for the end of `child`; `None` when that does not come, after which it has been killed.
///
/// # Panics
/// When the system refuses to wait.
pub fn wait(child: &mut Child) -> Option<ExitStatus> {
    wait_within(child, PATIENCE)
}

fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let pid = Pid::from_child(child);
    // A process that has ended is still there until it is waited for, so its number is its own.
    let end = pidfd_open(pid, PidfdFlags::empty()).expect("a child can be watched");
    let limit = Timespec::try_from(limit).expect("it is short");
    let ended = loop {
        match poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            ended => break ended.expect("a child can be waited for"),
        }
    };
    if ended == 0 {
        child.kill().expect("a child can be killed");
    }
    let status = child.wait().expect("a child can be waited for");
    (ended > 0).then_some(status)
}

fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Ends when the program does, whatever it has said by then.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
