//! The result of a `decide` line, as a value and in the format of the recorded traces.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scaling::decider::{DeciderSpec, ScaleResult};
use crate::stats::collection::WindowSpec;

/// The result of a `decide` line, with the state that it is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayedDecision {
    /// Seconds since the start of the trace, as the line gave them.
    pub t: f64,
    /// `None` without data.
    pub result: Option<ScaleResult>,
    /// Whether panic mode is on after this decision.
    pub panicking: bool,
    /// Time since the panic threshold was last exceeded; `None` when panic mode is off.
    pub calm: Option<Duration>,
    /// Whether the windows hold data. If not, a result counts no data as zero.
    pub has_data: bool,
    /// Ready pods.
    pub ready: u32,
    /// The spec in force.
    pub spec: DeciderSpec,
    /// The windows in force.
    pub windows: WindowSpec,
}

/// The output line of one `decide`. Without data it has only `t`, `valid` and `panicking`.
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
    /// Whether panic mode is on after this decision.
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
    fn from(decision: &ReplayedDecision) -> Self {
        let result = decision.result;
        Self {
            t: decision.t,
            valid: result.is_some(),
            desired: result.map(|v| v.desired),
            excess_burst_capacity: result.map(|v| v.excess_burst_capacity),
            panicking: decision.panicking,
            stable: result.map(|v| v.averages.stable),
            panic: result.map(|v| v.averages.panic),
        }
    }
}
