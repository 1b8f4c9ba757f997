//! Replay: one workload's windows and decider, fed with the lines of a trace instead of live stats.
//!
//! ```text
//!  spec and ready, then ─┬─ stat ──► Collection ─┐
//!                        ├─ spec ──► both        ├─► ReplayedDecision ─► TraceDecision
//!                        ├─ ready ──► Decider ◄──┘
//!                        └─ decide ─────┘
//! ```
//!
//! The other direction is a [`LoadRecording`]: what a live workload's windows and decider get, as
//! such lines. A [`Shadow`] replays them for pods that follow its own decisions.
//!
//! Input: lines from `metrics-adapter simulate`, and from the tests that compare the results with
//! recordings of Knative's own code for the same input (`tests/traces` of the repository, which
//! also has the format). A line is a serde type: the caller parses it and adds file and line number
//! to errors.
//!
//! What surprises: a trace is untrusted input, so any value that would make a replay endless, huge
//! or meaningless is an error. A rejected line leaves the replay unchanged.

mod decision;
mod error;
mod line;
mod recording;
mod shadow;
mod spec;

use std::time::Duration;

pub use decision::{ReplayedDecision, TraceDecision};
pub use error::ReplayError;
pub use line::TraceLine;
pub use recording::{LoadRecording, RecordedLine, RecordedLines};
pub use shadow::{Shadow, ShadowDecision, ShadowOptions, ShadowReport, ShadowUsage};
pub use spec::TraceAggregation;

use crate::contract::metric_name::MetricName;
use crate::scaling::decider::Decider;
use crate::stats::collection::Collection;
use line::{Event, Step};
use spec::Setup;

/// Unix time of second 0 of a trace. Buckets begin at whole multiples of their length, so the value
/// matters.
pub const EPOCH: Duration = Duration::from_secs(1_600_000_000);

/// The replay of one workload's trace.
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
    /// A replay before a trace's first line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a first line was taken.
    pub fn is_started(&self) -> bool {
        self.workload.is_some()
    }

    /// The metric of the first line.
    fn metric(&self) -> Option<MetricName> {
        self.workload.as_ref().map(|workload| workload.setup.metric)
    }

    /// The target in force.
    fn target(&self) -> Option<f64> {
        self.workload.as_ref().map(|workload| workload.setup.decider.target)
    }

    /// The stable window in force.
    fn stable_window(&self) -> Option<Duration> {
        self.workload.as_ref().map(|workload| workload.setup.windows.stable)
    }

    /// Sets the ready pods, in place of a line.
    fn set_ready(&mut self, ready: u32) {
        if let Some(workload) = &mut self.workload {
            workload.ready = ready;
        }
    }

    /// Applies the next line. Only a `decide` has a result.
    ///
    /// # Errors
    /// On a line that violates the format, or that has invalid values.
    pub fn take(&mut self, line: TraceLine) -> Result<Option<ReplayedDecision>, ReplayError> {
        let (t, since_start) = line.time()?;
        if since_start < self.latest {
            return Err(ReplayError::Backwards { t, latest: self.latest.as_secs_f64() });
        }
        let now = EPOCH + since_start;
        let decision = match (&mut self.workload, line.event()?) {
            (workload @ None, Event::Start(setup, ready)) => {
                *workload = Some(Workload::new(setup, ready, now));
                None
            }
            (Some(_), Event::Start(..)) => return Err(ReplayError::StartedAlready),
            (None, Event::Then(_)) => return Err(ReplayError::NotStarted),
            (Some(workload), Event::Then(step)) => workload.take(t, step, now)?,
        };
        self.latest = since_start;
        Ok(decision)
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
            Step::Stat(stat, late) => self.collection.record(now.saturating_sub(late), &stat),
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
