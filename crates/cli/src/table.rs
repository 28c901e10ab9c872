//! Columns that line up.

/// Rows of cells; the first row is the head.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        let mut table = Table::default();
        table.row(head.iter().map(|cell| (*cell).to_owned()));
        table
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, two blanks between columns and none at the end; columns past `align` are left-aligned.
    pub(crate) fn lines(&self, align: &[Align]) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
        };
        let widths: Vec<usize> =
            (0..columns).map(|column| width(column).unwrap_or_default()).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                match align.get(column) {
                    Some(Align::Right) => format!("{cell:>width$}"),
                    _ => format!("{cell:<width$}"),
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["NAME", "N", "WHAT"]);
        table.row(["ä", "100", "x"].map(str::to_owned));
        table.row(["bc", "7", ""].map(str::to_owned));
        let lines = table.lines(&[Align::Left, Align::Right]);
        assert_eq!(lines, ["NAME    N  WHAT", "ä     100  x", "bc      7"]);
    }
}
