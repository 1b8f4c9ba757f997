//! Properties of the autoscaling loop, each shown by runs of the simulator.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a run that fails has failed the test")]

mod hpa_and_kpa;
mod invariants;
mod learned_target;
mod missing_data;
mod oscillation;
mod scale_to_zero;
mod scenario_files;
mod slot_lending;
mod wake;

use std::time::Duration;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
