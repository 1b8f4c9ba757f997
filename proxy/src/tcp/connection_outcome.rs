//! Outcomes of connections that are not HTTP, and their counters.

use prometheus::IntCounter;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// It was connected to the app.
    Served,
    /// The client disconnected while it waited.
    Cancelled,
    /// The queue was full, or no app or pod accepted it.
    Refused,
}

/// A counter for each outcome.
#[derive(Clone, Debug)]
pub struct ConnectionCounters([IntCounter; ConnectionOutcome::ALL.len()]);

// === impl ConnectionOutcome ===

impl ConnectionOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Served, Self::Cancelled, Self::Refused];

    /// The value of the label `outcome`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
        }
    }
}

// === impl ConnectionCounters ===

impl ConnectionCounters {
    /// Counters that `of` returns for the values of the label.
    pub fn new(of: impl Fn(&'static str) -> IntCounter) -> Self {
        Self(ConnectionOutcome::ALL.map(|outcome| of(outcome.label())))
    }

    /// Counts a connection that has ended.
    pub fn count(&self, outcome: ConnectionOutcome) {
        if let Some(counter) = self.0.get(outcome as usize) {
            counter.inc();
        }
    }
}
