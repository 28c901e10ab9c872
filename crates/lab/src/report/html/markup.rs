//! Writer of HTML and SVG: tags that close, text that is escaped.

use std::fmt::Display;

#[derive(Default)]
pub(super) struct Markup {
    text: String,
}

pub(super) type Attributes<'a> = &'a [(&'a str, &'a dyn Display)];

impl Markup {
    /// An element; `inside` writes its content.
    pub(super) fn element(
        &mut self,
        tag: &str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes);
        self.text.push('>');
        inside(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
    }

    pub(super) fn leaf(&mut self, tag: &str, attributes: Attributes<'_>, text: &str) {
        self.element(tag, attributes, |markup| markup.text(text));
    }

    /// An empty element, closed as XML requires; HTML accepts that.
    pub(super) fn void(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.open(tag, attributes);
        self.text.push_str("/>");
    }

    fn open(&mut self, tag: &str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text(&value.to_string());
            self.text.push('"');
        }
    }

    /// Text, or the value of an attribute. Control characters, which neither HTML nor XML allows, are replaced.
    pub(super) fn text(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                c if c.is_control() && c != '\n' => self.text.push(char::REPLACEMENT_CHARACTER),
                c => self.text.push(c),
            }
        }
    }

    /// Text that may be broken after commas: a disk's line has no blanks.
    pub(super) fn breakable(&mut self, text: &str) {
        for piece in text.split_inclusive(',') {
            self.text(piece);
            if piece.ends_with(',') {
                self.void("wbr", &[]);
            }
        }
    }

    pub(super) fn raw(&mut self, markup: &str) {
        self.text.push_str(markup);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// JSON that can stand in a `script` element: it can neither end the element nor begin a comment.
pub(super) fn script_json(value: &serde_json::Value) -> String {
    // `<` occurs only in strings, where it may be written so.
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped() {
        let mut markup = Markup::default();
        markup.element("p", &[("title", &"\"><script>"), ("data-n", &7)], |markup| {
            markup.text("a<b & 'c'\u{1b}");
            markup.void("br", &[]);
        });
        assert_eq!(
            markup.finish(),
            "<p title=\"&quot;&gt;&lt;script&gt;\" data-n=\"7\">a&lt;b &amp; &#39;c&#39;\u{fffd}<br/></p>"
        );
    }

    #[test]
    fn json_cannot_end_its_script() {
        let value = serde_json::json!({ "</script><!--": "\u{2028}" });
        let text = script_json(&value);
        assert_eq!(text, r#"{"\u003c/script>\u003c!--":"\u2028"}"#);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
