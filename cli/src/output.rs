//! Tables for terminals, and JSON.

pub mod table;

use std::io::{self, Write};

use serde::Serialize;

/// Writes one value as indented JSON.
///
/// # Errors
/// When the output cannot be written.
pub fn write_json(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

/// Writes one value as a line of JSON.
///
/// # Errors
/// When the output cannot be written.
pub fn write_json_line(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
