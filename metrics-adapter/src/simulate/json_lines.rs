//! JsonLines: one JSON object per decision, in the format of the recorded traces.

use std::io::{self, Write};

use autoscaler::replay::{Answer, Outcome};

use crate::simulate::outcome_writer::OutcomeWriter;

/// Writes each outcome immediately.
pub(super) struct JsonLines;

// === impl JsonLines ===

impl OutcomeWriter for JsonLines {
    fn write(&mut self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &Answer::from(outcome))?;
        out.write_all(b"\n")
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
