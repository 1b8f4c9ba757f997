//! TraceDecision: an outcome as the recorded traces write it.

use serde::{Deserialize, Serialize};

use super::ReplayedDecision;

/// One line for one `decide`. Without data only `t`, `valid` and `panicking` are there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TraceDecision {
    /// Seconds since the start of the trace.
    pub t: f64,
    /// Whether there was a decision.
    pub valid: bool,
    /// Pods wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<u32>,
    /// Spare capacity over the target burst capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess_burst_capacity: Option<i32>,
    /// Whether a burst is on, after this decision.
    pub panicking: bool,
    /// Average over the stable window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<f64>,
    /// Average over the panic window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panic: Option<f64>,
}

// === impl TraceDecision ===

impl From<&ReplayedDecision> for TraceDecision {
    fn from(outcome: &ReplayedDecision) -> Self {
        let verdict = outcome.verdict;
        Self {
            t: outcome.t,
            valid: verdict.is_some(),
            desired: verdict.map(|v| v.desired),
            excess_burst_capacity: verdict.map(|v| v.excess_burst_capacity),
            panicking: outcome.panicking,
            stable: verdict.map(|v| v.averages.stable),
            panic: verdict.map(|v| v.averages.panic),
        }
    }
}
