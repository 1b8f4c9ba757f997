//! Replay: one workload's windows and decider, fed with the lines of a trace instead of live reports.
//!
//! ```text
//!  spec and ready, then ─┬─ stat ──► Collection ─┐
//!                        ├─ spec ──► both        ├─► Outcome ─► Answer
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

mod answer;
mod line;
mod spec;

use std::time::Duration;

pub use answer::Answer;
pub use line::Line;
pub use spec::Weighing;

use crate::collection::{Collection, Windows};
use crate::decider::{Decider, DeciderSpec, Verdict};
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

/// What a `decide` gave, and what it went by.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Seconds since the start of the trace, as the line gave them.
    pub t: f64,
    /// `None` without data.
    pub verdict: Option<Verdict>,
    /// Whether a burst is on, after this decision.
    pub panicking: bool,
    /// How long the panic threshold has not been exceeded, if a burst is on.
    pub calm: Option<Duration>,
    /// Whether the windows hold data. Without any, a verdict takes silence for zero.
    pub heard: bool,
    /// Ready pods.
    pub ready: u32,
    /// The spec in force.
    pub spec: DeciderSpec,
    /// The windows in force.
    pub windows: Windows,
}

/// Why a line cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// A number that makes no sense.
    #[error("{field} is {value:?}, but must be {bound}")]
    OutOfBounds {
        /// Name of the field, with its parent's.
        field: &'static str,
        /// What it is.
        value: f64,
        /// What would be accepted.
        bound: &'static str,
    },
    /// Time ran backwards.
    #[error("t is {t:?}, but must not be before {latest:?}, where the trace is already")]
    Backwards {
        /// What it is, in seconds.
        t: f64,
        /// The largest so far, in seconds.
        latest: f64,
    },
    /// No kind of line, or several.
    #[error("the line has {found}, but must have just one of spec, stat, ready and decide beside t")]
    Kind {
        /// What it has.
        found: String,
    },
    /// `"decide": false`.
    #[error("decide is false, but must be true, or not be there")]
    DecideFalse,
    /// The first line is of another kind.
    #[error("the first line must have t, spec and ready: what to decide by, and how many pods there are")]
    NotStarted,
    /// A later line is of the first one's kind.
    #[error(
        "spec and ready in one line start a trace, which has started already: give them in lines of their own"
    )]
    StartedAlready,
    /// A value that holds for the whole trace was changed.
    #[error("{field} differs from that of the first line, but must stay the same")]
    Fixed {
        /// Name of the field, with its parent's.
        field: &'static str,
    },
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
    pub fn take(&mut self, line: Line) -> Result<Option<Outcome>, ReplayError> {
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

    fn take(&mut self, t: f64, step: Step, now: Duration) -> Result<Option<Outcome>, ReplayError> {
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

    fn decide(&mut self, t: f64, now: Duration) -> Outcome {
        let spec = &self.setup.decider;
        let averages = self.collection.averages(self.setup.measure, now);
        let verdict = self.decider.decide(spec, averages, self.ready, now);
        Outcome {
            t,
            verdict,
            panicking: self.decider.is_panicking(),
            calm: self.decider.calm_since().map(|since| now.saturating_sub(since)),
            heard: averages.is_some(),
            ready: self.ready,
            spec: spec.clone(),
            windows: self.setup.windows,
        }
    }
}

#[cfg(test)]
mod tests;
