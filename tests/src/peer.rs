//! Programs of others, which may not be there.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::run::{Ran, run};

/// The Python that Debian's modules are for; it need not be the first one on the path.
const PYTHON: &str = "/usr/bin/python3";

/// A program that is there.
#[derive(Clone, Debug)]
pub struct Peer {
    program: PathBuf,
    first: Vec<PathBuf>,
}

/// The program `name`, or `None`, after [`skip`], where it is not installed.
pub fn peer(name: &str) -> Option<Peer> {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|directory| directory.join(name))
        .find(|program| program.is_file());
    match found {
        Some(program) => Some(Peer { program, first: Vec::new() }),
        None => {
            skip(&format!("{name} is not installed"));
            None
        }
    }
}

/// The script `name` of `tests/libnbd`, to be run with libnbd's Python binding; `None`, after [`skip`], without it.
pub fn python(name: &str) -> Option<Peer> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("libnbd").join(name);
    let has = |what: &str| {
        let imported = Command::new(PYTHON).args(["-c", what]).output();
        imported.is_ok_and(|ran| ran.status.success())
    };
    if !has("import nbd") {
        skip("python3-libnbd is not installed");
        return None;
    }
    // -B: the checkout stays as it is.
    Some(Peer { program: PYTHON.into(), first: vec!["-B".into(), script] })
}

impl Peer {
    /// Runs it, and gives what it printed.
    ///
    /// # Panics
    /// When it fails, with all that it said.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let ran = self.ends(arguments);
        let Ran { status, stdout, stderr } = &ran;
        assert!(status.success(), "{}: {status}\n{stdout}\n{stderr}", self.said(arguments));
        ran.stdout
    }

    /// Runs it, and gives what it said while it failed.
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

    fn said<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        let words =
            arguments.iter().map(|argument| argument.as_ref().to_string_lossy().into_owned());
        format!("{} {}", self.program.display(), words.collect::<Vec<_>>().join(" "))
    }
}

/// Says that the running test is left out, and counts it: a test that was not made is no test that passed.
///
/// Appends `NAME: REASON` to the file that `$WEIR_SKIPS` names, if it is set.
///
/// # Panics
/// With `CI=true`, where everything that is needed can be installed.
pub fn skip(reason: &str) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    // Past the capture of the test harness, which is silent about tests that pass.
    let _ = writeln!(stderr(), "skipped: {reason} ({test}; {count} skipped so far)");
    if let Some(path) = std::env::var_os("WEIR_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        // One write a line: several programs append to it.
        file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()))
            .unwrap_or_else(|error| panic!("{}: {error}", Path::new(&path).display()));
    }
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
    assert!(!is_ci, "{reason}, and with CI=true that is a failure");
}
