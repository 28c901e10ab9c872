//! Rendering of an error: the line, a caret, and the suggestion.

use std::borrow::Cow;

use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Renderer, Snippet, normalize_untrusted_str,
};

use crate::error::ConfigError;

/// Widest picture; longer lines are shown around the caret.
const WIDTH: usize = 140;

/// The picture of `error`, without a newline at its end.
pub(crate) fn draw(error: &ConfigError, coloured: bool) -> String {
    let mut group = Group::with_title(Level::ERROR.primary_title(error.title()));
    let file = normalize_untrusted_str(&error.file);
    match (&error.excerpt, error.line, error.column) {
        (Some(excerpt), Some(line), Some(column)) => {
            let snippet = Snippet::source(visible(&excerpt.text))
                .line_start(line)
                .line_numbering(error.has_lines)
                .annotation(AnnotationKind::Primary.span(excerpt.span.clone()));
            if !error.has_lines {
                group = group.element(snippet);
            } else if excerpt.cut {
                // Columns counted in the excerpt would be wrong.
                let origin = Origin::path(file).line(line).char_column(column);
                group = group.element(origin).element(snippet);
            } else {
                group = group.element(snippet.path(file));
            }
        }
        _ => group = group.element(Origin::path(file)),
    }
    if let Some(hint) = &error.hint {
        group = group.element(Level::HELP.message(normalize_untrusted_str(hint)));
    }
    let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(WIDTH).render(&[group])
}

/// `text` with its C1 control characters, which a terminal may obey, as signs of the same length: places stay right. What
/// else is invisible the renderer shows itself.
fn visible(text: &str) -> Cow<'_, str> {
    let is_c1 = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
    match text.contains(is_c1) {
        true => Cow::Owned(text.replace(is_c1, "¤")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn control_characters_keep_their_length() {
        let text = "a\u{91}b\u{9f}";
        assert_eq!(visible(text), "a¤b¤");
        assert_eq!(visible(text).len(), text.len());
    }
}
