//! Table: columns as wide as their widest cell, as `kubectl get` prints them.

use std::io::{self, Write};

/// Spaces between two columns.
const GAP: usize = 3;

/// Rows of cells below a heading.
#[derive(Debug)]
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

// === impl Table ===

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with this heading.
    pub fn new(heading: [&str; COLUMNS]) -> Self {
        Self { rows: vec![heading.map(str::to_owned)] }
    }

    /// Adds a row.
    pub fn push(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    /// Writes all rows.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut widths = [0; COLUMNS];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<0$}", width + GAP));
            writeln!(out, "{}", cells.collect::<String>().trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns_and_has_no_space_at_line_ends() {
        let mut table = Table::new(["NAME", "STATE"]);
        table.push(["shop".to_owned(), "AtZero".to_owned()]);
        table.push(["checkout".to_owned(), "-".to_owned()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "NAME       STATE\nshop       AtZero\ncheckout   -\n");
    }
}
