//! A `weir serve` of a test's own.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::binary::weir;
use crate::process::{open_files, resident_bytes};
use crate::run::{Ran, run, wait};
use crate::status::Device;
use crate::{PATIENCE, Place};

/// A server, killed when dropped. One that has ended by itself until then fails the test.
#[derive(Debug)]
pub struct Server {
    child: Child,
    uris: Vec<String>,
    socket: PathBuf,
    control: PathBuf,
    log: PathBuf,
    has_ended: bool,
}

/// A server that did not start.
#[derive(Debug)]
pub struct Refused {
    /// How it ended.
    pub status: ExitStatus,
    /// What it said on standard error.
    pub log: String,
}

impl Server {
    /// `weir serve WHAT --socket .. --control .. FLAGS`: one export with the empty name, ready for clients.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn image(place: &Place, what: impl AsRef<OsStr>, flags: &[&str]) -> Server {
        let socket = place.socket("nbd.sock");
        let refused = |refused: Refused| panic!("{}\n{}", refused.status, refused.log);
        Server::try_image(place, what, &socket, flags).unwrap_or_else(refused)
    }

    /// Like [`Server::image`], with a socket of the caller's choice, where starting may fail. The control socket is
    /// beside it, unless `flags` say where.
    ///
    /// # Errors
    /// How it ended.
    ///
    /// # Panics
    /// When it neither starts nor ends.
    pub fn try_image(
        place: &Place,
        what: impl AsRef<OsStr>,
        socket: &Path,
        flags: &[&str],
    ) -> Result<Server, Refused> {
        let mut command = Command::new(weir());
        command.arg("serve").arg(what).arg("--socket").arg(socket).args(flags);
        start(command, place, socket, 1 + usize::from(flags.contains(&"--listen")))
    }

    /// Like [`Server::image`], in an environment with these variables.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn image_in(
        place: &Place,
        what: impl AsRef<OsStr>,
        flags: &[&str],
        environment: &[(&str, OsString)],
    ) -> Server {
        let socket = place.socket("nbd.sock");
        let mut command = Command::new(weir());
        command.arg("serve").arg(what).arg("--socket").arg(&socket).args(flags);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        start(command, place, &socket, 1)
            .unwrap_or_else(|refused| panic!("{}\n{}", refused.status, refused.log))
    }

    /// `weir serve CONFIG.toml`, with `[server]` and its sockets already said: `config` continues that table.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn config(place: &Place, config: &str) -> Server {
        let listeners = 1 + usize::from(config.contains("listen = "));
        Server::config_in_part(place, config, config.matches("[export.").count() * listeners)
    }

    /// Likewise, where it is to serve `uris`, which may be fewer than the configuration has.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn config_in_part(place: &Place, config: &str, uris: usize) -> Server {
        let refused = |refused: Refused| panic!("{}\n{}", refused.status, refused.log);
        Server::try_config(place, config, uris).unwrap_or_else(refused)
    }

    /// Like [`Server::config_in_part`], where starting may fail.
    ///
    /// # Errors
    /// How it ended.
    ///
    /// # Panics
    /// When it neither starts nor ends.
    pub fn try_config(place: &Place, config: &str, uris: usize) -> Result<Server, Refused> {
        let socket = place.socket("nbd.sock");
        let text = format!("[server]\nsocket = {socket:?}\n{config}");
        fs::write(place.file("weir.toml"), &text).expect("a file can be written");
        Server::try_again(place, uris)
    }

    /// A server of the configuration that is in `place`.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn again(place: &Place, uris: usize) -> Server {
        let refused = |refused: Refused| panic!("{}\n{}", refused.status, refused.log);
        Server::try_again(place, uris).unwrap_or_else(refused)
    }

    fn try_again(place: &Place, uris: usize) -> Result<Server, Refused> {
        let socket = place.socket("nbd.sock");
        let path = place.file("weir.toml");
        let mut command = Command::new(weir());
        command.arg("serve").arg(&path);
        start(command, place, &socket, uris)
    }

    /// The first URI it printed.
    pub fn uri(&self) -> &str {
        &self.uris[0]
    }

    /// All URIs it printed: of each export the Unix socket's, then the TCP ports'.
    pub fn uris(&self) -> &[String] {
        &self.uris
    }

    /// The URI of its TCP port.
    ///
    /// # Panics
    /// When it has none.
    pub fn tcp_uri(&self) -> String {
        let tcp = self.uris.iter().find(|uri| uri.starts_with("nbd://"));
        tcp.expect("it listens on a TCP port").clone()
    }

    /// Its Unix socket for NBD.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its control socket.
    pub fn control(&self) -> &Path {
        &self.control
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its open files, once it has opened all that it works with: it answers on its control socket.
    ///
    /// # Panics
    /// When it has ended.
    #[track_caller]
    pub fn open_files(&self) -> usize {
        self.status();
        open_files(self.pid())
    }

    /// Lets it open no more files than `count`, of which it may have more already.
    ///
    /// # Panics
    /// When it has ended.
    pub fn limit_open_files(&self, count: u64) {
        let limit = Rlimit { current: Some(count), maximum: getrlimit(Resource::Nofile).maximum };
        let pid = Pid::from_child(&self.child);
        prlimit(Some(pid), Resource::Nofile, limit).expect("the server is there");
    }

    /// Its memory that is in RAM, in bytes, buffers of its sockets not included.
    ///
    /// # Panics
    /// When it has ended.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.pid())
    }

    /// What it has said on standard error so far.
    ///
    /// # Panics
    /// When that cannot be read.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("the log is there")
    }

    /// `weir status --format json`, the first device.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn status(&self) -> Device {
        self.devices().swap_remove(0)
    }

    /// `weir status --format json`, every device.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn devices(&self) -> Vec<Device> {
        let mut status = self.whole_status().0;
        let devices = status["devices"].as_array_mut().expect("it has devices");
        devices.drain(..).map(Device).collect()
    }

    /// `weir status --format json`, as it is.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn whole_status(&self) -> Device {
        let ran = self.ask("status", &["--format", "json", "--interval", "10ms"]);
        Device(serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}")))
    }

    /// `weir set CGROUP KEY VALUE`.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn set(&self, cgroup: &str, key: &str, value: &str) {
        let ran = self.ask("set", &[cgroup, key, value]);
        assert!(ran.status.success(), "{ran:?}");
    }

    /// `weir set CGROUP KEY VALUE --create`.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn create(&self, cgroup: &str, key: &str, value: &str) {
        let ran = self.ask("set", &[cgroup, key, value, "--create"]);
        assert!(ran.status.success(), "{ran:?}");
    }

    /// A subcommand that talks to this server.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn ask(&self, subcommand: &str, arguments: &[&str]) -> Ran {
        let mut command = Command::new(weir());
        run(command.arg(subcommand).args(arguments).arg("--control").arg(&self.control))
    }

    /// A command as it was printed for a shell, for this server.
    ///
    /// # Panics
    /// When it is none of weir, or does not end.
    #[track_caller]
    pub fn run_printed(&self, command: &str) -> Ran {
        let arguments = command.strip_prefix("weir ").expect("a command of weir");
        let line = format!("\"$WEIR\" {arguments} --control \"$CONTROL\"");
        run(Command::new("sh")
            .args(["-c", &line])
            .env("WEIR", weir())
            .env("CONTROL", &self.control))
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("the server is there");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When that does not come.
    #[track_caller]
    pub fn ended(mut self) -> ExitStatus {
        self.has_ended = true;
        wait(&mut self.child).unwrap_or_else(|| panic!("still runs\n{}", self.log()))
    }

    /// Waits for its end, which must be with this exit status, and gives all that it has said on standard error.
    ///
    /// # Panics
    /// When that does not come, or is another.
    #[track_caller]
    pub fn log_when_ended(self, code: i32) -> String {
        let path = self.log.clone();
        let status = self.ended();
        let log = fs::read_to_string(path).expect("the log is there");
        assert_eq!(status.code(), Some(code), "{log}");
        log
    }

    /// SIGTERM; waits for its end, which must be a good one.
    ///
    /// # Panics
    /// When it exits with anything but 0.
    #[track_caller]
    pub fn stop(self) {
        self.signal(Signal::TERM);
        let log = self.log.clone();
        let status = self.ended();
        let log = fs::read_to_string(log).unwrap_or_default();
        assert!(status.success() && !log.contains("panicked"), "{status}\n{log}");
    }

    /// SIGKILL, as by an operator in despair or a kernel out of memory.
    ///
    /// # Panics
    /// When it is gone already.
    #[track_caller]
    pub fn kill(self) {
        self.signal(Signal::KILL);
        self.ended();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = match self.has_ended {
            true => None,
            false => self.child.try_wait().expect("a child can be asked"),
        };
        if !self.has_ended && ended.is_none() {
            self.child.kill().expect("a child can be killed");
            self.child.wait().expect("a child can be waited for");
        }
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", fs::read_to_string(&self.log).unwrap_or_default());
        } else if let Some(status) = ended {
            panic!("the server has ended by itself: {status}\n{}", self.log());
        }
    }
}

/// Starts a server and waits for its `uris` lines.
fn start(
    mut command: Command,
    place: &Place,
    socket: &Path,
    uris: usize,
) -> Result<Server, Refused> {
    let mut words = command.get_args().skip_while(|word| *word != "--control").skip(1);
    let control = words.next().map(PathBuf::from);
    let control = control.unwrap_or_else(|| {
        let control = socket.with_extension("control.sock");
        command.arg("--control").arg(&control);
        control
    });
    let log = place.file(&format!("{}.log", socket.file_stem().unwrap_or_default().display()));
    let stderr = File::options().append(true).create(true).open(&log).expect("a log can be made");
    let mut child = command
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
    let mut server = Server {
        child,
        uris: Vec::new(),
        socket: socket.to_owned(),
        control,
        log,
        has_ended: false,
    };
    while server.uris.len() < uris {
        match heard.recv_timeout(PATIENCE) {
            Ok(line) => server.uris.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let log = server.log.clone();
                let status = server.ended();
                let log = fs::read_to_string(log).expect("the log is there");
                return Err(Refused { status, log });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{command:?} does not get ready"),
        }
    }
    Ok(server)
}
