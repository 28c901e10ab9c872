//! Tables of text: columns that line up within a width.

use std::collections::{BTreeMap, BTreeSet};

const GAP: usize = 2;

/// Rows of cells under a head; the columns named in `left` begin at the left, numbers end at the right.
pub(super) struct Columns {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// A table with this head, the first `left` columns of which are text.
    pub(super) fn new(left: usize, head: &[&str]) -> Columns {
        Columns { left, rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The same table without the columns `hidden` (by their head).
    pub(super) fn without(&self, hidden: &[&str]) -> Columns {
        let keep: Vec<usize> = (0..self.rows[0].len())
            .filter(|&column| !hidden.contains(&self.rows[0][column].as_str()))
            .collect();
        let left = keep.iter().filter(|&&column| column < self.left).count();
        let cells = |row: &Vec<String>| {
            keep.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect()
        };
        Columns { left, rows: self.rows.iter().map(cells).collect() }
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max()
        };
        (0..self.rows[0].len()).map(|column| width(column).unwrap_or_default()).collect()
    }

    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let widths = self.widths();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                match column < self.left {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                }
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// A name from a file, safe for a terminal: characters that would move the cursor or change colours are replaced.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Names of at most `max` characters: longer ones lose their middle, unless two would become equal.
pub(super) fn shortened(names: &[String], max: usize) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|name| without_middle(name, max)).collect();
    let mut whole: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (short, name) in short.iter().zip(names) {
        whole.entry(short).or_default().insert(name);
    }
    let pick = |(short, name): (&String, &String)| match whole[short.as_str()].len() {
        1 => short.clone(),
        _ => name.clone(),
    };
    short.iter().zip(names).map(pick).collect()
}

fn without_middle(name: &str, max: usize) -> String {
    let count = length(name);
    if count <= max {
        return name.into();
    }
    let kept = max.saturating_sub(2);
    let front: String = name.chars().take(kept.div_ceil(2)).collect();
    let back: String = name.chars().skip(count - kept / 2).collect();
    format!("{front}..{back}")
}

/// A blank at which [`wrap`] does not break.
const NO_BREAK: char = '\u{a0}';

/// A text that [`wrap`] does not break; its blanks are blanks again afterwards.
pub fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// `text` in lines of at most `width` characters, broken at blanks and after commas; the lines after the first begin
/// with `indent` blanks. A longer word has a line for itself. O(length).
pub fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut is_line_empty = true;
    for piece in text.split_inclusive([' ', ',']) {
        let last = lines.last_mut().expect("there is always a line");
        if !is_line_empty && length(last) + length(piece.trim_end()) > width {
            lines.push(" ".repeat(indent));
        }
        lines.last_mut().expect("there is always a line").push_str(piece);
        is_line_empty = false;
    }
    lines.iter().map(|line| line.trim_end().replace(NO_BREAK, " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_can_be_left_out() {
        let mut columns = Columns::new(1, &["NAME", "N", "WHAT"]);
        columns.row(["ä", "100", "x"].map(str::to_owned).into());
        columns.row(["bc", "7", ""].map(str::to_owned).into());
        assert_eq!(columns.lines(), ["NAME    N  WHAT", "ä     100     x", "bc      7"]);
        assert_eq!(columns.width(), 15);
        assert_eq!(columns.without(&["NAME"]).lines(), ["  N  WHAT", "100     x", "  7"]);
    }

    #[test]
    fn long_text_is_broken_at_blanks_and_commas() {
        assert_eq!(wrap("one two,three four", 9, 2), ["one two,", "  three", "  four"]);
        assert_eq!(wrap("unbreakable it is", 5, 1), ["unbreakable", " it", " is"]);
        assert_eq!(wrap("", 5, 1), [""]);
        assert_eq!(wrap(&format!("a {}, c", unbroken("b b")), 4, 0), ["a", "b b,", "c"]);
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        assert_eq!(clean("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }

    #[test]
    fn short_names_can_be_told_apart() {
        let short = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
            shortened(&names, 9).join(" ")
        };
        assert_eq!(short(&["/vms/db", "/vms/data1", "/vms/däta2"]), "/vms/db /vms..ta1 /vms..ta2");
        // Two that differ only in the middle stay whole; the same name twice is shortened twice.
        assert_eq!(
            short(&["read-8-of-3", "read-1-of-3", "write-of-3"]),
            "read-8-of-3 read-1-of-3 writ..f-3"
        );
        assert_eq!(short(&["write-of-3", "write-of-3"]), "writ..f-3 writ..f-3");
    }
}
