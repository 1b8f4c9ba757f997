//! JsonLines: one JSON object per decision, in the format of the recorded traces.

use std::io::{self, Write};

use autoscaler::scaling::replay::{ReplayedDecision, TraceDecision};

use crate::simulate::outcome_writer::OutcomeWriter;

/// Writes each outcome immediately.
pub(super) struct JsonLines;

// === impl JsonLines ===

impl OutcomeWriter for JsonLines {
    fn write(&mut self, outcome: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &TraceDecision::from(outcome))?;
        out.write_all(b"\n")
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
