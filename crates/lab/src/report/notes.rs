//! Notes of runs, as lines of a table.

use super::columns::{clean, shortened, wrap};

/// Runs that are named beside a note.
const NAMED_MAX: usize = 3;
/// Notes of several runs that are listed; the JSON has all.
const LISTED_MAX: usize = 50;
const NAME_MAX: usize = 40;

/// The notes of one run, below their heading; nothing if there are none.
pub(super) fn of_one(notes: &[String], width: usize) -> Vec<String> {
    below_heading(notes.iter().map(|note| clean(note)).collect(), width)
}

/// The notes of several named runs: each note once, with its runs unless all have it. O(notes of all runs, times
/// those that differ).
pub fn notes<'r>(
    runs: impl IntoIterator<Item = (&'r str, &'r [String])>,
    width: usize,
) -> Vec<String> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut count = 0;
    for (name, notes) in runs {
        count += 1;
        for (at, note) in notes.iter().enumerate() {
            if notes[..at].contains(note) {
                continue;
            }
            match found.iter_mut().find(|(known, _)| known == note) {
                Some((_, names)) => names.push(name),
                None => found.push((note, vec![name])),
            }
        }
    }
    let more = found.len().saturating_sub(LISTED_MAX);
    found.truncate(LISTED_MAX);
    let told = |(note, names): (&str, Vec<&str>)| match names.len() {
        all if all == count => clean(note),
        some => format!("{} ({})", clean(note), of_which(&names, some, count)),
    };
    let mut lines: Vec<String> = found.into_iter().map(told).collect();
    if more > 0 {
        lines.push(format!("and {more} more; the JSON has all"));
    }
    below_heading(lines, width)
}

/// `A`, or `2 of 3 runs: A; B`.
fn of_which(names: &[&str], some: usize, count: usize) -> String {
    let named: Vec<String> = names.iter().take(NAMED_MAX).map(|name| clean(name)).collect();
    let named = shortened(&named, NAME_MAX).join("; ");
    let rest = if some > NAMED_MAX { "; …" } else { "" };
    if some == 1 { named } else { format!("{some} of {count} runs: {named}{rest}") }
}

fn below_heading(notes: Vec<String>, width: usize) -> Vec<String> {
    if notes.is_empty() {
        return Vec::new();
    }
    let lines = notes.iter().flat_map(|note| wrap(&format!("  - {note}"), width, 4));
    std::iter::once("Notes".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_several_runs_is_listed_once() {
        let [both, first]: [String; 2] = ["both".into(), "first".into()];
        let (a, b) = ([both.clone(), first, both.clone()], [both]);
        let told = notes([("A", &a[..]), ("B", &b[..])], 80);
        assert_eq!(told, ["Notes", "  - both", "  - first (A)"]);
        let runs = (0..6).map(|run| ("depth=1", if run < 5 { &a[1..2] } else { &[][..] }));
        assert_eq!(notes(runs, 80)[1], "  - first (5 of 6 runs: depth=1; depth=1; depth=1; …)");
        assert_eq!(notes([("A", &[][..])], 80), Vec::<String>::new());
        let many: Vec<String> = (0..60).map(|note| note.to_string()).collect();
        let told = notes([("A", &many[..])], 80);
        assert_eq!((told.len(), told[51].as_str()), (52, "  - and 10 more; the JSON has all"));
    }
}
