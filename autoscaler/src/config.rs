//! The cluster-wide settings: ConfigMap `config-autoscaler`, with Knative's keys, defaults and bounds.
//!
//! Read by the metrics-adapter and the zero-scaler, which watch the ConfigMap and keep the last good value when a new one is
//! bad. Knative's keys that have no meaning here (`pod-autoscaler-class`, `min-scale`, `max-scale`, `max-scale-limit`,
//! `initial-scale`: the HPA says these) are ignored; an unknown key is ignored as well, as Knative does.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::settings::{Bounded, SettingError};

/// Settings of the whole cluster; see [`Settings`](crate::settings::Settings) for what each does.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoscalerConfig {
    /// `enable-scale-to-zero`.
    pub enable_scale_to_zero: bool,
    /// `max-scale-up-rate`.
    pub max_scale_up_rate: f64,
    /// `max-scale-down-rate`.
    pub max_scale_down_rate: f64,
    /// `container-concurrency-target-percentage`, as a fraction.
    pub container_concurrency_target_percentage: f64,
    /// `target-burst-capacity`.
    pub target_burst_capacity: f64,
    /// `stable-window`.
    pub stable_window: Duration,
    /// `panic-window-percentage`.
    pub panic_window_percentage: f64,
    /// `panic-threshold-percentage`.
    pub panic_threshold_percentage: f64,
    /// `activator-capacity`.
    pub activator_capacity: f64,
    /// `scale-down-delay`.
    pub scale_down_delay: Duration,
    /// `scale-to-zero-grace-period`.
    pub scale_to_zero_grace_period: Duration,
    /// `scale-to-zero-pod-retention-period`.
    pub scale_to_zero_pod_retention_period: Duration,
}

// === impl AutoscalerConfig ===

impl Default for AutoscalerConfig {
    fn default() -> Self {
        Self {
            enable_scale_to_zero: true,
            max_scale_up_rate: 1000.0,
            max_scale_down_rate: 2.0,
            container_concurrency_target_percentage: 0.7,
            target_burst_capacity: 211.0,
            stable_window: Duration::from_secs(60),
            panic_window_percentage: 10.0,
            panic_threshold_percentage: 200.0,
            activator_capacity: 100.0,
            scale_down_delay: Duration::ZERO,
            scale_to_zero_grace_period: Duration::from_secs(30),
            scale_to_zero_pod_retention_period: Duration::ZERO,
        }
    }
}

impl AutoscalerConfig {
    /// The configuration in a ConfigMap's `data`.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with key, value and bound.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let base = Self::default();
        let whole = |d: Duration| d.subsec_nanos() == 0;
        let mut c = Bounded::new(data, "");
        let config = Self {
            enable_scale_to_zero: c.boolean("enable-scale-to-zero").unwrap_or(base.enable_scale_to_zero),
            max_scale_up_rate: c
                .float("max-scale-up-rate", "above 1", |v| v > 1.0)
                .unwrap_or(base.max_scale_up_rate),
            max_scale_down_rate: c
                .float("max-scale-down-rate", "above 1", |v| v > 1.0)
                .unwrap_or(base.max_scale_down_rate),
            container_concurrency_target_percentage: c
                .float("container-concurrency-target-percentage", "above 0, at most 100", |v| {
                    v > 0.0 && v <= 100.0
                })
                // Knative reads values up to 1 as a fraction.
                .map_or(
                    base.container_concurrency_target_percentage,
                    |v| if v <= 1.0 { v } else { v / 100.0 },
                ),
            target_burst_capacity: c
                .float("target-burst-capacity", "0 or more, or -1", |v| v >= 0.0 || v == -1.0)
                .unwrap_or(base.target_burst_capacity),
            stable_window: c
                .duration("stable-window", "whole seconds from 6s to 1h", |d| {
                    (6..=3600).contains(&d.as_secs()) && d.as_secs_f64() <= 3600.0 && whole(d)
                })
                .unwrap_or(base.stable_window),
            panic_window_percentage: c
                .float("panic-window-percentage", "1 to 100", |v| (1.0..=100.0).contains(&v))
                .unwrap_or(base.panic_window_percentage),
            panic_threshold_percentage: c
                .float("panic-threshold-percentage", "above 0", |v| v > 0.0)
                .unwrap_or(base.panic_threshold_percentage),
            activator_capacity: c
                .float("activator-capacity", "1 or more", |v| v >= 1.0)
                .unwrap_or(base.activator_capacity),
            scale_down_delay: c
                .duration("scale-down-delay", "whole seconds", whole)
                .unwrap_or(base.scale_down_delay),
            scale_to_zero_grace_period: c
                .duration("scale-to-zero-grace-period", "longer than 0s", |d| d > Duration::ZERO)
                .unwrap_or(base.scale_to_zero_grace_period),
            scale_to_zero_pod_retention_period: c
                .duration("scale-to-zero-pod-retention-period", "0s or longer", |_| true)
                .unwrap_or(base.scale_to_zero_pod_retention_period),
        };
        let errors = c.into_errors();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn empty_data_is_the_default_and_fractions_are_percentages() {
        assert_eq!(AutoscalerConfig::parse(&data(&[])), Ok(AutoscalerConfig::default()));
        for percentage in ["70", "0.7"] {
            let config =
                AutoscalerConfig::parse(&data(&[("container-concurrency-target-percentage", percentage)]));
            assert_eq!(config, Ok(AutoscalerConfig::default()));
        }
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let errors = AutoscalerConfig::parse(&data(&[
            ("max-scale-up-rate", "1"),
            ("stable-window", "2h"),
            ("enable-scale-to-zero", "yes"),
            ("scale-to-zero-grace-period", "0s"),
        ]))
        .unwrap_err();
        assert_eq!(errors.len(), 4, "{errors:?}");
    }
}
