//! Text that lines up and stays within a width.

/// Blanks between two columns.
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

    /// The same without the columns `hidden` (by their head).
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

    /// Characters of the widest line.
    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    /// The head and the rows, without blanks at the ends.
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

/// Characters of a text.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// A name from a file as a terminal may get it: what would move the cursor or change colours is replaced.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// At most `max` characters of a path: its end tells more than its beginning.
pub(super) fn end_of(path: &str, max: usize) -> String {
    let count = length(path);
    if count <= max {
        return path.into();
    }
    let kept: String = path.chars().skip(count - max.saturating_sub(2)).collect();
    format!("..{kept}")
}

/// Keeps the words of a text on one line: [`wrap`] makes blanks of it.
const NO_BREAK: char = '\u{a0}';

/// A text that [`wrap`] does not break: its blanks are kept together, and are blanks again afterwards.
pub fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// `text` in lines of at most `width` characters where it can be broken, at blanks and after commas; the lines after
/// the first begin with `indent` blanks.
///
/// A word that is longer than a line has one for itself. Costs the length of the text.
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
        assert_eq!(
            (end_of("/vms/db", 7), end_of("/vms/db1", 7)),
            ("/vms/db".into(), "..s/db1".into())
        );
    }
}
