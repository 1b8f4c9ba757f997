//! What a workload is decided with: the cluster's configuration, overridden by the workload's annotations.
//!
//! Input: the ConfigMap `config-autoscaler` ([`AutoscalerConfig`](crate::config::AutoscalerConfig)) and the annotations of a
//! PodAutoscaler. Output: one [`Settings`] value for the collector, the decider and the zero-scaler, each of which resolves
//! it for itself with this function, so that they cannot disagree. Keys, defaults and bounds are Knative's.

mod bounded;

use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) use bounded::Bounded;
pub use bounded::{SettingError, parse_duration};

use crate::config::AutoscalerConfig;
use crate::contract::GROUP;

/// Everything that tunes one workload's scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Length of the stable window; also how long panic lasts after its last excess. 6 s to 1 h, whole seconds.
    pub stable_window: Duration,
    /// The panic window as a percentage of the stable one. 1 to 100.
    pub panic_window_percentage: f64,
    /// Panic starts when the panic window wants this percentage of the ready pods. 110 to 1000.
    pub panic_threshold_percentage: f64,
    /// Spare requests the ready pods should be able to take before the activator leaves the path; -1 keeps it there always.
    pub target_burst_capacity: f64,
    /// Fraction of a pod's capacity to aim for; divides a pod's target to give its total capacity. (0, 1].
    pub target_utilization: f64,
    /// Requests that one activator can carry.
    pub activator_capacity: f64,
    /// Largest factor by which one decision may exceed the ready pods. Above 1.
    pub max_scale_up_rate: f64,
    /// Largest divisor by which one decision may go below the ready pods. Above 1.
    pub max_scale_down_rate: f64,
    /// Smallest size when there is any load at all; 1 when not set.
    pub activation_scale: u32,
    /// How long a larger decision is held.
    pub scale_down_delay: Duration,
    /// How long the activator must have been in the path before the last pod goes.
    pub scale_to_zero_grace_period: Duration,
    /// How long the last pod is kept after the workload became idle.
    pub scale_to_zero_pod_retention_period: Duration,
    /// Whether anything may go to zero in this cluster.
    pub enable_scale_to_zero: bool,
    /// How the stable and panic averages weigh their seconds.
    pub aggregation: Aggregation,
}

/// How a window weighs its seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// All alike.
    Linear,
    /// Newer ones more.
    WeightedExponential,
}

// === impl Settings ===

impl Settings {
    /// The settings of a workload with these annotations, and everything wrong with them.
    ///
    /// A bad value is left out: the cluster's value stays in force. The caller reports the errors where the user looks.
    pub fn resolve(
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
    ) -> (Self, Vec<SettingError>) {
        let prefix = format!("{GROUP}/");
        let mut a = Bounded::new(annotations, &prefix);
        let percent = |p: f64| (1.0..=100.0).contains(&p);
        let hour = Duration::from_secs(3600);
        let settings = Self {
            stable_window: a
                .duration("window", "whole seconds from 6s to 1h", |d| {
                    (Duration::from_secs(6)..=hour).contains(&d) && d.subsec_nanos() == 0
                })
                .unwrap_or(config.stable_window),
            panic_window_percentage: a
                .float("panic-window-percentage", "1 to 100", percent)
                .unwrap_or(config.panic_window_percentage),
            panic_threshold_percentage: a
                .float("panic-threshold-percentage", "110 to 1000", |p| (110.0..=1000.0).contains(&p))
                .unwrap_or(config.panic_threshold_percentage),
            target_burst_capacity: a
                .float("target-burst-capacity", "0 or more, or -1", |c| c >= 0.0 || c == -1.0)
                .unwrap_or(config.target_burst_capacity),
            target_utilization: a
                .float("target-utilization-percentage", "1 to 100", percent)
                .map_or(config.container_concurrency_target_percentage, |p| p / 100.0),
            activator_capacity: config.activator_capacity,
            max_scale_up_rate: config.max_scale_up_rate,
            max_scale_down_rate: config.max_scale_down_rate,
            activation_scale: a.integer("activation-scale", "2 or more", |n| n >= 2).unwrap_or(1),
            scale_down_delay: a
                .duration("scale-down-delay", "whole seconds from 0s to 1h", |d| {
                    d <= hour && d.subsec_nanos() == 0
                })
                .unwrap_or(config.scale_down_delay),
            scale_to_zero_grace_period: config.scale_to_zero_grace_period,
            scale_to_zero_pod_retention_period: a
                .duration("scale-to-zero-pod-retention-period", "0s to 1h", |d| d <= hour)
                .unwrap_or(config.scale_to_zero_pod_retention_period),
            enable_scale_to_zero: config.enable_scale_to_zero,
            aggregation: a
                .choice("metric-aggregation-algorithm", "linear or weighted-exponential", |name| match name {
                    "linear" => Some(Aggregation::Linear),
                    "weighted-exponential" | "weightedExponential" => Some(Aggregation::WeightedExponential),
                    _ => None,
                })
                .unwrap_or(Aggregation::Linear),
        };
        (settings, a.into_errors())
    }

