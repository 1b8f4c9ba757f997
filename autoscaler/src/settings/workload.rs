//! Settings of one workload: the ConfigMap, overridden by the workload's annotations.
//!
//! Input: [`AutoscalerConfig`](crate::settings::AutoscalerConfig), the annotations of a
//! PodAutoscaler, and the replica bounds of its spec. Output: one [`Settings`] value for collector,
//! decider and zero-scaler, which all resolve it with the same function. Keys, defaults and bounds
//! are Knative's.
//!
//! An invalid annotation is reported and ignored; the value of the ConfigMap stays in effect. Of
//! two annotations in conflict, both are ignored.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bounds;
use super::config::AutoscalerConfig;
use super::reader::{self, SettingError, SettingReader, set};
use super::replica_bounds::{self, ReplicaBounds, SpecReplicaBounds};
use super::values::aggregation::Aggregation;
use super::values::burst_capacity::BurstCapacity;
use super::values::latency_objective::LatencyObjective;
use super::values::learn_target::LearnTarget;
use super::values::no_wake::NoWakeRules;
use super::values::no_wake_response::NoWakeResponse;
use super::values::reachability::Reachability;
use super::values::schedule::{Schedule, ScheduledMinimum};
use super::values::sidecar_mode::SidecarMode;
use crate::contract::metric_name::MetricName;
use crate::contract::quantity::parse_milli;
use crate::contract::selector::Selector;
use crate::contract::{GROUP, NO_METRIC};

/// Default of `progress-deadline`.
const PROGRESS_DEADLINE: Duration = Duration::from_secs(600);
/// Default of `timeout` and `response-start-timeout`, which is the queue-proxy's.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// Default target utilization for requests per second. Knative's ConfigMap has no key for it.
const REQUESTS_PER_SECOND_UTILIZATION: f64 = 0.7;

/// Scaling settings of one workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Length of the stable window; also how long a panic lasts after its last burst. 6 s to 1 h,
    /// whole seconds.
    pub stable_window: Duration,
    /// Length of the panic window as a percentage of the stable window. 1 to 100.
    pub panic_window_percentage: f64,
    /// Panic starts when the panic window needs this percentage of the ready pods. As an
    /// annotation: 110 to 1000.
    pub panic_threshold_percentage: f64,
    /// Metric of the annotation. `spec.metric` takes precedence.
    pub metric: Option<MetricName>,
    /// Capacity of one pod, from the annotation `target`. 0.01 or more.
    pub target: Option<f64>,
    /// Target utilization as a fraction, from its annotation. [0.01, 1].
    pub target_utilization: Option<f64>,
    /// Default target utilization for concurrency, as a fraction. (0, 1].
    pub container_concurrency_target_percentage: f64,
    /// Capacity of a pod without a container concurrency, in concurrent requests.
    pub container_concurrency_target_default: f64,
    /// Default capacity of a pod, in requests per second.
    pub requests_per_second_target_default: f64,
    /// Spare requests the ready pods should be able to take before the activator leaves the path;
    /// -1 keeps it there always.
    pub target_burst_capacity: BurstCapacity,
    /// Capacity of one activator, in concurrent requests.
    pub activator_capacity: f64,
    /// Largest factor by which one decision may exceed the ready pods. Above 1.
    pub max_scale_up_rate: f64,
    /// Largest divisor by which one decision may go below the ready pods. Above 1.
    pub max_scale_down_rate: f64,
    /// Minimum replicas above zero; 0 is no bound. At most `max_scale`, unless that is 0.
    pub min_scale: u32,
    /// Maximum replicas; 0 is no bound.
    pub max_scale: u32,
    /// Replicas that a new workload must reach once.
    pub initial_scale: u32,
    /// Minimum replicas under any load; 1 by default, else between `min_scale` and `max_scale`.
    pub activation_scale: u32,
    /// How long the largest decision is held before a smaller one takes effect.
    pub scale_down_delay: Duration,
    /// How long activators must have been in the path before the last pod is removed.
    pub scale_to_zero_grace_period: Duration,
    /// How long the last pod is kept after the workload has become inactive.
    pub scale_to_zero_pod_retention_period: Duration,
    /// How long pods may take to become ready before the workload returns to zero. Whole seconds,
    /// above 0.
    pub progress_deadline: Duration,
    /// How long activators hold a request; `None` for the flag of the activators. Whole seconds,
    /// 1 s to 1 h.
    pub wake_timeout: Option<Duration>,
    /// Requests that each activator may hold; `None` for the flag of the activators. 1 or more.
    pub wake_queue_depth: Option<u32>,
    /// Longest time of a request without a sidecar, from when it is sent to a pod to the end of its
    /// response; 0 is none. At most 24 h, as the next two.
    pub timeout: Duration,
    /// Longest time until the app begins its response, without a sidecar; 0 is none.
    pub response_start_timeout: Duration,
    /// Longest time without a byte in either direction, without a sidecar; 0 is none.
    pub idle_timeout: Duration,
    /// How long pods may fail to start before activators reject requests.
    pub start_patience: Duration,
    /// `start_patience` for pods that fit on no node, as a new node may be starting, and for pods
    /// on a node that does not respond.
    pub unschedulable_patience: Duration,
    /// Whether any workload of the cluster may be scaled to zero.
    pub enable_scale_to_zero: bool,
    /// Whether requests can reach the workload.
    pub reachability: Reachability,
    /// Weighting of the seconds in stable and panic averages.
    pub aggregation: Aggregation,
    /// What happens with the learned concurrency target.
    pub learn_target: LearnTarget,
    /// The latency objective that the learned target keeps; without one the target is at the knee
    /// of the load curve.
    pub latency_objective: Option<LatencyObjective>,
    /// Largest factor between the user's target and the learned one, either way. 1 to 16.
    pub learning_factor: f64,
    /// Whether pods have a queue-proxy, by the annotation. `spec.sidecar` takes precedence.
    pub sidecar: SidecarMode,
    /// Labels of the pods of a Service without selector, by the annotation. `spec.selector` takes
    /// precedence.
    pub selector: Option<Selector>,
    /// Requests that neither wake the workload nor count as load, by the annotation.
    /// `spec.noWake` takes precedence.
    pub no_wake: NoWakeRules,
    /// What these requests get while there is no pod.
    pub no_wake_response: NoWakeResponse,
    /// Whether browsers get a page while there is no pod, by the annotation. `spec.waitingPage` takes
    /// precedence.
    pub waiting_page: bool,
    /// Smallest size by time, by the annotation. `spec.schedule` takes precedence. See
    /// [`Settings::schedule_in_force`].
    pub schedule: Option<Schedule>,
}

