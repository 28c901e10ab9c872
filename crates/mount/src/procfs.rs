//! Facts about a process from `/proc`.

use std::fs;

/// The process that a thread belongs to; `None` once it is gone.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Its cgroup in the unified hierarchy; `/` where that is not known.
pub(crate) fn cgroup(process: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").to_owned()
}

/// Its name, as `ps` shows it.
pub(crate) fn comm(process: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    text.trim_end().to_owned()
}

/// Its arguments, with spaces between them.
pub(crate) fn command_line(process: u32) -> String {
    let bytes = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_there() {
        let own = std::process::id();
        assert_eq!(process_of(own), Some(own));
        assert!(!comm(own).is_empty());
        assert!(!command_line(own).is_empty());
        assert!(cgroup(own).starts_with('/'));
        assert_eq!(process_of(u32::MAX), None);
    }
}
