//! JsonLines: one JSON object per decision, in the format of the recorded traces.

use std::io::{self, Write};

use autoscaler::scaling::replay::{ReplayedDecision, TraceDecision};

use crate::load::simulate::decision_writer::DecisionWriter;

/// Writes each decision immediately.
pub(super) struct JsonLines;

// === impl JsonLines ===

impl DecisionWriter for JsonLines {
    fn write(&mut self, decision: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &TraceDecision::from(decision))?;
        out.write_all(b"\n")
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
