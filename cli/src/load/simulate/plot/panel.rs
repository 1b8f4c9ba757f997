//! Panel: an area and a line over it, on one scale from zero.
//!
//! The area has a resolution of an eighth of a row, the line of a row. A line at zero is drawn as
//! `_`, to distinguish it from a low one. Negative values are drawn as zero.

use std::io;

use super::canvas::{Cell, Ink};
use autoscaler::scaling::readable::CompactNumber;

/// Height, in rows.
const ROWS: usize = 8;
/// Row whose upper edge is half of the scale, from below.
const MIDDLE: usize = ROWS / 2 - 1;
/// Fill levels of a row, in eighths.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Upper ends of a scale, times a power of ten.
const ROUND: [f64; 10] = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

/// Rows from below, columns from the left.
struct Grid(Vec<Vec<Cell>>);

/// Position of the line in a column.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Level {
    row: usize,
    is_zero: bool,
}

/// Draws the (area, line) values of the columns. Passes label, axis and data of each row to
/// `write`, from the top.
pub(super) fn draw(
    values: &[Option<(f64, f64)>],
    mut write: impl FnMut(&str, &str, &[Cell]) -> io::Result<()>,
) -> io::Result<()> {
    let top = scale(values.iter().flatten().map(|(area, line)| area.max(*line)).fold(0.0, f64::max));
    let mut grid = Grid(vec![vec![Cell::default(); values.len()]; ROWS]);
    let mut level = None;
    for (column, value) in values.iter().enumerate() {
        let before = level;
        level = value.map(|(_, line)| Level::of(line / top));
        if let Some((area, _)) = value {
            grid.fill(column, area / top);
        }
        if let Some(level) = level {
            grid.trace(column, before.unwrap_or(level), level);
        }
    }
    for (row, cells) in grid.0.iter().enumerate().rev() {
        match row {
            _ if row == ROWS - 1 => write(&CompactNumber(top).to_string(), "┤", cells)?,
            MIDDLE => write(&CompactNumber(top / 2.0).to_string(), "┤", cells)?,
            _ => write("", "│", cells)?,
        }
    }
    write("0", "└", &vec![Cell { glyph: '─', ink: Ink::Frame }; values.len()])
}

// === impl Grid ===

impl Grid {
    /// Fills a column up to this share of the height, with at least one eighth if it is above zero.
    fn fill(&mut self, column: usize, share: f64) {
        let all = (share * (ROWS * 8) as f64).round().max(0.0) as usize;
        let all = if share > 0.0 { all.max(1) } else { 0 };
        for row in 0..ROWS {
            let eighths = all.saturating_sub(row * 8).min(8);
            if let Some(glyph) = EIGHTHS.get(eighths).filter(|_| eighths > 0) {
                self.put(row, column, *glyph, Ink::Area);
            }
        }
    }

    /// Draws the line through a column.
    fn trace(&mut self, column: usize, from: Level, to: Level) {
        if from.row == to.row {
            return self.put(to.row, column, if to.is_zero { '_' } else { '─' }, Ink::Line);
        }
        for row in from.row.min(to.row)..from.row.max(to.row) {
            self.put(row, column, '│', Ink::Line);
        }
        let (leave, arrive) = if to.row > from.row { ('╯', '╭') } else { ('╮', '╰') };
        self.put(from.row, column, leave, Ink::Line);
        self.put(to.row, column, arrive, Ink::Line);
    }

    fn put(&mut self, row: usize, column: usize, glyph: char, ink: Ink) {
        if let Some(cell) = self.0.get_mut(row).and_then(|cells| cells.get_mut(column)) {
            *cell = Cell { glyph, ink };
        }
    }
}

// === impl Level ===

impl Level {
    /// The row of this share of the height; an edge belongs to the row below it.
    fn of(share: f64) -> Self {
        // `as` saturates.
        let row = ((share * ROWS as f64).ceil() as usize).saturating_sub(1).min(ROWS - 1);
        Self { row, is_zero: share <= 0.0 }
    }
}

/// The upper end of a scale for values up to `largest`: a round number.
fn scale(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(largest.log10().floor());
    let rounded = ROUND.iter().map(|round| round * power).find(|end| *end >= largest);
    // Near the limits of f64 there may be none.
    rounded.filter(|end| end.is_finite()).unwrap_or(largest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_ends_at_a_round_number_above_the_largest_value() {
        for (largest, end) in
            [(0.0, 1.0), (1.0, 1.0), (7.0, 8.0), (235.7, 250.0), (1000.0, 1000.0), (0.012, 0.015)]
        {
            assert!((scale(largest) - end).abs() < 1e-9 * end, "{largest}: {}", scale(largest));
        }
        for extreme in [f64::MAX, f64::MIN_POSITIVE, 5e-324] {
            assert!(scale(extreme).is_finite() && scale(extreme) >= extreme, "{extreme:e}");
        }
    }

    #[test]
    fn line_distinguishes_zero_from_low_values() {
        let mut bottom = String::new();
        draw(&[Some((0.0, 0.0)), Some((0.0, 1.0)), None, Some((0.0, 80.0))], |label, axis, cells| {
            if label.is_empty() && axis == "│" {
                bottom = cells.iter().map(|cell| cell.glyph).collect();
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(bottom, "_─  ");
    }
}
