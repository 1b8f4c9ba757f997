//! Results of a scenario file as one JSON object.

use std::time::Duration;

use serde::Serialize;

use super::spec::{ScenarioFile, ScenarioFileError};
use super::units::Objective;
use crate::report::Report;
use crate::simulation::{RunError, Simulation};

/// Share of requests of the reported latency.
const P95: f64 = 0.95;

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Name of the scenario.
    pub name: String,
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that failed or took longer than the objective; 0 without one.
    pub misses: u64,
    /// Requests that failed.
    pub errors: u64,
    /// `status.replicas`, summed over all seconds.
    pub pod_seconds: u64,
    /// 95th percentile of the latency of all requests with a response, within 1 %.
    pub p95_ms: f64,
    /// Whether the latency at the objective's percentile is at most the objective's. Failed
    /// requests count as slow.
    pub objective_kept: bool,
    /// Each target with its time in seconds and its phase.
    pub targets: Vec<(u64, f64, String)>,
    /// Changes of the target.
    pub changes: u64,
    /// Changes that restored an earlier target.
    pub reverts: u64,
    /// Pods killed above their memory limit.
    pub oom_kills: u64,
}

/// Why a scenario has no results.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioRunError {
    /// The file is invalid.
    #[error(transparent)]
    File(#[from] ScenarioFileError),
    /// The run was aborted.
    #[error(transparent)]
    Run(#[from] RunError),
}

// === impl ScenarioFile ===

impl ScenarioFile {
    /// Runs the scenario.
    ///
    /// # Errors
    /// See [`ScenarioRunError`].
    pub fn run(&self) -> Result<Outcome, ScenarioRunError> {
        self.run_after(Duration::ZERO)
    }

    /// Runs the scenario. Requests and pod-seconds before `warm_up` do not count; kills and changes
    /// do.
    ///
    /// # Errors
    /// See [`ScenarioRunError`].
    pub fn run_after(&self, warm_up: Duration) -> Result<Outcome, ScenarioRunError> {
        let mut simulation = Simulation::new(self.scenario()?);
        simulation.run_until(warm_up.min(self.duration.0))?;
        let before = simulation.report();
        simulation.run_until(self.duration.0)?;
        Ok(self.outcome(&before, &simulation.report()))
    }

    fn outcome(&self, before: &Report, report: &Report) -> Outcome {
        let latencies = report.latencies.since(&before.latencies);
        let errors = report.errors() - before.errors();
        Outcome {
            name: self.name.clone(),
            requests: report.arrived - before.arrived,
            misses: report.misses - before.misses,
            errors,
            pod_seconds: report.pod_seconds - before.pod_seconds,
            p95_ms: latencies.quantile(P95).as_secs_f64() * 1000.0,
            objective_kept: self.objective.is_none_or(|Objective { latency, share }| {
                latencies.quantile_with_failed(share, errors).is_some_and(|at_share| at_share <= latency)
            }),
            targets: targets(self.first_target(), report),
            changes: report.target_changes,
            reverts: report.target_reverts,
            oom_kills: report.oom_kills,
        }
    }
}

/// The learned targets; the static one if learning is off.
fn targets(user: f64, report: &Report) -> Vec<(u64, f64, String)> {
    if report.targets.is_empty() {
        return vec![(0, user, "Off".to_owned())];
    }
    report.targets.iter().map(|(at, target, phase)| (at.as_secs(), *target, phase.to_string())).collect()
}
