//! Answers of the live page: the page itself, with a policy that allows its own style and script alone, and its events.

use std::sync::LazyLock;

use axum::http::{HeaderName, HeaderValue, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::live::Listener;
use super::route::Answer;
use super::token::sha256;

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const EVENTS: &str = "text/event-stream";

/// Headers of both: nothing is kept, guessed, or shown to other sites.
const OF_BOTH: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

struct Page {
    html: String,
    policy: HeaderValue,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let style = [weir_page::STYLE, weir_page::LIVE_STYLE].concat();
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        STANDARD.encode(sha256(weir_page::LIVE_SCRIPT)),
        STANDARD.encode(sha256(&style))
    );
    let policy = policy.parse().expect("a policy is plain text");
    Page { html: weir_page::live(&style), policy }
});

fn headers<const N: usize>(more: [(HeaderName, HeaderValue); N]) -> Vec<(HeaderName, HeaderValue)> {
    let of_both = OF_BOTH.map(|(name, value)| (name, HeaderValue::from_static(value)));
    of_both.into_iter().chain(more).collect()
}

/// The page.
pub(super) fn page() -> Answer {
    let policy = (header::CONTENT_SECURITY_POLICY, PAGE.policy.clone());
    Answer { headers: headers([policy]), ..Answer::new(HTML, PAGE.html.as_str()) }
}

/// The events of `listener`. Its connection is not used again, because it may last only so long.
pub(super) fn events(listener: Listener) -> Answer {
    let value = HeaderValue::from_static;
    let more = [
        (header::CONNECTION, value("close")),
        // A reverse proxy passes events on at once.
        (HeaderName::from_static("x-accel-buffering"), value("no")),
    ];
    Answer { headers: headers(more), ..Answer::new(EVENTS, listener.into_body()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_of_what_stands_in_the_page() {
        let between = |from: &str, to: &str| {
            let parts: Vec<&str> = PAGE.html.split(from).collect();
            let [_, rest] = parts[..] else { panic!("{from} is there once") };
            rest.split_once(to).unwrap().0.to_owned()
        };
        let policy = PAGE.policy.to_str().unwrap();
        for (kind, text) in [
            ("script", between("<script>", "</script>")),
            ("style", between("<style>", "</style>")),
        ] {
            assert!(
                policy.contains(&format!("{kind}-src 'sha256-{}'", STANDARD.encode(sha256(&text)))),
                "{kind}"
            );
        }
        for word in ["frame-ancestors 'none'", "default-src 'none'", "base-uri 'none'"] {
            assert!(policy.contains(word), "{word}");
        }
        assert!(!policy.contains("unsafe"));
    }

    #[test]
    fn the_page_has_no_handlers_in_its_markup_and_names_no_other_place() {
        let html = &PAGE.html;
        for word in [" onclick=", " onload=", " onerror=", "javascript:", "https://", " src="] {
            assert!(!html.contains(word), "{word}");
        }
        let of_svg = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!of_svg.contains("http://"));
        // Text is set as text.
        assert!(!html.contains("innerHTML"));
    }
}
