//! SimulationSummary: the totals of a simulation, in one line.

use std::fmt;

use autoscaler::scaling::replay::ReplayedDecision;

use autoscaler::scaling::readable::ClockTime;

/// Totals over all decisions.
#[derive(Debug, Default)]
pub(super) struct SimulationSummary {
    decisions: u64,
    without_data: u64,
    /// Time of the first decision, in seconds.
    start: f64,
    /// The newest decision.
    last: Option<LastDecision>,
    /// Seconds between a decision in panic and the next one.
    in_panic: f64,
    /// The highest number of desired pods, and its first time.
    peak: Option<(u32, f64)>,
    /// The last number of desired pods.
    size: Option<u32>,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
struct LastDecision {
    t: f64,
    panicking: bool,
}

// === impl SimulationSummary ===

impl SimulationSummary {
    pub(super) fn count(&mut self, decision: &ReplayedDecision) {
        self.decisions += 1;
        match self.last {
            None => self.start = decision.t,
            Some(last) if last.panicking => self.in_panic += decision.t - last.t,
            Some(_) => {}
        }
        self.last = Some(LastDecision { t: decision.t, panicking: decision.panicking });
        match decision.result {
            None => self.without_data += 1,
            Some(result) => self.count_size(result.desired, decision.t),
        }
    }

    fn count_size(&mut self, desired: u32, t: f64) {
        if self.peak.is_none_or(|(peak, _)| desired > peak) {
            self.peak = Some((desired, t));
        }
        self.changes += u64::from(self.size.is_some_and(|size| size != desired));
        self.size = Some(desired);
    }
}

impl fmt::Display for SimulationSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(last) = self.last else { return f.write_str("no decisions") };
        let time = last.t - self.start;
        write!(f, "{} in {}", counted(self.decisions, "decision"), ClockTime(time.round()))?;
        if self.without_data > 0 {
            write!(f, ", {} without data", self.without_data)?;
        }
        write!(f, " · in panic for {}", ClockTime(self.in_panic.round()))?;
        if self.in_panic > 0.0 {
            write!(f, " ({:.0} %)", 100.0 * self.in_panic / time)?;
        }
        if let Some((peak, t)) = self.peak {
            write!(f, " · peak {} at {}", counted(peak.into(), "pod"), ClockTime(t))?;
        }
        write!(f, " · {} of size", counted(self.changes, "change"))
    }
}

fn counted(n: u64, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}
