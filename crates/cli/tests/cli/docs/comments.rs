//! Module comments name their thing first.

use super::spec::{files, root};

/// Words with which a sentence asks what a module is, instead of saying it.
const QUESTIONS: [&str; 8] = ["What", "Who", "Whom", "Whose", "Which", "Where", "How", "Whether"];

fn asks(first_line: &str) -> bool {
    let word = first_line.strip_prefix("//! ").and_then(|text| text.split(' ').next());
    word.is_some_and(|word| QUESTIONS.contains(&word))
}

#[test]
fn module_comments_name_their_thing_first() {
    assert!(asks("//! How budgets are chosen.") && !asks("//! Budgets of flows."));
    let root = root();
    let mut paths = Vec::new();
    for directory in ["crates", "fuzz", "tests"] {
        files(&root.join(directory), &mut paths);
    }
    let (mut wrong, mut named) = (Vec::new(), 0);
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")) {
        let text = std::fs::read_to_string(path).expect("text");
        let first_line = text.lines().next().unwrap_or_default();
        if asks(first_line) {
            wrong.push(format!("{}: {first_line}", path.display()));
        }
        named += u32::from(first_line.starts_with("//! "));
    }
    assert!(wrong.is_empty(), "say what it is, not what it tells of:\n{}", wrong.join("\n"));
    assert!(named > 500, "{named} modules with a comment");
}
