//! Cluster-wide settings: the ConfigMap `config-autoscaler`.
//!
//! Keys, defaults and bounds are Knative's, plus two keys for pods that cannot start and two
//! for the learned target. metrics-adapter and zero-scaler watch the ConfigMap. One invalid key
//! rejects the whole ConfigMap, because its other values may depend on that key. The last valid
//! ConfigMap then stays in effect.
//!
//! Unrecognized keys are ignored, as in Knative. The panic window is at least one bucket (1 s), as in
//! Knative.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bounds::{self, LEARNING_FACTOR_DEFAULT, LEAST_TARGET};
use super::reader::{SettingError, SettingReader, set};
use super::values::burst_capacity::BurstCapacity;
use super::values::learn_target::LearnTarget;

/// Cluster-wide settings. [`Settings`](crate::settings::Settings) documents their effects.
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
    pub target_burst_capacity: BurstCapacity,
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
    /// `max-scale-limit`: the largest `max-scale` that a workload may set; 0 is no limit.
    pub max_scale_limit: u32,
    /// `scale-down-delay`.
    pub scale_down_delay: Duration,
    /// `scale-to-zero-grace-period`.
    pub scale_to_zero_grace_period: Duration,
    /// `scale-to-zero-pod-retention-period`.
    pub scale_to_zero_pod_retention_period: Duration,
    /// `start-patience`; not a key of Knative.
    pub start_patience: Duration,
    /// `unschedulable-patience`; not a key of Knative.
    pub unschedulable_patience: Duration,
    /// `learn-target`; not a key of Knative.
    pub learn_target: LearnTarget,
    /// `learn-target-factor`; not a key of Knative.
    pub learning_factor: f64,
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
            target_burst_capacity: BurstCapacity::default(),
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
            // Longer than a first image pull or a transient crash, shorter than client timeouts.
            start_patience: Duration::from_secs(10),
            // About the time that a new node takes. Requests that wait for a node also need a
            // longer wake timeout.
            unschedulable_patience: Duration::from_secs(60),
            learn_target: LearnTarget::default(),
            learning_factor: LEARNING_FACTOR_DEFAULT,
        }
    }
}

impl AutoscalerConfig {
    /// Parses the `data` of a ConfigMap.
    ///
    /// # Errors
    /// All errors at once, each with key, value and bound.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let mut config = Self::default();
        let mut c = SettingReader::new(data, "");
        config.read_zero(&mut c);
        config.read_targets(&mut c);
        config.read_learning(&mut c);
        config.read_panic(&mut c);
        config.read_rates(&mut c);
        config.read_scales(&mut c);
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
        // As in Knative, a value up to 1 is a fraction. So 1 means 100 percent.
        let fraction = percentage.map(|p| if p > 1.0 { p / 100.0 } else { p });
        set(&mut self.container_concurrency_target_percentage, fraction);
        let concurrency = c.float("container-concurrency-target-default", &bounds::POSITIVE);
        set(&mut self.container_concurrency_target_default, concurrency);
        let requests = c.float("requests-per-second-target-default", &bounds::TARGET);
        set(&mut self.requests_per_second_target_default, requests);
        let burst = c.float("target-burst-capacity", &bounds::BURST_CAPACITY);
        set(&mut self.target_burst_capacity, burst.map(BurstCapacity::from));
        set(&mut self.activator_capacity, c.float("activator-capacity", &bounds::ONE_OR_MORE));
    }

    fn read_learning(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.learn_target, c.read("learn-target", bounds::LEARN_TARGET, LearnTarget::parse));
        set(&mut self.learning_factor, c.float("learn-target-factor", &bounds::LEARNING_FACTOR));
    }

    fn read_panic(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.stable_window, c.duration("stable-window", &bounds::WINDOW));
        set(&mut self.panic_window_percentage, c.float("panic-window-percentage", &bounds::PERCENT));
        set(&mut self.panic_threshold_percentage, c.float("panic-threshold-percentage", &bounds::POSITIVE));
    }

    fn read_rates(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.max_scale_up_rate, c.float("max-scale-up-rate", &bounds::RATE));
        set(&mut self.max_scale_down_rate, c.float("max-scale-down-rate", &bounds::RATE));
        set(&mut self.scale_down_delay, c.duration("scale-down-delay", &bounds::WHOLE_SECONDS));
    }

    fn read_scales(&mut self, c: &mut SettingReader<'_>) {
        set(&mut self.allow_zero_initial_scale, c.boolean("allow-zero-initial-scale"));
        set(&mut self.initial_scale, c.integer("initial-scale", &bounds::SIZE));
        set(&mut self.min_scale, c.integer("min-scale", &bounds::SIZE));
        set(&mut self.max_scale, c.integer("max-scale", &bounds::SIZE));
        set(&mut self.max_scale_limit, c.integer("max-scale-limit", &bounds::SIZE));
    }

    // The checks below compare two settings. A setting that failed to parse has its default here,
    // so a check skips it where the default could cause a second, misleading error.

    fn check_least_target(&self, c: &mut SettingReader<'_>) {
        let (share, whole) =
            ("container-concurrency-target-percentage", "container-concurrency-target-default");
        let target = self.container_concurrency_target_percentage * self.container_concurrency_target_default;
        if target >= LEAST_TARGET || c.has_error(share) || c.has_error(whole) {
            return;
        }
        let percentage = c.text_or(share, 70);
        let words = format!("at least {LEAST_TARGET} after multiplication by {share}, which is {percentage}");
        c.push_error(SettingError::new(whole, c.text_or(whole, 100), words));
    }

    fn check_initial_scale(&self, c: &mut SettingReader<'_>) {
        let (initial, allow) = ("initial-scale", "allow-zero-initial-scale");
        if self.initial_scale > 0 || self.allow_zero_initial_scale || c.has_error(allow) {
            return;
        }
        c.push_error(SettingError::new(initial, 0, format!("1 or more while {allow} is false")));
    }

    fn check_max_scale(&self, c: &mut SettingReader<'_>) {
        let (max, limit) = ("max-scale", "max-scale-limit");
        if self.max_scale_limit == 0 || c.has_error(max) {
            return;
        }
        if !(1..=self.max_scale_limit).contains(&self.max_scale) {
            let words = format!("from 1 to {limit}, which is {}", self.max_scale_limit);
            c.push_error(SettingError::new(max, self.max_scale, words));
        }
    }

    fn check_min_scale(&self, c: &mut SettingReader<'_>) {
        let (min, max) = ("min-scale", "max-scale");
        if self.max_scale == 0 || self.min_scale <= self.max_scale {
            return;
        }
        let words = format!("at most {max}, which is {}", self.max_scale);
        c.push_error(SettingError::new(min, self.min_scale, words));
    }
}

#[cfg(test)]
pub(crate) mod tests;
