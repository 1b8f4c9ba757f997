//! Canvas: rows of characters with an axis, with or without colours.

use std::fmt::Write as _;
use std::io::{self, Write};

/// Columns left of the data: label, space, axis.
pub(super) const MARGIN: usize = LABEL + 2;
const LABEL: usize = 9;

/// One character of a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) glyph: char,
    pub(super) ink: Ink,
}

/// The element that a character belongs to. Colours are from the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Frame,
    Area,
    Line,
    Panic,
}

// === impl Cell ===

impl Default for Cell {
    fn default() -> Self {
        Self { glyph: ' ', ink: Ink::Text }
    }
}

// === impl Ink ===

impl Ink {
    /// The SGR code of ANSI terminals.
    fn code(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Frame => 90,
            Self::Area => 36,
            Self::Line => 33,
            Self::Panic => 31,
        }
    }
}

/// Characters without a colour.
pub(super) fn text(text: &str) -> Vec<Cell> {
    text.chars().map(|glyph| Cell { glyph, ink: Ink::Text }).collect()
}

/// Writes a row: label, axis and data.
pub(super) fn write_row(
    label: &str,
    axis: &str,
    cells: &[Cell],
    coloured: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut row = format!("{label:>LABEL$} {axis:1}");
    let mut ink = Ink::Text;
    let end = cells.iter().rposition(|cell| cell.glyph != ' ').map_or(0, |last| last + 1);
    for cell in cells.iter().take(end) {
        if coloured && cell.ink != ink && cell.glyph != ' ' {
            ink = cell.ink;
            // Writing to a String cannot fail.
            let _ = write!(row, "\x1b[{}m", ink.code());
        }
        row.push(cell.glyph);
    }
    if ink != Ink::Text {
        row.push_str("\x1b[0m");
    }
    writeln!(out, "{}", row.trim_end())
}
