//! Generation of what is set: a counter that each change bumps, and what `If-Match` is compared with.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use super::refuse::Refused;

/// A counter and a mark of this run of the server: what was read before a restart does not match after it.
#[derive(Debug)]
pub(super) struct Generation {
    number: AtomicU64,
    run: u32,
}

impl Generation {
    pub(super) fn new() -> Generation {
        // A hasher with random keys: the standard library's only source of randomness.
        let run = RandomState::new().build_hasher().finish() as u32;
        Generation { number: AtomicU64::new(1), run }
    }

    /// The generation as callers see it: opaque to them.
    pub(super) fn text(&self) -> String {
        format!("{}-{:08x}", self.number.load(Ordering::SeqCst), self.run)
    }

    /// Changes since the start.
    pub(super) fn changes(&self) -> u64 {
        self.number.load(Ordering::SeqCst) - 1
    }

    /// The next one, after a change.
    pub(super) fn bump(&self) {
        self.number.fetch_add(1, Ordering::SeqCst);
    }
}

/// The header `If-Match`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IfMatch {
    /// Entity tags without quotes. A weak one is left out: it never matches (RFC 9110, 13.1.1).
    tags: Vec<String>,
    any: bool,
}

impl IfMatch {
    /// Reads `"TAG", "TAG"` or `*`.
    pub(super) fn parse(text: &str) -> Result<IfMatch, Refused> {
        let malformed = || {
            let message = "If-Match is not a list of tags in double quotes".to_owned();
            Refused::bad("If-Match", message)
                .hint("send back the `ETag` of an answer as it was, quotes included".to_owned())
        };
        if text.trim() == "*" {
            return Ok(IfMatch { tags: Vec::new(), any: true });
        }
        let mut tags = Vec::new();
        for tag in text.split(',').map(str::trim) {
            let (weak, tag) = match tag.strip_prefix("W/") {
                Some(tag) => (true, tag),
                None => (false, tag),
            };
            let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let inner = inner.filter(|tag| !tag.contains('"')).ok_or_else(malformed)?;
            if !weak {
                tags.push(inner.to_owned());
            }
        }
        Ok(IfMatch { tags, any: false })
    }

    /// Refuses a change that was based on another generation than `now`.
    pub(super) fn check(&self, now: &str) -> Result<(), Refused> {
        if self.any || self.tags.iter().any(|tag| tag == now) {
            return Ok(());
        }
        let based_on = match self.tags.first() {
            Some(tag) => format!("{tag:?}"),
            None => "a weak tag".into(),
        };
        let message = format!("the change is based on generation {based_on}; now it is {now:?}");
        let hint = "read the status again, look at what has changed, and try again".to_owned();
        Err(Refused::stale(message).hint(hint))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_matches_until_something_changes() {
        let generation = Generation::new();
        let tag = IfMatch::parse(&format!("\"{generation}\"")).unwrap();
        assert_eq!(tag.check(&generation.text()), Ok(()));
        generation.bump();
        let refused = tag.check(&generation.text()).unwrap_err();
        assert_eq!(refused.status, 412);
        assert!(refused.refusal.message.contains("is based on generation \"1-"), "{refused:?}");
        assert!(IfMatch::parse("*").unwrap().check("x").is_ok());
        assert!(IfMatch::parse("\"y\", \"x\"").unwrap().check("x").is_ok());
        assert!(IfMatch::parse("W/\"x\"").unwrap().check("x").is_err());
    }

    #[test]
    fn another_run_has_other_tags() {
        // Two of 2^32.
        assert_ne!(Generation::new().text(), Generation::new().text());
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
        for text in ["", "x", "\"x", "\"x\" \"y\"", "\"x\",", "W/x", "**"] {
            assert_eq!(IfMatch::parse(text).unwrap_err().status, 400, "{text}");
        }
    }
}
