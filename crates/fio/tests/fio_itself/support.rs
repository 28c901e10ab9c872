//! The installed fio: its runs, and files for them.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Says that the running test is left out, and counts it in the file that `$WEIR_SKIPS` names.
fn skip(reason: &str) {
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {reason} ({test})");
    if let Some(path) = std::env::var_os("WEIR_SKIPS") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(format!("{test}: {reason}\n").as_bytes()))
            .expect("$WEIR_SKIPS can be written");
    }
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
    assert!(!is_ci, "{reason}, and with CI=true that is a failure");
}

/// Exit status and output of fio; None, after [`skip`], where it is not installed.
pub(crate) fn fio(arguments: &[&str]) -> Option<(bool, String)> {
    let ran = Command::new("fio")
        .args(arguments)
        .env("DIR", "/srv")
        .env("NAME", "monday")
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .output();
    match ran {
        Ok(ran) => Some((ran.status.success(), String::from_utf8_lossy(&ran.stdout).into_owned())),
        Err(error) => {
            skip(&format!("fio cannot be run: {error}"));
            None
        }
    }
}

/// A file of this text, gone when dropped.
pub(crate) struct Written(PathBuf);

impl Written {
    pub(crate) fn new(name: &str, text: &str) -> Written {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{name}-{}.fio", std::process::id()));
        std::fs::write(&path, text).expect("the target directory can be written");
        Written(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("the target directory is UTF-8")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
