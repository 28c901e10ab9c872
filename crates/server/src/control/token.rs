//! Bearer tokens of the control API (RFC 6750): the server knows no token, only each one's SHA-256.

use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use weir_config::{Access, TokenConfig};

/// Beginning of new tokens: scanners for secrets find one that got out.
const PREFIX: &str = "weir_";
/// Random bytes of a new token: too many to be guessed, so the number of attempts need not be bounded.
pub(super) const RANDOM_BYTES: usize = 32;
/// Longest token that is looked at.
const TOKEN_MAX: usize = 256;

/// The tokens that a server takes, as its configuration lists them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tokens(Vec<TokenConfig>);

impl Tokens {
    /// Those of a configuration.
    pub fn new(tokens: &[TokenConfig]) -> Tokens {
        Tokens(tokens.to_vec())
    }

    /// The name of the token in `Authorization: Bearer TOKEN`, and what its holder may do. Digests are compared, so how
    /// long it takes says nothing of a token. O(tokens).
    pub(super) fn find(&self, headers: &HeaderMap) -> Option<(&str, Access)> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") || token.len() > TOKEN_MAX {
            return None;
        }
        let sha256 = sha256(token.trim());
        let found = self.0.iter().find(|known| known.sha256 == sha256)?;
        Some((&found.name, found.access))
    }
}

/// A new token.
///
/// # Errors
///
/// The system has no random numbers.
pub fn new_token() -> std::io::Result<String> {
    Ok(format!("{PREFIX}{}", random_hex()?))
}

/// [`RANDOM_BYTES`] random bytes, in hexadecimal.
pub(super) fn random_hex() -> std::io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(weir_config::hex(&bytes))
}

/// SHA-256 of a token, as the configuration has it, or of another text.
pub fn sha256(token: &str) -> [u8; 32] {
    let digest = digest(&SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[&str]) -> Option<(String, Access)> {
        let token = |name: &str, token: &str, access| TokenConfig {
            name: name.into(),
            sha256: sha256(token),
            access,
        };
        let tokens = Tokens::new(&[
            token("panel", "weir_1", Access::Change),
            token("prometheus", "weir_2", Access::Read),
        ]);
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        tokens.find(&headers).map(|(name, access)| (name.to_owned(), access))
    }

    #[test]
    fn a_token_is_known_by_its_digest() {
        assert_eq!(weir_config::hex(&sha256("abc"))[..16], *"ba7816bf8f01cfea");
        let panel = Some(("panel".to_owned(), Access::Change));
        assert_eq!(found(&["Bearer weir_1"]), panel);
        assert_eq!(found(&["bearer weir_1"]), panel);
        assert_eq!(found(&["Bearer weir_2"]), Some(("prometheus".to_owned(), Access::Read)));
        let long = format!("Bearer {}", "x".repeat(300));
        for value in ["weir_1", "Basic weir_1", "Bearer", "Bearer ", "Bearer weir_3", "", &long] {
            assert_eq!(found(&[value]), None, "{value}");
        }
        assert_eq!(found(&["Bearer weir_1", "Bearer weir_2"]), None, "only one can be meant");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn new_tokens_differ() {
        let [one, other] = [(); 2].map(|()| new_token().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.len(), PREFIX.len() + 64);
    }
}
