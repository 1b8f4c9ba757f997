//! Plain-text tables with aligned columns, and figures in short units.

use std::fmt;

/// Rows of cells; the first row has the column headings.
pub struct Table {
    rows: Vec<Vec<String>>,
}

// === impl Table ===

impl Table {
    /// A table with these column headings and no rows.
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

/// Aligns the first column to the left, the others to the right.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let mut line = String::from(" ");
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                line += &if column == 0 { format!(" {cell:width$}") } else { format!("  {cell:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Formats seconds with three digits, in µs or ms.
pub fn latency(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-4 => format!("{:.1} µs", seconds * 1e6),
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1e-2 => format!("{:.2} ms", seconds * 1e3),
        _ if seconds < 1e-1 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{:.0} ms", seconds * 1e3),
    }
}

/// Formats bytes in MiB.
pub fn bytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

/// Formats a number of connections.
pub fn connections(count: usize) -> String {
    if count == 1 { "1 connection".to_owned() } else { format!("{count} connections") }
}

/// Formats a count with thousands separators.
pub fn count(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut marked = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            marked.push(',');
        }
        marked.push(digit);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_columns() {
        let mut table = Table::new(&["", "rps", "p50"]);
        table.row(vec!["nginx".into(), "1,000".into(), "9 µs".into()]);
        table.row(vec!["direct".into(), "20".into(), String::new()]);
        assert_eq!(table.to_string(), "            rps   p50\n  nginx   1,000  9 µs\n  direct     20\n");
    }

    #[test]
    fn formats_figures_by_their_size() {
        let all = [41.26e-6, 412.6e-6, 4.126e-3, 41.26e-3, 1.5].map(latency);
        assert_eq!(all, ["41.3 µs", "413 µs", "4.13 ms", "41.3 ms", "1500 ms"]);
        assert_eq!([7.0, 999.6, 1_234_567.0].map(count), ["7", "1,000", "1,234,567"]);
        assert_eq!(bytes(8.0 * 1024.0 * 1024.0), "8.0 MiB");
    }
}
