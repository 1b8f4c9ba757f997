//! What a workload is decided with: the cluster's configuration, overridden by the workload's annotations.
//!
//! Input: the ConfigMap `config-autoscaler` ([`AutoscalerConfig`](crate::settings::AutoscalerConfig)), the annotations of a
//! PodAutoscaler, and the sizes that its spec gives. Output: one [`Settings`] value for the collector, the decider and the
//! zero-scaler, each of which resolves it for itself with this function, so that they cannot disagree. Keys, defaults and
//! bounds are Knative's.
//!
//! What surprises: a bad annotation is left out and reported, and the cluster's value stays; two that are at odds are both left
//! out. Where a key has two forms (`min-scale`, and `minScale` of older Knatives) the one with hyphens counts. Two annotations
//! of Knative's mean nothing here and are only checked: `class`, because there is one autoscaler, and `http-full-duplex`,
//! because requests and responses always flow both ways at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bounds;
use super::config::AutoscalerConfig;
use super::reader::{self, SettingError, SettingReader, set};
use super::replica_bounds::{self, ReplicaBounds, SpecReplicaBounds};
use super::values::aggregation::Aggregation;
use super::values::reachability::Reachability;
use crate::contract::GROUP;
use crate::contract::metric_name::MetricName;
use crate::contract::quantity::parse_milli;

/// How long pods may take to become ready, unless the workload says otherwise.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(600);
/// Share of a pod's requests per second to aim for, unless the workload says otherwise. The cluster has no key for it.
const REQUESTS_PER_SECOND_UTILIZATION: f64 = 0.7;

