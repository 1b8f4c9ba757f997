//! DecisionWriter: a format for the decisions of a simulation.

use std::io::{self, Write};

use autoscaler::scaling::replay::ReplayedDecision;

/// Writes decisions in one format.
pub(super) trait DecisionWriter {
    /// Writes one decision, or keeps it for the end.
    fn write(&mut self, decision: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()>;

    /// Writes what was kept for the end.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}
