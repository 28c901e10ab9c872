//! Names that a configuration of Weir takes, from those of others.

use std::collections::BTreeSet;

/// Longest name that is made, in bytes: less than the longest name of a device, so that a number fits behind.
const NAME_MAX: usize = 56;

/// `text` with only letters, digits, `.`, `_`, `-` and `@`, a letter or digit first; `other` where nothing is left of it.
/// `@` stands in names of systemd's units, and not in those of devices: `is_device` leaves it out.
fn clean(text: &str, other: &str, is_device: bool) -> String {
    let allowed = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') || (c == '@' && !is_device)
    };
    let name: String = text
        .chars()
        .skip_while(|c| !c.is_ascii_alphanumeric())
        .map(|c| if allowed(c) { c } else { '_' })
        .take(NAME_MAX)
        .collect();
    if name.is_empty() { other.to_owned() } else { name }
}

/// The name of a device.
pub(crate) fn device(text: &str) -> String {
    match clean(text, "disk", true).as_str() {
        // Both mean every device in lines of limits and weights.
        word @ ("any" | "default") => format!("{word}-disk"),
        name => name.to_owned(),
    }
}

/// One name of a cgroup's path.
pub(crate) fn cgroup(text: &str) -> String {
    clean(text, "tenant", false)
}

/// Names that are taken.
#[derive(Default)]
pub(crate) struct Taken(BTreeSet<String>);

impl Taken {
    /// `name`, or the first of `name-2`, `name-3`, … that is free.
    pub(crate) fn take(&mut self, name: &str) -> String {
        let mut free = name.to_owned();
        let mut number = 2;
        while !self.0.insert(free.clone()) {
            free = format!("{name}-{number}");
            number += 1;
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_what_is_allowed() {
        for (text, as_device, as_cgroup) in [
            ("vda", "vda", "vda"),
            ("any", "any-disk", "any"),
            ("my vm/1", "my_vm_1", "my_vm_1"),
            ("getty@tty1.service", "getty_tty1.service", "getty@tty1.service"),
            ("..", "disk", "tenant"),
            ("client:7", "client_7", "client_7"),
            ("ä\u{202e}x", "x", "x"),
        ] {
            assert_eq!((device(text).as_str(), cgroup(text).as_str()), (as_device, as_cgroup));
        }
        assert_eq!(device(&"x".repeat(100)).len(), NAME_MAX);
    }

    #[test]
    fn a_name_that_is_taken_has_a_number() {
        let mut taken = Taken::default();
        let names = ["a", "a", "a-2", "a"].map(|name| taken.take(name));
        assert_eq!(names, ["a", "a-2", "a-2-2", "a-3"]);
    }
}