// === impl Settings ===

impl Settings {
    /// Resolves the settings of a workload with these annotations, and returns all errors.
    ///
    /// An invalid value is ignored: the value of the ConfigMap stays in effect. The caller must
    /// report the errors to the user.
    pub fn resolve(
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
    ) -> (Self, Vec<SettingError>) {
        Self::resolve_given(config, annotations, SpecReplicaBounds::default())
    }

    /// [`Settings::resolve`] with replica bounds of the spec, which take precedence over
    /// annotations.
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
        settings.read_learning(&mut a);
        settings.read_zero(&mut a);
        settings.read_wake(&mut a);
        settings.read_timeouts(&mut a);
        set(&mut settings.sidecar, a.read("sidecar", bounds::SIDECAR, SidecarMode::parse));
        settings.selector = a.read("selector", bounds::SELECTOR, Selector::parse_labels);
        settings.schedule = a.read("schedule", bounds::SCHEDULE, Schedule::parse);
        settings.set_sizes(&replica_bounds::resolve(&mut a, config, sizes));
        (settings, a.into_errors())
    }

    /// Settings of a workload without annotations.
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
            timeout: REQUEST_TIMEOUT,
            response_start_timeout: REQUEST_TIMEOUT,
            idle_timeout: Duration::ZERO,
            start_patience: config.start_patience,
            unschedulable_patience: config.unschedulable_patience,
            enable_scale_to_zero: config.enable_scale_to_zero,
            reachability: Reachability::Reachable,
            aggregation: Aggregation::Linear,
            learn_target: config.learn_target,
            latency_objective: None,
            learning_factor: config.learning_factor,
            sidecar: SidecarMode::Required,
            selector: None,
            no_wake: NoWakeRules::default(),
            no_wake_response: NoWakeResponse::default(),
            waiting_page: false,
            schedule: None,
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
        // Without a metric on which the HPA scales, concurrency shows whether the workload is idle.
        let metric = |text: &str| if text == NO_METRIC { Some(None) } else { text.parse().ok().map(Some) };
        self.metric = a.read("metric", bounds::METRIC, metric).flatten();
        // A quantity is accepted as well, as in specs of HPAs.
        self.target = a.read("target", bounds::TARGET.words, |text| {
            let quantity = || parse_milli(text).ok().map(|milli| milli as f64 / 1000.0);
            reader::float(text).or_else(quantity).filter(|target| (bounds::TARGET.accepts)(*target))
        });
        let percentage = a.float("target-utilization-percentage", &bounds::PERCENT);
        self.target_utilization = percentage.map(|p| p / 100.0);
        let burst = a.float("target-burst-capacity", &bounds::BURST_CAPACITY);
        set(&mut self.target_burst_capacity, burst.map(BurstCapacity::from));
    }

    fn read_learning(&mut self, a: &mut SettingReader<'_>) {
        set(&mut self.learn_target, a.read("learn-target", bounds::LEARN_TARGET, LearnTarget::parse));
        self.latency_objective =
            a.read("latency-objective", bounds::LATENCY_OBJECTIVE, LatencyObjective::parse);
        set(&mut self.learning_factor, a.float("learn-target-factor", &bounds::LEARNING_FACTOR));
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
        set(&mut self.no_wake, a.read("no-wake", bounds::NO_WAKE, NoWakeRules::parse));
        let response = a.read("no-wake-response", bounds::NO_WAKE_RESPONSE, NoWakeResponse::parse);
        set(&mut self.no_wake_response, response);
        set(&mut self.waiting_page, a.boolean("waiting-page"));
    }

    fn read_timeouts(&mut self, a: &mut SettingReader<'_>) {
        set(&mut self.timeout, a.duration("timeout", &bounds::REQUEST_TIMEOUT));
        let start = a.duration("response-start-timeout", &bounds::REQUEST_TIMEOUT);
        set(&mut self.response_start_timeout, start);
        set(&mut self.idle_timeout, a.duration("idle-timeout", &bounds::REQUEST_TIMEOUT));
    }

    fn set_sizes(&mut self, sizes: &ReplicaBounds) {
        self.min_scale = sizes.min;
        self.max_scale = sizes.max;
        self.initial_scale = sizes.initial;
        self.activation_scale = sizes.activation;
    }

    /// Target utilization: the fraction of a pod's capacity that is used as the target.
    pub fn utilization(&self, metric: MetricName) -> f64 {
        self.target_utilization.unwrap_or(match metric {
            MetricName::Concurrency => self.container_concurrency_target_percentage,
            MetricName::RequestsPerSecond => REQUESTS_PER_SECOND_UTILIZATION,
        })
    }

    /// Applies whether the pods have a queue-proxy: without one, activators limit and count, so they
    /// stay in the request path.
    pub fn apply_sidecar_mode(&mut self, mode: SidecarMode) {
        if !mode.is_required() {
            self.target_burst_capacity = BurstCapacity::Always;
        }
    }

    /// The schedule within the largest size; `None` for an unreachable workload, which has no smallest
    /// size either.
    pub fn schedule_in_force(&self) -> Option<Schedule> {
        let schedule = self.schedule.as_ref().filter(|_| self.reachability.is_reachable())?;
        Some(schedule.at_most(self.max_scale))
    }

    /// Raises the smallest size to that of the schedule at `now`, in Unix milliseconds, which is
    /// returned.
    pub fn apply_schedule(&mut self, now: i64) -> Option<ScheduledMinimum> {
        let scheduled = self.schedule_in_force()?.at(now);
        self.min_scale = self.min_scale.max(scheduled.minimum);
        Some(scheduled)
    }

    /// Whether a target of this metric is learned. Only concurrency shows how full a pod is.
    pub fn learns(&self, metric: MetricName) -> bool {
        self.learn_target != LearnTarget::Off && metric == MetricName::Concurrency
    }

    /// Length of the panic window, rounded to whole seconds, at least 1 s.
    ///
    /// As in Knative, the length is truncated to whole nanoseconds before it is rounded to seconds.
    /// This changes results near half a second.
    pub fn panic_window(&self) -> Duration {
        let share = self.stable_window.as_nanos() as f64 * self.panic_window_percentage / 100.0;
        // `as` truncates and saturates.
        let truncated = Duration::from_nanos(share as u64);
        let half_a_second = u64::from(truncated.subsec_millis() >= 500);
        Duration::from_secs((truncated.as_secs() + half_a_second).max(1))
    }
}

#[cfg(test)]
mod tests;