/// Everything that tunes one workload's scaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Length of the stable window; also how long panic lasts after its last excess. 6 s to 1 h, whole seconds.
    pub stable_window: Duration,
    /// The panic window as a percentage of the stable one. 1 to 100.
    pub panic_window_percentage: f64,
    /// Panic starts when the panic window wants this percentage of the ready pods. A workload's own: 110 to 1000.
    pub panic_threshold_percentage: f64,
    /// What is measured, unless the spec says it.
    pub metric: Option<MetricName>,
    /// What one pod can carry in all, where the annotation `target` says it. 0.01 or more.
    pub target: Option<f64>,
    /// Fraction of a pod's capacity to aim for, where an annotation says it. [0.01, 1].
    pub target_utilization: Option<f64>,
    /// Fraction of a pod's concurrency to aim for otherwise. (0, 1].
    pub container_concurrency_target_percentage: f64,
    /// Requests at a time that a pod without a limit can carry in all.
    pub container_concurrency_target_default: f64,
    /// Requests per second that one pod can carry in all.
    pub requests_per_second_target_default: f64,
    /// Spare requests the ready pods should be able to take before the activator leaves the path; -1 keeps it there always.
    pub target_burst_capacity: f64,
    /// Requests that one activator can carry.
    pub activator_capacity: f64,
    /// Largest factor by which one decision may exceed the ready pods. Above 1.
    pub max_scale_up_rate: f64,
    /// Largest divisor by which one decision may go below the ready pods. Above 1.
    pub max_scale_down_rate: f64,
    /// Smallest size; 0 is no bound. At most `max_scale`, where that is a bound.
    pub min_scale: u32,
    /// Largest size; 0 is no bound.
    pub max_scale: u32,
    /// Size to be reached once, when the workload is new.
    pub initial_scale: u32,
    /// Smallest size when there is any load at all; 1 when not set. Between `min_scale` and `max_scale`.
    pub activation_scale: u32,
    /// How long a larger decision is held.
    pub scale_down_delay: Duration,
    /// How long the activator must have been in the path before the last pod goes.
    pub scale_to_zero_grace_period: Duration,
    /// How long the last pod is kept after the workload became idle.
    pub scale_to_zero_pod_retention_period: Duration,
    /// How long pods may take to become ready before they are given up. Whole seconds, above 0.
    pub progress_deadline: Duration,
    /// How long a request may wait for a pod; the activators' own time if not set. Whole seconds, 1 s to 1 h.
    pub wake_timeout: Option<Duration>,
    /// Requests that may wait for a pod in each activator; its own number if not set. 1 or more.
    pub wake_queue_depth: Option<u32>,
    /// How long a pod may be unable to start before requests are refused for it.
    pub start_patience: Duration,
    /// The same for a pod that fits on no node, which a new node may change.
    pub unschedulable_patience: Duration,
    /// Whether anything may go to zero in this cluster.
    pub enable_scale_to_zero: bool,
    /// Whether requests can come at all.
    pub reachability: Reachability,
    /// How the stable and panic averages weigh their seconds.
    pub aggregation: Aggregation,
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
        Self::resolve_given(config, annotations, SpecReplicaBounds::default())
    }

    /// As [`Settings::resolve`], for a workload whose spec gives some of its sizes: these rule over annotations.
    pub fn resolve_given(
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
        sizes: SpecReplicaBounds,
    ) -> (Self, Vec<SettingError>) {
        let prefix = format!("{GROUP}/");
        let mut a = SettingReader::new(annotations, &prefix);
        let mut settings = Self::of_cluster(config);
        settings.read_windows(&mut a);
        settings.read_target(&mut a);
        settings.read_zero(&mut a);
        settings.read_wake(&mut a);
        settings.set_sizes(&replica_bounds::resolve(&mut a, config, sizes));
        check_ignored(&mut a);
        (settings, a.into_errors())
    }

    /// What a workload without annotations has.
    fn of_cluster(config: &AutoscalerConfig) -> Self {
        Self {
            stable_window: config.stable_window,
            panic_window_percentage: config.panic_window_percentage,
            panic_threshold_percentage: config.panic_threshold_percentage,
            metric: None,
            target: None,
            target_utilization: None,
            container_concurrency_target_percentage: config.container_concurrency_target_percentage,
            container_concurrency_target_default: config.container_concurrency_target_default,
            requests_per_second_target_default: config.requests_per_second_target_default,
            target_burst_capacity: config.target_burst_capacity,
            activator_capacity: config.activator_capacity,
            max_scale_up_rate: config.max_scale_up_rate,
            max_scale_down_rate: config.max_scale_down_rate,
            min_scale: config.min_scale,
            max_scale: config.max_scale,
            initial_scale: config.initial_scale,
            activation_scale: 1,
            scale_down_delay: config.scale_down_delay,
            scale_to_zero_grace_period: config.scale_to_zero_grace_period,
            scale_to_zero_pod_retention_period: config.scale_to_zero_pod_retention_period,
            progress_deadline: PROGRESS_DEADLINE,
            wake_timeout: None,
            wake_queue_depth: None,
            start_patience: config.start_patience,
            unschedulable_patience: config.unschedulable_patience,
            enable_scale_to_zero: config.enable_scale_to_zero,
            reachability: Reachability::Reachable,
            aggregation: Aggregation::Linear,
        }
    }

    fn read_windows(&mut self, a: &mut SettingReader<'_>) {
        set(&mut self.stable_window, a.duration("window", &bounds::WINDOW));
        set(&mut self.panic_window_percentage, a.float("panic-window-percentage", &bounds::PERCENT));
        let threshold = a.float("panic-threshold-percentage", &bounds::PANIC_THRESHOLD);
        set(&mut self.panic_threshold_percentage, threshold);
        let delay = a.duration("scale-down-delay", &bounds::WHOLE_SECONDS_OF_AN_HOUR);
        set(&mut self.scale_down_delay, delay);
        set(
            &mut self.aggregation,
            a.read("metric-aggregation-algorithm", bounds::AGGREGATION, Aggregation::parse),
        );
    }

    fn read_target(&mut self, a: &mut SettingReader<'_>) {
        self.metric = a.read("metric", bounds::METRIC, |text| text.parse().ok());
        // Also as a quantity, which is how targets are written elsewhere.
        self.target = a.read("target", bounds::TARGET.words, |text| {
            let quantity = || parse_milli(text).ok().map(|milli| milli as f64 / 1000.0);
            reader::float(text).or_else(quantity).filter(|target| (bounds::TARGET.accepts)(*target))
        });
        let percentage = a.float("target-utilization-percentage", &bounds::PERCENT);
        self.target_utilization = percentage.map(|p| p / 100.0);
        set(&mut self.target_burst_capacity, a.float("target-burst-capacity", &bounds::BURST_CAPACITY));
    }

    fn read_zero(&mut self, a: &mut SettingReader<'_>) {
        let retention = a.duration("scale-to-zero-pod-retention-period", &bounds::WITHIN_AN_HOUR);
        set(&mut self.scale_to_zero_pod_retention_period, retention);
        set(&mut self.progress_deadline, a.duration("progress-deadline", &bounds::DEADLINE));
        set(&mut self.reachability, a.read("reachability", bounds::REACHABILITY, Reachability::parse));
    }

    fn read_wake(&mut self, a: &mut SettingReader<'_>) {
        self.wake_timeout = a.duration("wake-timeout", &bounds::WAKE_TIMEOUT);
        self.wake_queue_depth = a.integer("wake-queue-depth", &bounds::QUEUE_DEPTH);
        set(&mut self.start_patience, a.duration("start-patience", &bounds::WITHIN_AN_HOUR));
        set(&mut self.unschedulable_patience, a.duration("unschedulable-patience", &bounds::WITHIN_AN_HOUR));
    }

    fn set_sizes(&mut self, sizes: &ReplicaBounds) {
        self.min_scale = sizes.min;
        self.max_scale = sizes.max;
        self.initial_scale = sizes.initial;
        self.activation_scale = sizes.activation;
    }

    /// Fraction of what a pod can carry that it should carry.
    pub fn utilization(&self, metric: MetricName) -> f64 {
        self.target_utilization.unwrap_or(match metric {
            MetricName::Concurrency => self.container_concurrency_target_percentage,
            MetricName::RequestsPerSecond => REQUESTS_PER_SECOND_UTILIZATION,
        })
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

/// What means nothing here must still make sense, so that a slip does not go unseen.
fn check_ignored(a: &mut SettingReader<'_>) {
    a.read("class", bounds::CLASS, |text| {
        let known = matches!(text, "kpa.autoscaling.knative.dev" | "hpa.autoscaling.knative.dev");
        (known || !text.ends_with(".knative.dev")).then_some(())
    });
    a.read("http-full-duplex", bounds::FULL_DUPLEX, |text| {
        ["enabled", "disabled"].iter().any(|word| text.eq_ignore_ascii_case(word)).then_some(())
    });
}

#[cfg(test)]
mod tests;
