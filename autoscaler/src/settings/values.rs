//! Value types of settings, each with its text form.

pub(super) mod aggregation;
pub(super) mod burst_capacity;
pub(super) mod latency_objective;
pub(super) mod learn_target;
pub(super) mod no_wake;
pub(super) mod no_wake_response;
pub(super) mod pause;
pub(super) mod reachability;
pub(super) mod schedule;
pub(super) mod sidecar_mode;
