//! The page of annotations and cluster settings.
//!
//! Names, defaults and meanings are written here; the accepted values come from the code, which
//! reports them for an invalid value. Tests compare the defaults with the code and the keys with
//! `deploy/config-autoscaler.yaml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use autoscaler::contract::GROUP;
use autoscaler::settings::{AutoscalerConfig, SettingError, Settings};

use super::cell;

/// A value that no setting accepts.
const INVALID: &str = "\u{0}";

/// One annotation, or one key of the ConfigMap.
struct Setting {
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
}

macro_rules! settings {
    ($($name:literal = $default:literal: $meaning:literal;)+) => {
        &[$(Setting { name: $name, default: $default, meaning: $meaning },)+]
    };
}

const HEAD: &str = "\
# Annotations and settings

On this page you find every annotation of an HPA or a PodAutoscaler, and every key of the
cluster's settings. Annotations of pods are on [another page](pods.md).

<!-- Generated from the code: make reference. -->

A workload's annotations have the prefix `autoscaling.rouse.dev/`. They are written on the HPA, or
on a PodAutoscaler that you wrote, and override the cluster's settings in the ConfigMap
`rouse-system/config-autoscaler`. Names, defaults and bounds are Knative's where Knative has them.

An invalid annotation is reported by an event and a condition that name key, value and bound, and
the cluster's value stays in force. Knative's older spellings (`minScale`) are read too; where
both are there, the one with hyphens counts. Durations are written `1m30s` or `500ms`. Values are
strings: quote numbers.
";

const ZERO_AND_WAKES: &[Setting] = settings! {
    "scale-to-zero" = "false": "Allows the workload to go to zero. On a PodAutoscaler it is the field `scaleToZero`.";
    "activation-scale" = "1": "Size of a wake.";
    "initial-scale" = "1": "Size of a new workload's first wake; [without an HPA](../howto/without-an-hpa.md) also the size that it is brought to before it may be smaller. `0`, where the cluster allows it, starts it at zero.";
    "scale-to-zero-pod-retention-period" = "0s": "How long the last pod is kept.";
    "wake-timeout" = "the activators' `--wake-timeout`, `60s`": "How long a request waits for a pod. Set it to more than the app's slowest start; clients must wait as long.";
    "wake-queue-depth" = "the activators' `--queue-depth`, `10000`": "Requests that wait in each activator.";
    "start-patience" = "10s": "How long pods may be [unable to start](../concepts.md#when-no-pod-can-start) before requests are refused for it.";
    "unschedulable-patience" = "60s": "The same while they fit on no node. Where nodes are made on demand, set it and `wake-timeout` to longer than that takes.";
    "progress-deadline" = "600s": "How long pods without waiting requests may take to become ready; 30 s later they are given up.";
    "reachability" = "Reachable": "`Unreachable`: no request can come any more, as to the old half of a blue-green pair. The workload is retired: it goes to zero from any size, without `scale-to-zero` as well; `min-scale`, `initial-scale`, retention, delay and the rate of descent no longer hold it. A request that comes all the same is served.";
};

const SIZES: &[Setting] = settings! {
    "container-concurrency" = "0": "Requests that a pod serves at a time; `0` is no limit. The pods must have the same annotation.";
    "window" = "60s": "The stable window, over which the metric is averaged.";
    "panic-window-percentage" = "10": "The panic window, as a share of the stable one; at least 1 s.";
    "panic-threshold-percentage" = "200": "Load, against the ready pods, at which Rouse scales ahead of the HPA.";
    "target-burst-capacity" = "211": "Spare requests that the ready pods must be able to take before the activator leaves the path. `0`: it leaves whenever a pod is ready; `-1`: it never leaves.";
    "scale-down-delay" = "0s": "How long a larger decision is held, for a load that wanders about a whole number of pods. The HPA needs no `stabilizationWindowSeconds` for it.";
    "metric-aggregation-algorithm" = "linear": "How a window weighs its seconds.";
};

