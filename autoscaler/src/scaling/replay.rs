//! Replay: one workload's windows and decider, fed with the lines of a trace instead of live reports.
//!
//! ```text
//!  spec and ready, then ─┬─ stat ──► Collection ─┐
//!                        ├─ spec ──► both        ├─► ReplayedDecision ─► TraceDecision
//!                        ├─ ready ──► Decider ◄──┘
//!                        └─ decide ─────┘
//! ```
//!
//! Lines come from `metrics-adapter simulate`, and from the tests that compare us with what Knative's own code gave for the
//! same input; `tests/traces` of the repository holds those recordings and says what they mean. A line is a serde type, so
//! that parsing, and saying where in a file it failed, stay with the caller.
//!
//! What surprises: a trace may come from anywhere, so everything that could make a replay endless, huge or meaningless is an
//! error; and a line that is refused leaves the replay as it was before.

mod decision;
mod error;
mod line;
mod spec;

use std::time::Duration;

pub use decision::{ReplayedDecision, TraceDecision};
pub use error::ReplayError;
pub use line::TraceLine;
pub use spec::TraceAggregation;

use crate::scaling::decider::Decider;
use crate::stats::collection::Collection;
use line::{Event, Step};
use spec::Setup;

/// Unix time of second 0 of a trace. Slots of time begin at whole multiples of their length, so it has an influence.
pub const EPOCH: Duration = Duration::from_secs(1_600_000_000);

/// A workload that lives through a trace.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// `None` before the first line.
    workload: Option<Workload>,
    /// Time of the newest line.
    latest: Duration,
}

#[derive(Clone, Debug)]
struct Workload {
    setup: Setup,
    ready: u32,
    collection: Collection,
    decider: Decider,
}

// === impl Replay ===

impl Replay {
    /// A replay that waits for a trace's first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there was a first line.
    pub fn is_started(&self) -> bool {
        self.workload.is_some()
    }

    /// Takes in the next line; a `decide` has an outcome.
    ///
    /// # Errors
    /// On a line that breaks the rules of the format, or holds values without meaning.
    pub fn take(&mut self, line: TraceLine) -> Result<Option<ReplayedDecision>, ReplayError> {
        let (t, since_start) = line.time()?;
        if since_start < self.latest {
            return Err(ReplayError::Backwards { t, latest: self.latest.as_secs_f64() });
        }
        let now = EPOCH + since_start;
        let outcome = match (&mut self.workload, line.event()?) {
            (workload @ None, Event::Start(setup, ready)) => {
                *workload = Some(Workload::new(setup, ready, now));
                None
            }
            (Some(_), Event::Start(..)) => return Err(ReplayError::StartedAlready),
            (None, Event::Then(_)) => return Err(ReplayError::NotStarted),
            (Some(workload), Event::Then(step)) => workload.take(t, step, now)?,
        };
        self.latest = since_start;
        Ok(outcome)
    }
}

// === impl Workload ===

impl Workload {
    fn new(setup: Setup, ready: u32, now: Duration) -> Self {
        Self {
            ready,
            collection: Collection::new(setup.windows),
            decider: Decider::new(&setup.decider, ready, now),
            setup,
        }
    }

    fn take(&mut self, t: f64, step: Step, now: Duration) -> Result<Option<ReplayedDecision>, ReplayError> {
        match step {
            Step::Spec(setup) => {
                self.setup.may_become(&setup)?;
                self.collection.resize(setup.windows, now);
                self.setup = setup;
            }
            Step::Stat(stat) => self.collection.record(now, &stat),
            Step::Ready(ready) => self.ready = ready,
            Step::Decide => return Ok(Some(self.decide(t, now))),
        }
        Ok(None)
    }

    fn decide(&mut self, t: f64, now: Duration) -> ReplayedDecision {
        let spec = &self.setup.decider;
        let averages = self.collection.averages(self.setup.metric, now);
        let result = self.decider.decide(spec, averages, self.ready, now);
        ReplayedDecision {
            t,
            result,
            panicking: self.decider.is_panicking(),
            calm: self.decider.calm_since().map(|since| now.saturating_sub(since)),
            has_data: averages.is_some(),
            ready: self.ready,
            spec: spec.clone(),
            windows: self.setup.windows,
        }
    }
}

#[cfg(test)]
mod tests;
