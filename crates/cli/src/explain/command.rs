//! Settings that an explanation proposes, as commands for a shell.

/// What `weir set` is to be given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Setting {
    pub(super) cgroup: String,
    pub(super) key: &'static str,
    /// Without a device.
    pub(super) value: String,
}

impl Setting {
    /// The command, for one device where it is named.
    pub(super) fn command(&self, device: Option<&str>) -> String {
        let value = match device {
            Some(device) => format!("{device} {}", self.value),
            None => self.value.clone(),
        };
        format!("weir set {} {} {}", word(&self.cgroup), self.key, word(&value))
    }
}

/// `text` as one word for a shell.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/_-.,:=+@%".contains(letter);
    if text.chars().all(is_plain) {
        text.to_owned()
    } else if text.chars().all(|letter| is_plain(letter) || letter == ' ') {
        format!("\"{text}\"")
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_take_them_apart() {
        for (text, expected) in [
            ("/vms/db-1", "/vms/db-1"),
            ("disk riops=5", "\"disk riops=5\""),
            ("/größe", "/größe"),
            ("/a$b", "'/a$b'"),
            ("/bob's", r"'/bob'\''s'"),
        ] {
            assert_eq!(word(text), expected);
        }
    }
}
