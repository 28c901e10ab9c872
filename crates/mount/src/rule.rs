//! Rules that choose the cgroup of a process: `comm=rsync uid=1000: /backup`.

use std::str::FromStr;

use nix::unistd::{Uid, User};
use thiserror::Error;

use crate::procfs;

/// Conditions, and a path for those that fulfil all of them.
///
/// A condition is `KEY=TEXT` for the same text or `KEY~PATTERN` with `*` and `?`; keys are `uid`, `gid`, `user`, `cgroup`, `comm` and
/// `cmdline`. The condition `*` holds always. The path may have `{uid}`, `{gid}`, `{user}`, `{comm}`, and `{cgroup}` for that of the
/// kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    conditions: Vec<Condition>,
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    key: Key,
    is_pattern: bool,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Uid,
    Gid,
    User,
    Cgroup,
    Comm,
    CommandLine,
}

const KEYS: [(&str, Key); 6] = [
    ("uid", Key::Uid),
    ("gid", Key::Gid),
    ("user", Key::User),
    ("cgroup", Key::Cgroup),
    ("comm", Key::Comm),
    ("cmdline", Key::CommandLine),
];

/// Reason why a text is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleError {
    /// No path.
    #[error("rule {text:?} has no path: it is \"CONDITION ...: /PATH\"")]
    NoPath {
        /// As given.
        text: String,
    },
    /// A word is no condition.
    #[error(
        "{word:?} is no condition: it is \"KEY=TEXT\" or \"KEY~PATTERN\", with a key of uid, gid, user, cgroup, comm, cmdline"
    )]
    Condition {
        /// The word.
        word: String,
    },
    /// Something in braces is not known.
    #[error("{{{name}}} in the path is none of uid, gid, user, comm, cgroup")]
    Variable {
        /// What is between the braces.
        name: String,
    },
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let no_path = || RuleError::NoPath { text: text.to_owned() };
        let (conditions, path) = text.rsplit_once(':').ok_or_else(no_path)?;
        let path = path.trim();
        if !path.starts_with('/') && !path.starts_with("{cgroup}") {
            return Err(no_path());
        }
        let words = conditions.split_ascii_whitespace().filter(|word| *word != "*");
        let conditions = words.map(Condition::parse).collect::<Result<Vec<_>, _>>()?;
        for part in path.split('{').skip(1) {
            let name = part.split('}').next().unwrap_or_default();
            if !["uid", "gid", "user", "comm", "cgroup"].contains(&name) {
                return Err(RuleError::Variable { name: name.to_owned() });
            }
        }
        Ok(Rule { conditions, path: path.to_owned() })
    }
}

impl Condition {
    fn parse(word: &str) -> Result<Condition, RuleError> {
        let error = || RuleError::Condition { word: word.to_owned() };
        let at = word.find(['=', '~']).ok_or_else(error)?;
        let (name, text) = (&word[..at], &word[at + 1..]);
        let (_, key) = KEYS.iter().find(|(known, _)| *known == name).ok_or_else(error)?;
        let is_pattern = word.as_bytes()[at] == b'~';
        Ok(Condition { key: *key, is_pattern, text: text.to_owned() })
    }

    fn holds(&self, facts: &mut Facts) -> bool {
        let fact = facts.get(self.key);
        match self.is_pattern {
            true => matches(self.text.as_bytes(), fact.as_bytes()),
            false => *fact == self.text,
        }
    }
}

/// Facts about a process, looked up when a rule asks for them.
#[derive(Debug)]
pub(crate) struct Facts {
    process: u32,
    uid: u32,
    gid: u32,
    known: [Option<String>; KEYS.len()],
}

impl Facts {
    pub(crate) fn new(process: u32, uid: u32, gid: u32) -> Facts {
        Facts { process, uid, gid, known: Default::default() }
    }

