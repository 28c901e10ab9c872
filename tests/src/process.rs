//! Facts of the kernel about a process.

use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

/// Open file descriptors of a process.
///
/// # Panics
/// When it has ended.
pub(crate) fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is there").count()
}

/// Memory of a process that is in RAM, in bytes, buffers of its sockets not included.
///
/// # Panics
/// When it has ended.
pub(crate) fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
    kib << 10
}

/// Lets this process open as many files as the system allows: some tests have a thousand connections.
///
/// # Panics
/// When the system refuses what it has promised.
pub fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit may be as high as the hard one");
}
