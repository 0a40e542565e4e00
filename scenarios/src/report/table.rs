//! Tables of text with aligned columns. It knows nothing of what the cells mean.

use std::fmt::Write;

/// Rows of cells under a line of headings. The first column is aligned left, the others right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    left_columns: usize,
}

impl Table {
    /// A table with these headings and no rows.
    pub fn new<const COLUMNS: usize>(headings: [&str; COLUMNS]) -> Self {
        Self::new_of(headings.map(str::to_owned))
    }

    /// As [`new`](Self::new), with headings that are known only at run time.
    pub fn new_of(headings: impl IntoIterator<Item = String>) -> Self {
        Self { rows: vec![headings.into_iter().collect()], left_columns: 1 }
    }

    /// Aligns the first `columns` columns left.
    pub fn with_left_columns(mut self, columns: usize) -> Self {
        self.left_columns = columns;
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has not a cell for each heading.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.rows[0].len(), "a cell for each heading");
        self.rows.push(cells);
    }

    /// Whether there is no row but the headings.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table as lines, without blanks at their ends.
    pub fn render(&self) -> String {
        let columns = self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                let written = match column < self.left_columns {
                    true => write!(line, "{gap}{cell:<width$}"),
                    false => write!(line, "{gap}{cell:>width$}"),
                };
                written.expect("writing to a string succeeds");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["variant", "GiB/s"]);
        table.row(["before".to_owned(), "2.9".to_owned()]);
        table.row(["before-bound".to_owned(), "16.60".to_owned()]);
        assert_eq!(
            table.render(),
            "variant       GiB/s\nbefore          2.9\nbefore-bound  16.60\n"
        );
    }

    #[test]
    #[should_panic(expected = "a cell for each heading")]
    fn a_row_of_another_length_is_a_mistake() {
        Table::new(["one", "two"]).row(["1".to_owned()]);
    }
}
