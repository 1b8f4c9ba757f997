//! How connections that are not HTTP's end, and the counters of that.

use prometheus::IntCounter;

/// How a connection ended: after it was with the app, because its caller went away while it waited, or because it got no
/// place or no app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// It was with the app.
    Served,
    /// Its caller went away.
    Cancelled,
    /// There was no place to wait, or nobody to take it.
    Refused,
}

/// A counter for each outcome.
#[derive(Clone, Debug)]
pub struct ConnectionCounters([IntCounter; ConnectionOutcome::ALL.len()]);

// === impl ConnectionOutcome ===

impl ConnectionOutcome {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Served, Self::Cancelled, Self::Refused];

    /// Its value of the label `outcome`.
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
    /// Counters as `of` gives them for the values of the label.
    pub fn new(of: impl Fn(&'static str) -> IntCounter) -> Self {
        Self(ConnectionOutcome::ALL.map(|outcome| of(outcome.label())))
    }

    /// A connection has ended.
    pub fn count(&self, outcome: ConnectionOutcome) {
        if let Some(counter) = self.0.get(outcome as usize) {
            counter.inc();
        }
    }
}
