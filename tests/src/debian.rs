//! Files of Debian packages that are not installed: a kernel for guests is not for this machine's boot loader.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::peer::missing;

/// Directory with the files of `package`, which is downloaded into `target/tools` where it is not there yet; `None`
/// where it cannot be, as [`peer`](crate::peer).
///
/// # Panics
/// As [`peer`](crate::peer).
pub(crate) fn debian(package: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let found = fetched(package).or_else(|| {
        // The lists of packages are missing, or name a version that the mirror has no more.
        ends_well(Command::new("apt-get").args(["-qq", "update"]));
        fetched(package)
    });
    if found.is_none() {
        missing(package);
    }
    found
}

fn fetched(package: &str) -> Option<PathBuf> {
    let package = &concrete(package)?;
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/debian");
    let place = tools.join(package);
    if place.is_dir() {
        return Some(place);
    }
    // Half a package would be taken for a whole one.
    let part = tools.join(format!("{package}.part"));
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).expect("a directory can be made");
    if !ends_well(Command::new("apt-get").args(["-qq", "download", package]).current_dir(&part)) {
        return None;
    }
    let archive = fs::read_dir(&part).expect("just made").next()?.expect("a file").path();
    if !ends_well(Command::new("dpkg-deb").arg("--extract").args([&archive, &part])) {
        return None;
    }
    fs::remove_file(archive).and_then(|()| fs::rename(&part, &place)).expect("it is ours");
    Some(place)
}

/// The package itself, or the kernel that it stands for.
fn concrete(package: &str) -> Option<String> {
    if !package.starts_with("linux-image-") {
        return Some(package.to_owned());
    }
    let ran = Command::new("apt-cache").args(["depends", package]).output().ok()?;
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let mut names = said.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

fn ends_well(command: &mut Command) -> bool {
    command.output().is_ok_and(|ran| ran.status.success())
}
