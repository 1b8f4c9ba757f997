//! Table of all settings, from which the reference page is generated.
//!
//! Bounds are the constants of the parser. Tests compare keys, defaults and bounds with the parser.

use super::bounds;

/// An entry of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingReference {
    /// Key in the ConfigMap `config-autoscaler`, for the cluster.
    pub config_map_key: Option<&'static str>,
    /// Annotation without its prefix `autoscaling.rouse.dev/`, for one workload.
    pub annotation: Option<&'static str>,
    /// Default value; `None` if it depends on another setting, which the description then names.
    pub default: Option<&'static str>,
    /// Accepted values in the ConfigMap; empty without a key.
    pub config_map_bounds: &'static str,
    /// Accepted values of the annotation; empty without an annotation.
    pub annotation_bounds: &'static str,
    /// Effect of the setting.
    pub description: &'static str,
}

/// All settings of the ConfigMap and of annotations, grouped by subject.
pub fn reference() -> &'static [SettingReference] {
    &TABLE
}

/// A setting with key and annotation of the same bounds.
const fn both(
    config_map_key: &'static str,
    annotation: &'static str,
    default: &'static str,
    bounds: &'static str,
    description: &'static str,
) -> SettingReference {
    each(config_map_key, annotation, default, bounds, bounds, description)
}

/// A setting with key and annotation of different bounds.
const fn each(
    config_map_key: &'static str,
    annotation: &'static str,
    default: &'static str,
    config_map_bounds: &'static str,
    annotation_bounds: &'static str,
    description: &'static str,
) -> SettingReference {
    SettingReference {
        config_map_key: Some(config_map_key),
        annotation: Some(annotation),
        default: Some(default),
        config_map_bounds,
        annotation_bounds,
        description,
    }
}

/// A setting without an annotation.
const fn cluster(
    config_map_key: &'static str,
    default: &'static str,
    config_map_bounds: &'static str,
    description: &'static str,
) -> SettingReference {
    SettingReference {
        config_map_key: Some(config_map_key),
        annotation: None,
        default: Some(default),
        config_map_bounds,
        annotation_bounds: "",
        description,
    }
}

/// A setting without a key in the ConfigMap.
const fn workload(
    annotation: &'static str,
    default: Option<&'static str>,
    annotation_bounds: &'static str,
    description: &'static str,
) -> SettingReference {
    SettingReference {
        config_map_key: None,
        annotation: Some(annotation),
        default,
        config_map_bounds: "",
        annotation_bounds,
        description,
    }
}

