//! Answers: one JSON object a decision, as the recorded traces have them.

use std::io::{self, Write};

use autoscaler::replay::{Answer, Outcome};

use super::Report;

/// Writes each outcome at once.
pub(super) struct Answers;

// === impl Answers ===

impl Report for Answers {
    fn outcome(&mut self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &Answer::from(outcome))?;
        out.write_all(b"\n")
    }

    fn end(&mut self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
