//! `[device.NAME.bfq]` and `--bfq`: settings of the scheduler of that name.

use weir_engine::settings::BfqSettings;
use weir_text::{BfqEdit, BfqError, BfqKey};

use crate::report::{Problem, Report};
use crate::source::{Span, Text};
use crate::table::Section;

/// Reads the keys of `section`; missing ones keep their defaults.
pub(crate) fn read(section: &Section<'_>, report: &mut Report) -> BfqSettings {
    let mut edit = BfqEdit::new(BfqSettings::DEFAULT);
    section.allow(&BfqKey::ALL.map(BfqKey::name), report);
    // In their order, not that of the file: a whole comes before its parts.
    for key in BfqKey::ALL {
        if let Some(text) = section.get(key.name()).and_then(|entry| entry.word(report))
            && let Err(error) = edit.set(key.name(), &text.value)
        {
            report.refuse(&text, message(&error), error.hint());
        }
    }
    finish(edit, section.span, &section.key, report)
}

/// Reads `KEY=VALUE ...`, and reports all words that are refused.
pub(crate) fn words(text: &Text, report: &mut Report) -> BfqSettings {
    let mut edit = BfqEdit::new(BfqSettings::DEFAULT);
    for word in text.value.split_ascii_whitespace() {
        let set = match word.split_once('=') {
            Some((key, value)) => edit.set(key, value),
            None => Err(BfqError::NoValue { word: crate::value::cut(word).to_string() }),
        };
        if let Err(error) = set {
            let problem = Problem::new(text.place_of(word), &text.key, error.to_string());
            report.add(problem.hint(error.hint()));
        }
    }
    finish(edit, text.span, &text.key, report)
}

/// Error of a value, without its key.
fn message(error: &BfqError) -> String {
    match error {
        BfqError::Value { key, value } => format!("{value:?}: allowed are {}", key.allowed()),
        error => error.to_string(),
    }
}

fn finish(edit: BfqEdit, span: Span, key: &str, report: &mut Report) -> BfqSettings {
    edit.finish().unwrap_or_else(|error| {
        report.add(Problem::new(span, key, error.to_string()).hint(error.hint()));
        BfqSettings::DEFAULT
    })
}
