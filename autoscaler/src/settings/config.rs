//! The cluster-wide settings: ConfigMap `config-autoscaler`, with Knative's keys, defaults and bounds, and two
//! of our own for pods that cannot start.
//!
//! Read by the metrics-adapter and the zero-scaler, which watch the ConfigMap and keep the last good value when a new one is
//! bad: one bad key is enough, because the others may have been written to go with it.
//!
//! `pod-autoscaler-class` may hold anything and means nothing here, as in Knative any other class than its own two does: there is
//! one autoscaler. Keys that nobody knows are ignored too, such as `tick-interval` and `panic-window`, which Knative no longer
//! has. The panic window cannot come out shorter than a bucket, 1 s: it is raised to that, as Knative does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bounds::{self, LEAST_TARGET};
use super::reader::{SettingError, SettingReader, set};

/// Settings of the whole cluster; see [`Settings`](crate::settings::Settings) for what each does.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoscalerConfig {
    /// `enable-scale-to-zero`.
    pub enable_scale_to_zero: bool,
    /// `allow-zero-initial-scale`: whether `initial-scale` may be 0.
    pub allow_zero_initial_scale: bool,
    /// `max-scale-up-rate`.
    pub max_scale_up_rate: f64,
    /// `max-scale-down-rate`.
    pub max_scale_down_rate: f64,
    /// `container-concurrency-target-percentage`, as a fraction.
    pub container_concurrency_target_percentage: f64,
    /// `container-concurrency-target-default`.
    pub container_concurrency_target_default: f64,
    /// `requests-per-second-target-default`.
    pub requests_per_second_target_default: f64,
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
    /// `initial-scale`.
    pub initial_scale: u32,
    /// `min-scale`; 0 is no bound.
    pub min_scale: u32,
    /// `max-scale`; 0 is no bound.
    pub max_scale: u32,
    /// `max-scale-limit`: the largest `max-scale` that a workload may ask for; 0 is no limit.
    pub max_scale_limit: u32,
    /// `scale-down-delay`.
    pub scale_down_delay: Duration,
    /// `scale-to-zero-grace-period`.
    pub scale_to_zero_grace_period: Duration,
    /// `scale-to-zero-pod-retention-period`.
    pub scale_to_zero_pod_retention_period: Duration,
    /// `start-patience`: Rouse's own.
    pub start_patience: Duration,
    /// `unschedulable-patience`: Rouse's own.
    pub unschedulable_patience: Duration,
}

// === impl AutoscalerConfig ===

impl Default for AutoscalerConfig {
    fn default() -> Self {
        Self {
            enable_scale_to_zero: true,
            allow_zero_initial_scale: false,
            max_scale_up_rate: 1000.0,
            max_scale_down_rate: 2.0,
            container_concurrency_target_percentage: 0.7,
            container_concurrency_target_default: 100.0,
            requests_per_second_target_default: 200.0,
            target_burst_capacity: 211.0,
            stable_window: Duration::from_secs(60),
            panic_window_percentage: 10.0,
            panic_threshold_percentage: 200.0,
            activator_capacity: 100.0,
            initial_scale: 1,
            min_scale: 0,
            max_scale: 0,
            max_scale_limit: 0,
            scale_down_delay: Duration::ZERO,
            scale_to_zero_grace_period: Duration::from_secs(30),
            scale_to_zero_pod_retention_period: Duration::ZERO,
            // Longer than a first pull or a first crash that passes, shorter than callers wait.
            start_patience: Duration::from_secs(10),
            // A new node takes about that; whoever waits for one sets a longer wake timeout as well.
            unschedulable_patience: Duration::from_secs(60),
        }
    }
}

