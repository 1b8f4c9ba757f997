//! Cells of Markdown tables.

/// Text in a cell of a table: a bar would end the cell.
pub(super) fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|").replace('\n', " ")
}
