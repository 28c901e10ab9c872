//! `[token.NAME]`: tokens of the control API over TCP.

use crate::model::{Access, TokenConfig};
use crate::report::{Problem, Report};
use crate::source::Text;
use crate::table::{Entry, Section};
use crate::value::{cut, word};

pub(crate) const KEYS: [&str; 2] = ["sha256", "access"];

/// Most tokens: each request over TCP looks at all of them.
const TOKENS_MAX: usize = 1_000;
/// Longest name, in bytes.
const NAME_MAX: usize = 64;

/// Reads `[token]`.
pub(crate) fn read_all(root: &Section<'_>, report: &mut Report) -> Vec<TokenConfig> {
    let section = root.section("token", report);
    let entries = section.map(|section| section.entries()).unwrap_or_default();
    if let Some(entry) = entries.get(TOKENS_MAX) {
        let message = format!("more than {TOKENS_MAX} tokens");
        let hint = "programs that may do the same can have the same token".to_owned();
        report.add(Problem::new(entry.key_span, &entry.key, message).hint(hint));
        return Vec::new();
    }
    let mut tokens: Vec<TokenConfig> = Vec::new();
    for entry in entries {
        let (span, key) = (entry.key_span, entry.key.clone());
        let Some(token) = read(entry, report) else { continue };
        if let Some(other) = tokens.iter().find(|other| other.sha256 == token.sha256) {
            let message = format!("it is the same token as {:?}", other.name);
            let hint = "make another one: `weir api token`".to_owned();
            report.add(Problem::new(span, &key, message).hint(hint));
        }
        tokens.push(token);
    }
    tokens
}

fn read(entry: Entry<'_>, report: &mut Report) -> Option<TokenConfig> {
    let name = entry.name.to_owned();
    if !is_token_name(&name) {
        let message = format!("{:?} is no name of a token", cut(&name));
        let hint = format!("1 to {NAME_MAX} letters, digits, `.`, `_` and `-`");
        report.add(Problem::new(entry.key_span, &entry.key, message).hint(hint));
    }
    let section = entry.section(report)?;
    section.allow(&KEYS, report);
    let words = Access::NAMES.map(|(name, _)| name);
    let access = section
        .need("access", "\"read\"", report)
        .and_then(|entry| entry.text(report))
        .and_then(|text| word(&text, &words, report))
        .map(|index| Access::NAMES[index].1);
    let sha256 = section
        .need("sha256", "\"9f86d081...\"", report)
        .and_then(|entry| entry.text(report))
        .and_then(|text| digest(&text, report));
    Some(TokenConfig { name, sha256: sha256?, access: access? })
}

/// Whether a token can have this name: it is shown in the log.
pub fn is_token_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(good)
}

/// 64 hexadecimal digits.
fn digest(text: &Text, report: &mut Report) -> Option<[u8; 32]> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let digits: Option<Vec<u8>> = text.value.bytes().map(digit).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 64) else {
        // It may be the token itself, which a message must not repeat.
        let message = "not the 64 hexadecimal digits of a SHA-256";
        let hint = "it is the digest of the token, not the token: `weir api token` makes both";
        report.refuse(text, message, Some(hint.into()));
        return None;
    };
    Some(std::array::from_fn(|index| digits[2 * index] << 4 | digits[2 * index + 1]))
}

/// `bytes` in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