impl AutoscalerConfig {
    /// The configuration in a ConfigMap's `data`.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with key, value and bound.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let mut config = Self::default();
        let mut c = SettingReader::new(data, "");
        config.read_zero(&mut c);
        config.read_targets(&mut c);
        config.read_panic(&mut c);
        config.read_pace(&mut c);
        config.read_sizes(&mut c);
        config.check_least_target(&mut c);
        config.check_initial_scale(&mut c);
        config.check_max_scale(&mut c);
        config.check_min_scale(&mut c);
        let errors = c.into_errors();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    fn read_zero(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.enable_scale_to_zero, c.boolean("enable-scale-to-zero"));
        let grace = c.duration("scale-to-zero-grace-period", &bounds::LONGER_THAN_NOTHING);
        set(&mut self.scale_to_zero_grace_period, grace);
        let retention = c.duration("scale-to-zero-pod-retention-period", &bounds::NOT_NEGATIVE);
        set(&mut self.scale_to_zero_pod_retention_period, retention);
        set(&mut self.start_patience, c.duration("start-patience", &bounds::WITHIN_AN_HOUR));
        set(&mut self.unschedulable_patience, c.duration("unschedulable-patience", &bounds::WITHIN_AN_HOUR));
    }

    fn read_targets(&mut self, c: &mut SettingReader<'_>) {
        let percentage = c.float("container-concurrency-target-percentage", &bounds::PERCENT_OR_FRACTION);
        // Knative takes what is not above 1 for a fraction, and so 1 for the whole.
        let fraction = percentage.map(|p| if p > 1.0 { p / 100.0 } else { p });
        set(&mut self.container_concurrency_target_percentage, fraction);
        let concurrency = c.float("container-concurrency-target-default", &bounds::POSITIVE);
        set(&mut self.container_concurrency_target_default, concurrency);
        let requests = c.float("requests-per-second-target-default", &bounds::TARGET);
        set(&mut self.requests_per_second_target_default, requests);
        let burst = c.float("target-burst-capacity", &bounds::BURST_CAPACITY);
        set(&mut self.target_burst_capacity, burst);
        set(&mut self.activator_capacity, c.float("activator-capacity", &bounds::ONE_OR_MORE));
    }

    fn read_panic(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.stable_window, c.duration("stable-window", &bounds::WINDOW));
        set(&mut self.panic_window_percentage, c.float("panic-window-percentage", &bounds::PERCENT));
        set(&mut self.panic_threshold_percentage, c.float("panic-threshold-percentage", &bounds::POSITIVE));
    }

    fn read_pace(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.max_scale_up_rate, c.float("max-scale-up-rate", &bounds::RATE));
        set(&mut self.max_scale_down_rate, c.float("max-scale-down-rate", &bounds::RATE));
        set(&mut self.scale_down_delay, c.duration("scale-down-delay", &bounds::WHOLE_SECONDS));
    }

    fn read_sizes(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.allow_zero_initial_scale, c.boolean("allow-zero-initial-scale"));
        set(&mut self.initial_scale, c.integer("initial-scale", &bounds::SIZE));
        set(&mut self.min_scale, c.integer("min-scale", &bounds::SIZE));
        set(&mut self.max_scale, c.integer("max-scale", &bounds::SIZE));
        set(&mut self.max_scale_limit, c.integer("max-scale-limit", &bounds::SIZE));
    }

    // What was bad by itself has its default here. Where that is in order with anything, nothing need be asked about it.

    fn check_least_target(&self, c: &mut SettingReader<'_>) {
        let (share, whole) =
            ("container-concurrency-target-percentage", "container-concurrency-target-default");
        let target = self.container_concurrency_target_percentage * self.container_concurrency_target_default;
        if target >= LEAST_TARGET || c.is_bad(share) || c.is_bad(whole) {
            return;
        }
        let percentage = c.said(share, 70);
        let words = format!("at least {LEAST_TARGET} when {share}, which is {percentage}, is taken of it");
        c.refuse(SettingError::new(whole, c.said(whole, 100), words));
    }

    fn check_initial_scale(&self, c: &mut SettingReader<'_>) {
        let (initial, allow) = ("initial-scale", "allow-zero-initial-scale");
        if self.initial_scale > 0 || self.allow_zero_initial_scale || c.is_bad(allow) {
            return;
        }
        c.refuse(SettingError::new(initial, 0, format!("1 or more while {allow} is false")));
    }

    fn check_max_scale(&self, c: &mut SettingReader<'_>) {
        let (max, limit) = ("max-scale", "max-scale-limit");
        if self.max_scale_limit == 0 || c.is_bad(max) {
            return;
        }
        if !(1..=self.max_scale_limit).contains(&self.max_scale) {
            let words = format!("from 1 to {limit}, which is {}", self.max_scale_limit);
            c.refuse(SettingError::new(max, self.max_scale, words));
        }
    }

    fn check_min_scale(&self, c: &mut SettingReader<'_>) {
        let (min, max) = ("min-scale", "max-scale");
        if self.max_scale == 0 || self.min_scale <= self.max_scale {
            return;
        }
        let words = format!("at most {max}, which is {}", self.max_scale);
        c.refuse(SettingError::new(min, self.min_scale, words));
    }
}

#[cfg(test)]
pub(crate) mod tests;