    /// Length of the panic window: its share of the stable one, rounded to whole seconds, at least 1 s.
    ///
    /// The share is taken of nanoseconds and cut to whole ones first, as Knative does: near half a second that matters.
    pub fn panic_window(&self) -> Duration {
        let share = self.stable_window.as_nanos() as f64 * self.panic_window_percentage / 100.0;
        // `as` cuts and saturates.
        let cut = Duration::from_nanos(share as u64);
        let half_a_second = u64::from(cut.subsec_millis() >= 500);
        Duration::from_secs((cut.as_secs() + half_a_second).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (format!("{GROUP}/{k}"), (*v).to_owned())).collect()
    }

    #[test]
    fn annotations_override_the_cluster() {
        let (settings, errors) = Settings::resolve(
            &AutoscalerConfig::default(),
            &annotations(&[("window", "10s"), ("target-burst-capacity", "0"), ("activation-scale", "3")]),
        );
        assert_eq!(errors, []);
        assert_eq!(settings.stable_window, Duration::from_secs(10));
        assert_eq!(settings.panic_window(), Duration::from_secs(1));
        assert_eq!((settings.target_burst_capacity, settings.activation_scale), (0.0, 3));
    }

    #[test]
    fn panic_windows_are_rounded_like_knatives() {
        // Knative metric_test.go: (stable s, percent) -> panic s
        for (stable, percent, panic) in
            [(60, 10.0, 6), (10, 10.0, 1), (600, 10.0, 60), (60, 51.0, 31), (60, 50.0, 30)]
        {
            let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
            settings.stable_window = Duration::from_secs(stable);
            settings.panic_window_percentage = percent;
            assert_eq!(settings.panic_window(), Duration::from_secs(panic), "{stable} s, {percent} %");
        }
        // Not in that table: 20.5 s in seconds, but a nanosecond less in nanoseconds.
        let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
        (settings.stable_window, settings.panic_window_percentage) = (Duration::from_secs(125), 16.4);
        assert_eq!(settings.panic_window(), Duration::from_secs(20));
    }

    #[test]
    fn every_bad_annotation_is_named_and_the_default_stays() {
        let bad = annotations(&[
            ("window", "5s"),
            ("panic-threshold-percentage", "NaN"),
            ("activation-scale", "1"),
            ("metric-aggregation-algorithm", "median"),
        ]);
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &bad);
        assert_eq!(settings, Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new()).0);
        let keys: Vec<_> = errors.iter().map(|e| e.key.rsplit('/').next().unwrap_or_default()).collect();
        assert_eq!(
            keys,
            ["window", "panic-threshold-percentage", "activation-scale", "metric-aggregation-algorithm"]
        );
        assert_eq!(
            errors[0].to_string(),
            "autoscaling.rouse.dev/window is \"5s\", but must be whole seconds from 6s to 1h"
        );
    }
}