    fn get(&mut self, key: Key) -> &str {
        let Facts { process, uid, gid, .. } = *self;
        let slot = &mut self.known[key as usize];
        slot.get_or_insert_with(|| match key {
            Key::Uid => uid.to_string(),
            Key::Gid => gid.to_string(),
            Key::User => user_name(uid),
            Key::Cgroup => procfs::cgroup(process),
            Key::Comm => procfs::comm(process),
            Key::CommandLine => procfs::command_line(process),
        })
    }

    /// The path of a rule for this process. A slash in a name becomes `-`.
    fn expand(&mut self, path: &str) -> String {
        let mut out = String::with_capacity(path.len());
        let mut rest = path;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            rest = after;
            match name {
                // A path of its own.
                "cgroup" => out.push_str(self.get(Key::Cgroup).trim_end_matches('/')),
                "uid" => out.push_str(self.get(Key::Uid)),
                "gid" => out.push_str(self.get(Key::Gid)),
                "user" => out.push_str(&self.get(Key::User).replace('/', "-")),
                _ => out.push_str(&self.get(Key::Comm).replace('/', "-")),
            }
        }
        out.push_str(rest);
        if out.is_empty() { "/".into() } else { out }
    }
}

/// The name of a user; its number where it has none.
fn user_name(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| uid.to_string(), |user| user.name)
}

/// The path of the first rule whose conditions hold; none if there is no such rule.
pub(crate) fn place(rules: &[Rule], facts: &mut Facts) -> Option<String> {
    let rule =
        rules.iter().find(|rule| rule.conditions.iter().all(|condition| condition.holds(facts)))?;
    Some(facts.expand(&rule.path))
}

/// Whether a text matches a pattern, in which `*` is any text and `?` any byte. Linear in both but for one `*` at a time.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last star, and how much of the text it stands for.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        if at < pattern.len() && pattern[at] == b'*' {
            star = Some((at, from));
            at += 1;
        } else if at < pattern.len() && (pattern[at] == b'?' || pattern[at] == text[from]) {
            at += 1;
            from += 1;
        } else if let Some((place, end)) = star {
            star = Some((place, end + 1));
            (at, from) = (place + 1, end + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_rule_whose_conditions_hold_counts() {
        let rules = [
            rule("comm=nothing-is-called-this: /never"),
            rule("uid=1000 gid=7: /both"),
            rule("uid=1000: /users/{uid}"),
            rule("cmdline~*weir?mount*: /tests"),
            rule("*: /rest/{gid}"),
        ];
        let own = std::process::id();
        let place = |uid, gid| place(&rules, &mut Facts::new(own, uid, gid)).unwrap();
        assert_eq!(place(1000, 7), "/both");
        assert_eq!(place(1000, 8), "/users/1000");
        assert_eq!(place(1, 1), "/tests");
        assert_eq!(super::place(&rules[4..], &mut Facts::new(own, 1, 9)).unwrap(), "/rest/9");
        assert_eq!(super::place(&rules[..1], &mut Facts::new(own, 1, 9)), None);
        let kernels = super::place(&[rule("*: {cgroup}")], &mut Facts::new(own, 0, 0)).unwrap();
        assert!(kernels.starts_with('/'));
    }

    #[test]
    fn a_text_that_is_no_rule_says_why() {
        let error = |text: &str| text.parse::<Rule>().unwrap_err();
        assert!(matches!(error("uid=1"), RuleError::NoPath { .. }));
        assert!(matches!(error("uid=1: users"), RuleError::NoPath { .. }));
        assert!(matches!(error("pid=1: /a"), RuleError::Condition { .. }));
        assert!(matches!(error("uid: /a"), RuleError::Condition { .. }));
        assert!(matches!(error("uid=1: /{name}"), RuleError::Variable { .. }));
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, wanted) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?b*", "ab", true),
            ("*a*b*", "xxaxxb", true),
            ("", "a", false),
            ("**a", "ba", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), wanted, "{pattern} {text}");
        }
    }
}
