//! Pressure: whether a trial shows room for more load, is near the limit, or above it.

use crate::bounds::LearningSpec;
use crate::curve::{LoadCurve, Sums};
use crate::trial::Trial;
use crate::tuning;

/// Largest severity.
const MOST_SEVERE: f64 = 1e6;

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Assessment {
    pub(crate) pressure: Pressure,
    /// The measure divided by its limit.
    pub(crate) severity: f64,
    /// Time of a request over that at low load; `None` without such a reference.
    pub(crate) slowdown: Option<f64>,
    /// Load of a pod at which that reference was measured.
    pub(crate) reference_load: Option<f64>,
}

/// Class of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pressure {
    /// Room for more load.
    Low,
    /// Near the limit, or not sure.
    Fine,
    /// Above the limit.
    High,
    /// There is no reference at low load yet.
    Unknown,
}

// === impl Assessment ===

impl Assessment {
    /// Assesses a trial.
    pub(crate) fn new(spec: &LearningSpec, trial: &Trial, curve: &LoadCurve) -> Self {
        let base = curve.flat();
        let slowdown = base.map(|base| trial.sums.mean_time() / base.mean_time());
        let (pressure, severity) = match (spec.objective.map(|budget| budget.0), base) {
            (None, None) => (Pressure::Unknown, 1.0),
            (None, Some(base)) => of_time(trial, &base, tuning::pressure::KNEE - 1.0, None),
            (Some(budget), Some(base)) if base.miss_rate() > tuning::pressure::HIGH_BASE * budget => {
                let limit = budget.max(base.miss_rate()) * (1.0 + tuning::pressure::SLIGHT);
                of_time(trial, &base, tuning::pressure::SLIGHT, Some(limit))
            }
            (Some(budget), None) if is_between(trial, budget) => (Pressure::Unknown, 1.0),
            (Some(budget), _) => of_misses(trial, budget * tuning::pressure::USED_BUDGET),
        };
        // JSON has no infinity, and a state with one could not be restored.
        let severity = if severity.is_nan() { 1.0 } else { severity.clamp(0.0, MOST_SEVERE) };
        Self { pressure, severity, slowdown, reference_load: base.map(|base| base.mean_load()) }
    }
}

/// Whether the misses are between what the target may use and what the objective allows. Without a
/// reference it is open whether the load is their cause.
fn is_between(trial: &Trial, budget: f64) -> bool {
    let (least, most) = trial.miss_rate_bounds(tuning::evidence::SURE);
    most >= budget * tuning::pressure::USED_BUDGET && least <= budget * (1.0 + tuning::pressure::SLIGHT)
}

fn of_misses(trial: &Trial, limit: f64) -> (Pressure, f64) {
    let (least, most) = trial.miss_rate_bounds(tuning::evidence::SURE);
    let pressure = match () {
        () if least > limit => Pressure::High,
        () if most < limit => Pressure::Low,
        () => Pressure::Fine,
    };
    (pressure, trial.sums.miss_rate() / limit)
}

fn of_time(trial: &Trial, base: &Sums, increase: f64, miss_limit: Option<f64>) -> (Pressure, f64) {
    let severity = (trial.sums.mean_time() / base.mean_time() - 1.0) / increase;
    let deviation = trial.time_deviation() * (1.0 + increase) / increase;
    let misses = |limit| trial.miss_rate_bounds(tuning::evidence::SURE).0 > limit;
    let pressure = match miss_limit {
        Some(limit) if misses(limit) && severity > 1.0 => Pressure::High,
        _ if severity - deviation > tuning::pressure::SLOW => Pressure::High,
        _ if severity < tuning::pressure::FAST => Pressure::Low,
        _ => Pressure::Fine,
    };
    (pressure, severity)
}