const WITHOUT_TARGET: &[Setting] = settings! {
    "metric" = "concurrency": "What is averaged. `rps` is accepted for `requests-per-second`.";
    "target" = "`container-concurrency`, else `100`; `200` for `requests-per-second`": "What one pod can carry in all.";
    "target-utilization-percentage" = "70": "The share of it to aim for. With an HPA: the share of it that `averageValue` is.";
    "min-scale" = "0": "Least size above zero; `0` is the same as `1`.";
    "max-scale" = "0": "Largest size; `0` is no bound.";
};

const WITHOUT_EFFECT: &[Setting] = settings! {
    "class" = "": "Checked, without effect: there is one autoscaler.";
    "http-full-duplex" = "": "Checked, without effect: data always flows both ways at once.";
};

const CLUSTER: &[Setting] = settings! {
    "enable-scale-to-zero" = "true": "Whether any workload may go to zero.";
    "scale-to-zero-grace-period" = "30s": "How long activators must be in the path before the last pod goes.";
    "scale-to-zero-pod-retention-period" = "0s": "How long the last pod is kept at least.";
    "stable-window" = "60s": "The stable window.";
    "panic-window-percentage" = "10": "The panic window, as a share of it.";
    "panic-threshold-percentage" = "200": "Load, against the ready pods, at which a panic begins.";
    "max-scale-up-rate" = "1000": "Largest factor of one decision, against the ready pods.";
    "max-scale-down-rate" = "2": "Largest divisor of one decision.";
    "scale-down-delay" = "0s": "How long a larger decision is held.";
    "container-concurrency-target-default" = "100": "Requests at a time that a pod without a limit can carry.";
    "requests-per-second-target-default" = "200": "Requests per second that a pod can carry.";
    "container-concurrency-target-percentage" = "70": "Share of the requests at a time to aim for; a value up to 1 is a fraction. For requests per second it is always 70.";
    "target-burst-capacity" = "211": "Spare requests that the ready pods must be able to take before the activator leaves the path.";
    "activator-capacity" = "100": "Requests that one activator can carry.";
    "min-scale" = "0": "Least size of PodAutoscalers that set none; `0` is no bound. An HPA always sets its own.";
    "max-scale" = "0": "Largest size of PodAutoscalers that set none; `0` is no bound.";
    "max-scale-limit" = "0": "The largest `max-scale` that a workload without an HPA may have; `0` is no limit.";
    "initial-scale" = "1": "Size that a new workload is brought to once.";
    "allow-zero-initial-scale" = "false": "Whether `initial-scale` may be `0`.";
    "start-patience" = "10s": "How long pods may be unable to start before requests are refused. Not Knative's.";
    "unschedulable-patience" = "60s": "The same while they fit on no node. Not Knative's.";
};

/// The page.
pub(super) fn render() -> String {
    let mut page = HEAD.to_owned();
    write(&mut page, "Zero and wakes", "", "Annotation", ZERO_AND_WAKES, annotation_bound);
    write(&mut page, "Sizes and windows", "", "Annotation", SIZES, annotation_bound);
    let note = "\
An HPA's own metric, `averageValue` and bounds override these. They count where there is no HPA,
or where it has `desired-replicas` and so gives no target.";
    write(&mut page, "Without a target in the HPA", note, "Annotation", WITHOUT_TARGET, annotation_bound);
    write(&mut page, "Without effect", "", "Annotation", WITHOUT_EFFECT, annotation_bound);
    let note = "\
The keys of the ConfigMap `rouse-system/config-autoscaler` are read live. One invalid key rejects
the whole ConfigMap, because the others may belong to it: an event names it, and the last good
settings stay in force. Unknown keys are ignored, and so is Knative's `pod-autoscaler-class`.";
    write(&mut page, "Cluster settings", note, "Key", CLUSTER, cluster_bound);
    page
}

