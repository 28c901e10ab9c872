//! The demo's server: this program, started again as `weir serve`.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::clock;

/// Time that a server gets to finish its requests; they wait for milliseconds.
const DRAIN_MAX_NS: u64 = 3_000_000_000;

/// A running server, with a directory of its own. Dropping it ends it and removes the directory.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts a server of `config`, in which `@` stands for its directory, and waits until it is ready.
    pub(super) fn start(config: &str) -> io::Result<Server> {
        // A demo that was killed may have left one of this process number.
        let name = format!("weir-demo-{}-{}", std::process::id(), clock::now_ns());
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        let spawned = spawn(config, &directory);
        let child = spawned.inspect_err(|_| drop(fs::remove_dir_all(&directory)))?;
        let mut server = Server { child, directory };
        let mut first = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out).read_line(&mut first)?;
        }
        if first.is_empty() {
            let log = fs::read_to_string(server.directory.join("log")).unwrap_or_default();
            return Err(io::Error::other(format!("the server did not start:\n{log}")));
        }
        Ok(server)
    }

    /// Where clients connect.
    pub(super) fn socket(&self) -> PathBuf {
        self.directory.join("nbd.sock")
    }

    /// Where `weir status` asks.
    pub(super) fn control(&self) -> PathBuf {
        self.directory.join("control.sock")
    }
}

fn spawn(config: &str, directory: &Path) -> io::Result<Child> {
    let file = directory.join("demo.toml");
    fs::write(&file, config.replace('@', &directory.to_string_lossy()))?;
    let log = fs::File::create(directory.join("log"))?;
    Command::new(std::env::current_exe()?)
        .arg("serve")
        .arg(&file)
        // If the demo is killed, its server must not stay.
        .arg("--exit-with-parent")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        // Ctrl-C in the terminal reaches the demo only, which then ends its server.
        .process_group(0)
        .spawn()
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = clock::now_ns() + DRAIN_MAX_NS;
        while matches!(self.child.try_wait(), Ok(None)) && clock::now_ns() < deadline {
            clock::sleep(std::time::Duration::from_millis(10));
        }
        // Ended already is as good, for both.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
