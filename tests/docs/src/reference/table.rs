//! Cells of Markdown tables.

/// Text in a cell of a table: a bar would end the cell.
pub(super) fn cell(text: &str) -> String {
    let text = text.trim().replace('|', "\\|").replace('\n', " ");
    // Outside of code it would begin an HTML element.
    if text.contains('`') { text } else { text.replace('<', "\\<") }
}
