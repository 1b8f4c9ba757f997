//! RunSeries: what one run shows over time.

use std::time::Duration;

use autoscaler::settings::LearnTarget;

use crate::scenario_file::ScenarioFile;
use crate::scenario_file::outcome::ScenarioRunError;
use crate::simulation::Simulation;

/// Period of one latency.
const PERIOD: Duration = Duration::from_secs(60);
/// Percentile without an objective.
const P95: f64 = 0.95;

/// Points are (seconds, value), in order of time.
pub(super) struct RunSeries {
    pub(super) name: String,
    /// Seconds.
    pub(super) duration: f64,
    /// Seconds.
    pub(super) objective: Option<f64>,
    pub(super) targets: Vec<(f64, f64)>,
    pub(super) pods: Vec<(f64, f64)>,
    /// At the objective's percentile, in seconds, at the end of each period.
    pub(super) latencies: Vec<(f64, f64)>,
}

// === impl RunSeries ===

impl RunSeries {
    /// Runs a scenario.
    pub(super) fn of(file: &ScenarioFile) -> Result<Self, ScenarioRunError> {
        let mut simulation = Simulation::new(file.scenario()?);
        let share = file.objective.map_or(P95, |objective| objective.share);
        let (mut latencies, mut before) = (Vec::new(), simulation.report().latencies);
        let mut end = PERIOD;
        while end <= file.duration.0 {
            simulation.run_until(end)?;
            let after = simulation.report().latencies;
            latencies.push((end.as_secs_f64(), after.since(&before).quantile(share).as_secs_f64()));
            before = after;
            end += PERIOD;
        }
        simulation.run_until(file.duration.0)?;
        let report = simulation.report();
        let learned = report.targets.iter().map(|(at, target, _)| (at.as_secs_f64(), *target));
        let user_target = (file.learn != LearnTarget::Apply).then_some((0.0, file.first_target()));
        let learned = learned.filter(|_| user_target.is_none());
        let pods = report.timeline.iter().map(|sample| (sample.at.as_secs_f64(), f64::from(sample.ready)));
        Ok(Self {
            name: file.name.clone(),
            duration: file.duration.0.as_secs_f64(),
            objective: file.objective.map(|objective| objective.latency.as_secs_f64()),
            targets: user_target.into_iter().chain(learned).collect(),
            pods: changes(pods),
            latencies,
        })
    }
}

/// The points that differ from the one before.
fn changes(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut changes: Vec<(f64, f64)> = points.collect();
    changes.dedup_by_key(|(_, value)| *value);
    changes
}
