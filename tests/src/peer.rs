//! Peers: external programs, which may be missing.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::run::{Ran, run, run_with, run_within};

/// The Python that Debian's modules are for; it need not be the first one on the path.
const PYTHON: &str = "/usr/bin/python3";

/// A program that is there.
#[derive(Clone, Debug)]
pub struct Peer {
    program: PathBuf,
    first: Vec<PathBuf>,
}

/// The program `name`, or `None` where it is not installed, after that has been noted as a skip.
///
/// # Panics
/// With `CI=true`, where everything can be installed.
pub fn peer(name: &str) -> Option<Peer> {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|program| program.is_file());
    match found {
        Some(program) => Some(Peer { program, first: Vec::new() }),
        None => {
            missing(name);
            None
        }
    }
}

/// The script `name` of `tests/libnbd`, to be run with libnbd's Python binding; `None` without that, as [`peer`].
///
/// # Panics
/// As [`peer`].
pub fn python(name: &str) -> Option<Peer> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("libnbd").join(name);
    let has = |what: &str| {
        let imported = Command::new(PYTHON).args(["-c", what]).output();
        imported.is_ok_and(|ran| ran.status.success())
    };
    if !has("import nbd") {
        missing("python3-libnbd");
        return None;
    }
    // -B: the checkout stays as it is.
    Some(Peer { program: PYTHON.into(), first: vec!["-B".into(), script] })
}

/// The program `name` of the package `package`, as `schemathesis==4.32.5`, of PyPI. It is installed into `target/tools`
/// first, where it is not there yet; `None` where it cannot be, as [`peer`].
///
/// # Panics
/// As [`peer`].
pub fn pypi(package: &str, name: &str) -> Option<Peer> {
    let program = installed(package, &[], |place| Some(place.join("bin").join(name)))?;
    Some(Peer { program, first: Vec::new() })
}

/// The file `name` of the package `package` of PyPI, which is installed as by [`pypi`], without what it depends on.
///
/// # Panics
/// As [`peer`].
pub fn pypi_file(package: &str, name: &str) -> Option<PathBuf> {
    installed(package, &["--no-deps"], |place| {
        let versions = place.join("lib").read_dir().ok()?.flatten();
        versions
            .map(|version| version.path().join("site-packages").join(name))
            .find(|file| file.is_file())
    })
}

/// What `find` finds in the place where `package` is installed, which is done first if it is not there.
fn installed(
    package: &str,
    flags: &[&str],
    find: impl Fn(&Path) -> Option<PathBuf>,
) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/pypi");
    let place = tools.join(package);
    let found = || find(&place).filter(|file| file.is_file());
    if let Some(found) = found() {
        return Some(found);
    }
    let made = Command::new(PYTHON)
        .args(["-m", "venv", "--clear"])
        .arg(&place)
        .output()
        .is_ok_and(|ran| ran.status.success());
    let installed = made
        && Command::new(place.join("bin/pip"))
            .args(["install", "--quiet", "--timeout", "20", "--retries", "1"])
            .args(flags)
            .arg(package)
            .output()
            .is_ok_and(|ran| ran.status.success());
    let found = found().filter(|_| installed);
    if found.is_none() {
        // Half an installation would be taken for a whole one.
        let _ = std::fs::remove_dir_all(&place);
        missing(package);
    }
    found
}

/// The program `name` of the package `package`, as `fsx@0.3.2`, of crates.io. It is built into `target/tools` first, where it is not
/// there yet; `None` where it cannot be, as [`peer`].
///
/// # Panics
/// As [`peer`].
pub fn crates_io(package: &str, name: &str) -> Option<Peer> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/crates").join(package);
    let program = place.join("bin").join(name);
    if !program.is_file() {
        // Unoptimised: it is built more slowly than it ever runs here.
        let installed = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["install", "--debug", "--locked", "--quiet", "--root"])
            .arg(&place)
            .arg(package)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .is_ok_and(|ran| ran.status.success());
        if !installed || !program.is_file() {
            missing(package);
            return None;
        }
    }
    Some(Peer { program, first: Vec::new() })
}

impl Peer {
    /// Its path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Runs it; returns its output.
    ///
    /// # Panics
    /// If it fails, with its whole output.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let ran = self.ends(arguments);
        let Ran { status, stdout, stderr } = &ran;
        assert!(status.success(), "{}: {status}\n{stdout}\n{stderr}", self.said(arguments));
        ran.stdout
    }

    /// Runs it with `input` on its standard input; returns all its output.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn run_with<A: AsRef<OsStr>>(&self, arguments: &[A], input: &str) -> String {
        let mut command = Command::new(&self.program);
        let ran = run_with(command.args(&self.first).args(arguments), input);
        let Ran { status, stdout, stderr } = ran;
        assert!(status.success(), "{}: {status}\n{stdout}\n{stderr}", self.said(arguments));
        stdout + &stderr
    }

    /// Runs it; returns the output of its failure.
    ///
    /// # Panics
    /// When it succeeds.
    #[track_caller]
    pub fn fails<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let ran = self.ends(arguments);
        assert!(!ran.status.success(), "{} succeeds:\n{}", self.said(arguments), ran.stdout);
        ran.stdout + &ran.stderr
    }

    /// Runs it, however it ends.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn ends<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Ran {
        run(Command::new(&self.program).args(&self.first).args(arguments))
    }

    /// The same, of a peer that goes on for as long as a test does.
    ///
    /// # Panics
    /// It has not ended within `limit`.
    #[track_caller]
    pub fn ends_within<A: AsRef<OsStr>>(&self, arguments: &[A], limit: Duration) -> Ran {
        run_within(Command::new(&self.program).args(&self.first).args(arguments), limit)
    }

    fn said<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let words =
            arguments.iter().map(|argument| argument.as_ref().to_string_lossy().into_owned());
        format!("{} {}", self.program.display(), words.collect::<Vec<_>>().join(" "))
    }
}

/// Says that the running test, or a part of it, is left out for want of `peer`, and counts it: a test that was not made
/// is no test that passed.
///
/// # Panics
/// With `CI=true`, where everything can be installed.
pub(crate) fn missing(peer: &str) {
    let reason = format!("{peer} is not installed");
    note(&reason);
    append(&reason);
    assert!(!is_ci(), "{reason}, and with CI=true that is a failure");
}

/// Says that the running test, or a part of it, is left out for want of what cannot be installed, such as a right or a
/// kind of file system, and counts it. Never a failure.
pub fn skip(reason: &str) {
    note(reason);
    // There, in CI, a line is a peer that is missing.
    if !is_ci() {
        append(reason);
    }
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1")
}

/// Past the capture of the test harness, which is silent about tests that pass.
fn note(reason: &str) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let _ = writeln!(stderr(), "skipped: {reason} ({}; {count} skipped so far)", test());
}

/// Appends `NAME: REASON` to the file that `$WEIR_SKIPS` names, if it is set.
fn append(reason: &str) {
    let Some(path) = std::env::var_os("WEIR_SKIPS") else { return };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    // One write a line: several programs append to it.
    file.and_then(|mut file| file.write_all(format!("{}: {reason}\n", test()).as_bytes()))
        .unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
}

/// The harness names each test's thread after it.
fn test() -> String {
    std::thread::current().name().unwrap_or("?").to_owned()
}
