//! The settings of a decision: everything but the averages and the ready pods.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rule::DecisionRule;
use crate::contract::metric_name::MetricName;
use crate::scaling::metric_target::MetricTarget;
use crate::settings::{AutoscalerConfig, BurstCapacity, Settings};

/// Settings of a decision.
#[derive(Clone, Debug, PartialEq)]
pub struct DeciderSpec {
    /// Value of the metric that one pod should carry. Above 0.
    pub target: f64,
    /// Value of the metric that one pod can carry at most.
    pub total: f64,
    /// See [`TargetSettings::burst_capacity`](crate::settings::TargetSettings::burst_capacity).
    pub target_burst_capacity: BurstCapacity,
    /// Factor of the ready pods at which the panic window starts a panic.
    pub panic_threshold: f64,
    /// See [`ScaleSettings::max_up_rate`](crate::settings::ScaleSettings::max_up_rate).
    pub max_scale_up_rate: f64,
    /// See [`ScaleSettings::max_down_rate`](crate::settings::ScaleSettings::max_down_rate).
    pub max_scale_down_rate: f64,
    /// Length of the stable window: how long a panic lasts after its last excess.
    pub stable_window: Duration,
    /// How long a larger decision is held. Only the value at the decider's creation counts.
    pub scale_down_delay: Duration,
    /// Smallest size when there is any load at all; 1 when not set.
    pub activation_scale: u32,
    /// Whether requests can arrive at all. If not, neither the down rate nor the delay holds pods.
    pub reachable: bool,
}

/// Bounds of one decision, in pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateLimits {
    up: f64,
    down: f64,
}

// === impl DeciderSpec ===

impl Default for DeciderSpec {
    /// The spec of a workload without any setting: a pod should carry 70 of 100 requests.
    fn default() -> Self {
        let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
        Self::new(&settings, MetricTarget::resolve(MetricName::Concurrency, 0, &settings))
    }
}

impl DeciderSpec {
    /// The spec of a workload whose pods should carry `target` each.
    pub fn new(settings: &Settings, target: MetricTarget) -> Self {
        let MetricTarget { target, total } = target;
        Self {
            target,
            total,
            target_burst_capacity: settings.target.burst_capacity,
            panic_threshold: settings.window.panic_threshold_percentage / 100.0,
            max_scale_up_rate: settings.scale.max_up_rate,
            max_scale_down_rate: settings.scale.max_down_rate,
            stable_window: settings.window.stable,
            scale_down_delay: settings.scale.down_delay,
            activation_scale: settings.scale.activation,
            reachable: settings.zero.reachability.is_reachable(),
        }
    }

    /// The smallest size that one decision may scale `ready` pods down to.
    pub(in crate::scaling) fn least_of(ready: f64, max_scale_down_rate: f64) -> f64 {
        (ready / max_scale_down_rate).floor()
    }

    pub(super) fn rate_limits(&self, ready: f64) -> RateLimits {
        let down = if self.reachable { Self::least_of(ready, self.max_scale_down_rate) } else { 0.0 };
        RateLimits { up: (self.max_scale_up_rate * ready).ceil(), down }
    }

    /// Pods for an average: limited by the rates, then raised to the activation scale, which may
    /// exceed them.
    pub(super) fn pods_for(
        &self,
        wanted: f64,
        limits: RateLimits,
        load: DecisionRule,
    ) -> (u32, DecisionRule) {
        // `as` saturates; a negative average (more proxied than seen) wants no pods.
        let pods = wanted.max(limits.down).min(limits.up) as u32;
        if wanted > 0.0 && pods < self.activation_scale {
            return (self.activation_scale, DecisionRule::ActivationScale);
        }
        (pods, limits.rule(wanted).unwrap_or(load))
    }
}

// === impl RateLimits ===

impl RateLimits {
    /// The limit that `wanted` exceeds, if any. A negative average wants 0 pods, which no lower
    /// limit of 0 changes.
    fn rule(self, wanted: f64) -> Option<DecisionRule> {
        if wanted > self.up {
            Some(DecisionRule::ScaleUpRate)
        } else {
            (wanted.max(0.0) < self.down).then_some(DecisionRule::ScaleDownRate)
        }
    }
}
