//! OutcomeWriter: a format for the outcomes of a simulation.

use std::io::{self, Write};

use autoscaler::scaling::replay::ReplayedDecision;

/// Writes outcomes in one format.
pub(super) trait OutcomeWriter {
    /// Writes one outcome, or keeps it for the end.
    fn write(&mut self, outcome: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()>;

    /// Writes what was kept for the end.
    fn end(&mut self, out: &mut dyn Write) -> io::Result<()>;
}
