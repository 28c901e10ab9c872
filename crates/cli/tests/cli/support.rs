//! Running the `weir` command, with a directory of the test's own and a bound on every wait.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Timeout, far longer than any test takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that is removed at the end; default sockets go there too.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("weir-cli-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn weir(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(args)
            .stdin(Stdio::null())
            .env("XDG_RUNTIME_DIR", &self.0)
            .env("TMPDIR", &self.0)
            .env_remove("RUST_LOG");
        command
    }

    /// Runs `weir ARGS` to its end: exit status, standard output, standard error.
    pub(crate) fn run(&self, args: &[&str]) -> (i32, String, String) {
        Place::finish(self.weir(args))
    }

    /// Likewise on a terminal of this width.
    pub(crate) fn run_at(&self, columns: &str, args: &[&str]) -> (i32, String, String) {
        let mut command = self.weir(args);
        command.env("COLUMNS", columns);
        Place::finish(command)
    }

    /// Likewise in this directory.
    pub(crate) fn run_inside(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = self.weir(args);
        command.current_dir(&self.0);
        Place::finish(command)
    }

    fn finish(mut command: Command) -> (i32, String, String) {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = within(child, |child| child.wait_with_output().unwrap());
        let Output { status, stdout, stderr } = output;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap_or(-1), text(stdout), text(stderr))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Result of `wait` on `child`, which is killed after a timeout.
fn within<R: Send + 'static>(child: Child, wait: impl FnOnce(Child) -> R + Send + 'static) -> R {
    let pid = Pid::from_child(&child);
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || drop(sender.send(wait(child))));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| {
        let _ = kill_process(pid, Signal::KILL);
        panic!("no end: {error}")
    })
}

/// A running `weir serve`, killed at the end.
pub(crate) struct Server {
    child: Option<Child>,
    out: Option<BufReader<std::process::ChildStdout>>,
    /// The first line it printed.
    pub(crate) uri: String,
}

impl Server {
    pub(crate) fn start(place: &Place, args: &[&str]) -> Server {
        Server::start_with_log(place, Stdio::null(), args)
    }

    /// Likewise, with its log there.
    pub(crate) fn start_with_log(place: &Place, log: Stdio, args: &[&str]) -> Server {
        Server::started(place.weir(&[&["serve"], args].concat()), log, args)
    }

    /// Likewise, with SIGHUP ignored or not, however the tests have it: `nohup` has all that it starts ignore it.
    pub(crate) fn start_with_hangup(place: &Place, ignored: bool, args: &[&str]) -> Server {
        let weir = place.weir(&[]);
        let mut command = Command::new("env");
        command.arg(if ignored { "--ignore-signal=HUP" } else { "--default-signal=HUP" });
        command.arg(weir.get_program()).arg("serve").args(args).stdin(Stdio::null());
        for (name, value) in weir.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Server::started(command, Stdio::null(), args)
    }

    fn started(mut command: Command, log: Stdio, args: &[&str]) -> Server {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut uri = String::new();
            out.read_line(&mut uri).unwrap();
            drop(sender.send((out, uri)));
        });
        let mut server = Server { child: Some(child), out: None, uri: String::new() };
        let (out, uri) = receiver.recv_timeout(PATIENCE).expect("it starts");
        assert!(!uri.is_empty(), "it did not start: {args:?}");
        (server.out, server.uri) = (Some(out), uri.trim_end().to_owned());
        server
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().unwrap()), signal).unwrap();
    }

    /// Waits for its end; returns the exit status and the remaining output.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut out = self.out.take().unwrap();
        let status = within(self.child.take().unwrap(), |mut child| child.wait().unwrap());
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        (status.code(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
