//! The size of the engine's public root.

/// Names that `lib.rs` exports, hidden ones aside.
fn exports(source: &str) -> Vec<&str> {
    let visible = source.split("#[doc(hidden)]").next().unwrap_or_default();
    let mut names = Vec::new();
    for statement in visible.split(';') {
        if let Some((_, list)) = statement.split_once("pub use ") {
            let list = list.rsplit("::").next().unwrap_or_default();
            let words = list.split(|c: char| !c.is_alphanumeric() && c != '_');
            names.extend(words.filter(|word| !word.is_empty()));
        } else if let Some((_, module)) = statement.split_once("pub mod ") {
            names.push(module);
        }
    }
    names
}

#[test]
fn the_root_has_at_most_40_exports() {
    let names = exports(include_str!("../src/lib.rs"));
    assert!(names.contains(&"Engine") && names.contains(&"Ticket") && names.contains(&"stats"));
    assert!(names.len() <= 40, "{} exports: {names:?}", names.len());
}