fn write(
    page: &mut String,
    title: &str,
    note: &str,
    kind: &str,
    settings: &[Setting],
    bound: fn(&str) -> String,
) {
    // Writing to a String cannot fail.
    let _ = writeln!(page, "\n## {title}\n");
    if !note.is_empty() {
        let _ = writeln!(page, "{note}\n");
    }
    let _ = writeln!(page, "| {kind} | Default | Values | Meaning |\n|---|---|---|---|");
    for Setting { name, default, meaning } in settings {
        let default = if default.is_empty() || default.contains('`') {
            (*default).to_owned()
        } else {
            format!("`{default}`")
        };
        let _ = writeln!(page, "| `{name}` | {default} | {} | {} |", cell(&bound(name)), cell(meaning));
    }
}

/// Accepted values of an annotation. Two are read beside the others, by the adoption of HPAs.
fn annotation_bound(name: &str) -> String {
    match name {
        "scale-to-zero" => "true or false".to_owned(),
        "container-concurrency" => "a whole number from 0 to 1000".to_owned(),
        _ => {
            let annotations = BTreeMap::from([(format!("{GROUP}/{name}"), invalid_for(name))]);
            bound_of(Settings::resolve(&AutoscalerConfig::default(), &annotations).1)
        }
    }
}

fn cluster_bound(key: &str) -> String {
    let data = BTreeMap::from([(key.to_owned(), INVALID.to_owned())]);
    bound_of(AutoscalerConfig::parse(&data).err().unwrap_or_default())
}

/// Any class outside of knative.dev is accepted.
fn invalid_for(name: &str) -> String {
    if name == "class" { "other.knative.dev".to_owned() } else { INVALID.to_owned() }
}

fn bound_of(errors: Vec<SettingError>) -> String {
    errors.into_iter().next().map(|error| error.bound.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(default: &str) -> Option<String> {
        (!default.is_empty() && !default.contains('`')).then(|| default.to_owned())
    }

    #[test]
    fn each_setting_is_read_by_the_code() {
        for setting in [ZERO_AND_WAKES, SIZES, WITHOUT_TARGET, WITHOUT_EFFECT].into_iter().flatten() {
            assert_ne!(annotation_bound(setting.name), "", "{}", setting.name);
        }
        for setting in CLUSTER {
            assert_ne!(cluster_bound(setting.name), "", "{}", setting.name);
        }
    }

    #[test]
    fn defaults_equal_the_code() {
        let data = CLUSTER.iter().map(|s| (s.name.to_owned(), s.default.to_owned())).collect();
        assert_eq!(AutoscalerConfig::parse(&data), Ok(AutoscalerConfig::default()));
        let config = AutoscalerConfig::default();
        let annotations = [ZERO_AND_WAKES, SIZES, WITHOUT_TARGET].into_iter().flatten();
        // Absent, each of these is what the spec or the metric sets.
        let unset = ["metric", "target-utilization-percentage", "activation-scale"];
        let annotations = annotations.filter(|s| !unset.contains(&s.name));
        let given =
            annotations.filter_map(|s| Some((format!("{GROUP}/{}", s.name), value(s.default)?))).collect();
        let (settings, errors) = Settings::resolve(&config, &given);
        assert_eq!((settings, errors), Settings::resolve(&config, &BTreeMap::new()));
    }

    #[test]
    fn cluster_keys_equal_the_manifest() {
        let manifest =
            std::fs::read_to_string(crate::page::root().join("deploy/config-autoscaler.yaml")).unwrap();
        let map: serde_yaml_ng::Value = serde_yaml_ng::from_str(&manifest).unwrap();
        let in_manifest: BTreeMap<String, String> = serde_yaml_ng::from_value(map["data"].clone()).unwrap();
        let here: BTreeMap<String, String> =
            CLUSTER.iter().map(|s| (s.name.to_owned(), s.default.to_owned())).collect();
        assert_eq!(in_manifest, here);
    }
}