const TABLE: [SettingReference; 42] = [
    // Windows and panic.
    both(
        "stable-window",
        "window",
        "60s",
        bounds::WINDOW.words,
        "Length of the stable window: the time over which load is averaged, and the time that a panic lasts after the last \
         burst.",
    ),
    both(
        "panic-window-percentage",
        "panic-window-percentage",
        "10",
        bounds::PERCENT.words,
        "Length of the panic window, in percent of the stable window; at least 1 s.",
    ),
    each(
        "panic-threshold-percentage",
        "panic-threshold-percentage",
        "200",
        bounds::POSITIVE.words,
        bounds::PANIC_THRESHOLD.words,
        "Panic starts when the panic window needs this percentage of the ready pods; decisions do not fall during a panic.",
    ),
    workload(
        "metric-aggregation-algorithm",
        Some("linear"),
        bounds::AGGREGATION,
        "Weighting of the seconds of a window: all the same, or more for newer seconds.",
    ),
    // Metric and target.
    workload(
        "metric",
        Some("concurrency"),
        bounds::METRIC,
        "The metric that the workload is scaled on. none: the HPA scales on its own metrics, such as CPU, and Rouse only \
         wakes the workload and scales it to zero.",
    ),
    workload(
        "target",
        None,
        bounds::TARGET.words,
        "Capacity of one pod, in units of the metric. Default: the container concurrency, else the target default of the \
         cluster.",
    ),
    workload(
        "target-utilization-percentage",
        None,
        bounds::PERCENT.words,
        "Target utilization: the percentage of a pod's capacity that is used as the target. Default: \
         container-concurrency-target-percentage for concurrency, 70 for requests-per-second.",
    ),
    cluster(
        "container-concurrency-target-percentage",
        "70",
        bounds::PERCENT_OR_FRACTION.words,
        "Target utilization for concurrency, in percent, or as a fraction up to 1.",
    ),
    cluster(
        "container-concurrency-target-default",
        "100",
        bounds::POSITIVE.words,
        "Capacity of a pod without a container concurrency, in concurrent requests.",
    ),
    cluster(
        "requests-per-second-target-default",
        "200",
        bounds::TARGET.words,
        "Capacity of a pod, in requests per second.",
    ),
    both(
        "target-burst-capacity",
        "target-burst-capacity",
        "211",
        bounds::BURST_CAPACITY.words,
        "Additional requests that the ready pods must be able to serve before activators leave the request path. -1 keeps \
         activators in the path always, 0 only while no pod is ready.",
    ),
    cluster(
        "activator-capacity",
        "100",
        bounds::ONE_OR_MORE.words,
        "Capacity of one activator, in concurrent requests; determines how many activators serve a workload.",
    ),
    // The learned target.
    both(
        "learn-target",
        "learn-target",
        "Recommend",
        bounds::LEARN_TARGET,
        "What happens with the learned concurrency target: none is learned, it is reported in the status, or it is in \
         force.",
    ),
    workload(
        "latency-objective",
        None,
        bounds::LATENCY_OBJECTIVE,
        "Time in the app that this percentile of the requests may take. The learned target keeps it; without an objective \
         it is the load above which requests wait for each other.",
    ),
    both(
        "learn-target-factor",
        "learn-target-factor",
        "4",
        bounds::LEARNING_FACTOR.words,
        "The learned target is at least the user's divided by this factor, and at most the user's times this factor.",
    ),
    // Rates.
    cluster(
        "max-scale-up-rate",
        "1000",
        bounds::RATE.words,
        "Largest factor by which one decision may exceed the ready pods.",
    ),
    cluster(
        "max-scale-down-rate",
        "2",
        bounds::RATE.words,
        "Largest divisor by which one decision may go below the ready pods.",
    ),
    each(
        "scale-down-delay",
        "scale-down-delay",
        "0s",
        bounds::WHOLE_SECONDS.words,
        bounds::WHOLE_SECONDS_OF_AN_HOUR.words,
        "How long a larger decision is held before a smaller one takes effect.",
    ),
    // Sizes.
    both(
        "min-scale",
        "min-scale",
        "0",
        bounds::SIZE.words,
        "Smallest number of pods above zero; 0 is no bound. minReplicas of the HPA or PodAutoscaler overrides it.",
    ),
    both(
        "max-scale",
        "max-scale",
        "0",
        bounds::SIZE.words,
        "Largest number of pods; 0 is no bound. maxReplicas of the HPA or PodAutoscaler overrides it.",
    ),
    cluster(
        "max-scale-limit",
        "0",
        bounds::SIZE.words,
        "Largest max-scale that a workload may set; 0 is no limit. With a limit, max-scale must be set.",
    ),
    both(
        "initial-scale",
        "initial-scale",
        "1",
        bounds::SIZE.words,
        "Pods that a new workload must reach once before it is scaled down. 0 needs allow-zero-initial-scale.",
    ),
    cluster(
        "allow-zero-initial-scale",
        "false",
        bounds::BOOLEAN,
        "Whether initial-scale may be 0, so that a new workload may start at zero.",
    ),
    workload(
        "activation-scale",
        None,
        bounds::ACTIVATION_SCALE.words,
        "Smallest number of pods while there is any load. Default: 1.",
    ),
    workload(
        "schedule",
        None,
        bounds::SCHEDULE,
        "Smallest size by time. While it is 1 or more, the workload is not scaled to zero, and is woken without a \
         request. A PodAutoscaler has the field schedule.",
    ),
    // Scale to zero.
    cluster(
        "enable-scale-to-zero",
        "true",
        bounds::BOOLEAN,
        "Whether any workload of the cluster may be scaled to zero.",
    ),
    cluster(
        "scale-to-zero-grace-period",
        "30s",
        bounds::LONGER_THAN_NOTHING.words,
        "How long activators must have been in the request path before the last pod is removed.",
    ),
    each(
        "scale-to-zero-pod-retention-period",
        "scale-to-zero-pod-retention-period",
        "0s",
        bounds::NOT_NEGATIVE.words,
        bounds::WITHIN_AN_HOUR.words,
        "How long the last pod is kept after the workload became inactive.",
    ),
    workload(
        "reachability",
        Some("Reachable"),
        bounds::REACHABILITY,
        "Whether requests can reach the workload. Unreachable ignores min-scale and allows zero from any size.",
    ),
    // Pods that start.
    workload(
        "progress-deadline",
        Some("600s"),
        bounds::DEADLINE.words,
        "How long pods may take to become ready; after it, and 30 s more, the workload returns to zero.",
    ),
    both(
        "start-patience",
        "start-patience",
        "10s",
        bounds::WITHIN_AN_HOUR.words,
        "How long pods may fail to start before activators refuse requests instead of holding them.",
    ),
    both(
        "unschedulable-patience",
        "unschedulable-patience",
        "60s",
        bounds::WITHIN_AN_HOUR.words,
        "start-patience for pods that fit on no node or are on one that does not respond; longer, because a new node may \
         be starting.",
    ),
    workload(
        "wake-timeout",
        None,
        bounds::WAKE_TIMEOUT.words,
        "How long activators hold a request for a pod. Default: the flag of the activators.",
    ),
    workload(
        "wake-queue-depth",
        None,
        bounds::QUEUE_DEPTH.words,
        "Requests that each activator may hold for the workload. Default: the flag of the activators.",
    ),
    workload(
        "no-wake",
        None,
        bounds::NO_WAKE,
        "Requests that neither wake the workload nor count as load, such as those of uptime monitors. The pods need the \
         same annotation. A PodAutoscaler has the field noWake.",
    ),
    workload(
        "no-wake-response",
        Some("200 asleep"),
        bounds::NO_WAKE_RESPONSE,
        "What the requests of no-wake get while there is no pod.",
    ),
    workload(
        "waiting-page",
        Some("false"),
        bounds::BOOLEAN,
        "Whether a browser gets a page while the workload starts, which opens the app when it responds. A PodAutoscaler has \
         the field waitingPage.",
    ),
    // The sidecar.
    workload(
        "sidecar",
        Some("true"),
        bounds::SIDECAR,
        "Whether pods have a queue-proxy. Without one, activators are always in the request path, and limit and count \
         there; the Service must have no selector.",
    ),
    // The Service.
    workload(
        "selector",
        None,
        bounds::SELECTOR,
        "Labels of the pods that get the requests of a Service without selector. Default: the selector that the Service \
         had, else that of the scale target. A Service with a selector uses its own.",
    ),
    workload(
        "timeout",
        Some("300s"),
        bounds::REQUEST_TIMEOUT.words,
        "Without a sidecar: longest time of a request, from when it is sent to a pod to the end of its response. 0 is none.",
    ),
    workload(
        "response-start-timeout",
        Some("300s"),
        bounds::REQUEST_TIMEOUT.words,
        "Without a sidecar: longest time from when a request is sent to a pod until its response begins, if less than \
         timeout. 0 is none.",
    ),
    workload(
        "idle-timeout",
        Some("0s"),
        bounds::REQUEST_TIMEOUT.words,
        "Without a sidecar: longest time without a byte in either direction; bounds upgraded connections as well. 0 is none.",
    ),
];

#[cfg(test)]
mod tests;
