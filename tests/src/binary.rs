//! The `weir` command that is tested: built once, with the profile of the tests.

use std::env;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The command's path. The first call builds it, unless the environment names one in `WEIR_BIN`.
///
/// Cargo builds a package's programs for that package's own tests only, so this asks it to; when nothing has changed
/// that takes a moment.
///
/// # Panics
/// When it cannot be built.
pub fn weir() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match env::var_os("WEIR_BIN") {
        Some(binary) => binary.into(),
        None => build(),
    })
}

/// The build directory: tests are in `TARGET/PROFILE/deps`.
pub(crate) fn target_dir() -> &'static Path {
    profile_dir().parent().expect("a profile's directory is in another")
}

fn profile_dir() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let test = env::current_exe().expect("this program has a path");
        test.ancestors().nth(2).expect("it is two directories deep").to_owned()
    })
}

fn build() -> PathBuf {
    let profile = match profile_dir().file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    // Past the capture of the test harness: without a word, a build looks like a test that hangs.
    let _ = writeln!(stderr(), "building weir ({profile}) for the end-to-end tests");
    let built = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--locked", "--quiet", "-p", "weir-cli", "--bin", "weir"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target_dir())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(built.success(), "weir cannot be built");
    profile_dir().join("weir")
}
