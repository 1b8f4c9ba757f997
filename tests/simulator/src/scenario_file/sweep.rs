//! Sweep: the static target with the fewest pod-seconds that keeps the objective.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use autoscaler::settings::LearnTarget;

use super::outcome::{Outcome, ScenarioRunError};
use super::spec::ScenarioFile;

/// Largest static target.
pub const LAST_TARGET: u32 = 64;
/// A target with more kills than this is not an operating point, however few requests fail.
const MAX_OOM_KILLS: u64 = 1;

/// Runs the targets 1 to 64 and returns the best run. Without a target that keeps the objective it
/// is the one with the fewest misses.
///
/// # Errors
/// See [`ScenarioRunError`].
pub fn sweep(file: &ScenarioFile, warm_up: Duration) -> Result<Option<Outcome>, ScenarioRunError> {
    let file = ScenarioFile { learn: LearnTarget::Off, ..file.clone() };
    let next = AtomicU32::new(1);
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> =
            (0..workers).map(|_| scope.spawn(|| run_targets(&file, warm_up, &next))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).flatten().collect()
    });
    let outcomes: Vec<Outcome> = outcomes.into_iter().collect::<Result<_, _>>()?;
    Ok(outcomes.into_iter().min_by_key(rank))
}

fn run_targets(
    file: &ScenarioFile,
    warm_up: Duration,
    next: &AtomicU32,
) -> Vec<Result<Outcome, ScenarioRunError>> {
    let targets = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
    targets
        .take_while(|target| *target <= LAST_TARGET)
        .map(|target| ScenarioFile { target: Some(f64::from(target)), ..file.clone() }.run_after(warm_up))
        .collect()
}

/// Orders by: objective kept, cost, and a deterministic choice among equals.
fn rank(outcome: &Outcome) -> (bool, u64, u64, u64) {
    let kept = outcome.objective_kept && outcome.oom_kills <= MAX_OOM_KILLS;
    let cost = if kept { outcome.pod_seconds } else { outcome.misses };
    let target = outcome.targets.first().map_or(0, |(_, target, _)| *target as u64);
    (!kept, cost, outcome.misses, target)
}
