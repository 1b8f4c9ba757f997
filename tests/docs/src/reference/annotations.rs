//! The page of annotations and cluster settings, from the table of the crate `autoscaler`.

use std::fmt::Write as _;

use autoscaler::settings::{SettingReference, reference};

use super::table::cell;

const HEAD: &str = "\
# Annotations and settings

On this page you find every annotation of an HPA or a PodAutoscaler, and every key of the
cluster's settings. Annotations of pods are on [another page](pods.md).

<!-- Generated from the code: make reference. -->

A workload's annotations have the prefix `autoscaling.rouse.dev/`. They are written on the HPA, or
on a PodAutoscaler that you wrote, and override the cluster's settings in the ConfigMap
`rouse-system/config-autoscaler`. Names, defaults and bounds are Knative's where Knative has them.

An invalid annotation is reported by an event and a condition that name key, value and bound, and
the cluster's value stays in force. Durations are written `1m30s` or `500ms`. Values are strings:
quote numbers.

The HPA's own metric and `averageValue` override the annotations `metric` and `target`. These count
where there is no HPA, or where it has `desired-replicas` and so gives no target. With an HPA,
`target-utilization-percentage` is the share of a pod's capacity that `averageValue` is. Bounds are
`minReplicas` and `maxReplicas` of the HPA or the PodAutoscaler.

A PodAutoscaler has fields that override annotations of the same meaning: `scaleToZero`,
`containerConcurrency`, `service`, `metric`, `target`, `sidecar`, `selector`, `noWake`,
`waitingPage`, `schedule` and `paused`.

## Annotations to begin with

Most workloads need the first one alone, and few need more than these.

| Annotation | Default | Values | Meaning |
|---|---|---|---|
| `scale-to-zero` | `false` | true or false | Lets the workload go to zero. Set it for every workload that may have no pod while it has no requests. |
| `container-concurrency` | `0` | a whole number from 0 to 1000 | Requests that a pod serves at a time; 0 means no limit. For pods with a sidecar, write it on [the pod template](pods.md#limit-and-rules-once) instead. Set it where an app slows down or fails with more requests than that. |
";

/// The annotations that README, getting started and the how-to pages use, in the order of the page.
/// Two more are fields of a PodAutoscaler, above.
const FIRST: [&str; 6] = ["window", "wake-timeout", "sidecar", "no-wake", "schedule", "learn-target"];

const OTHERS: &str = "
## Other annotations

| Annotation | Default | Values | Meaning |
|---|---|---|---|
| `service` | | a name | The Service of the workload. Set it on an HPA with `metric: none`, which names none. |
";

const NOTES: &str = "
Notes:

- `wake-timeout`: clients must wait as long.
- `unschedulable-patience`: it follows `wake-timeout`, so one of the two is enough. See [when no pod
  can start](../concepts.md#when-no-pod-can-start).
- `initial-scale`: with an HPA it is the size of a new workload's first wake. [Without an
  HPA](../howto/without-an-hpa.md) it is also the size that the workload is brought to first.
- `scale-down-delay`: for a load that varies around a whole number of pods. The HPA needs no
  `stabilizationWindowSeconds` for it.
- `target-burst-capacity`: [what `auto`
  is](../design/sizes-and-the-metric.md#when-activators-leave-the-path).
- `reachability`: `Unreachable` retires a workload, such as the old half of a blue-green pair. It
  goes to zero from any size, without `scale-to-zero` as well; `minReplicas`, `initial-scale`,
  retention, delay and `max-scale-down-rate` no longer apply. Requests that still arrive are served.
- `learn-target`: see [learn the target](../howto/learn-target.md). Write `\"Off\"` with quotes. A
  workload on requests per second learns none. `learn-target-factor` has no effect without a target
  of the HPA or the annotation `target`: the learned one is then between 1 and the container
  concurrency.
- `paused`: [what a pause keeps](../howto/requests-at-zero.md#pause), and what it does not.
- `schedule`: days, times, zones and overlaps are explained [on a page of their
  own](../howto/schedules.md).
- `no-wake` and `waiting-page`: the rules, their response and the page are explained [on a page of
  their own](../howto/requests-at-zero.md).
- `sse-keep-alive`: [which requests, and what a failure
  is](../howto/front-doors/model-servers.md#streams-that-are-held).
- `metric`: with `none` see [keep CPU alone](../howto/coming-from/plain-hpa.md#keep-cpu-alone). A
  PodAutoscaler has `scaler: Other` instead. `rps` is accepted for `requests-per-second`. The
  default target is 100 for concurrency and 200 for requests per second.

## Cluster settings

The keys of the ConfigMap `rouse-system/config-autoscaler` apply at once. One invalid key rejects
the whole ConfigMap, because other keys may depend on it. An event names the key, and the last valid
settings stay in force. Unknown keys are ignored. `start-patience`, `unschedulable-patience`,
`learn-target` and `learn-target-factor` are not Knative's.

The leader of the zero-scaler copies valid settings to the ConfigMap
`rouse-system/config-autoscaler-accepted`. Every process reads its settings from that copy, so an
invalid `config-autoscaler` has no effect after a restart either. Do not edit the copy.

| Key | Default | Values | Meaning |
|---|---|---|---|
";

/// The page.
pub(super) fn render() -> String {
    let settings = reference();
    let mut page = HEAD.to_owned();
    for name in FIRST {
        write_annotations(&mut page, settings, |annotation| annotation == name);
    }
    page.push_str(OTHERS);
    write_annotations(&mut page, settings, |annotation| !FIRST.contains(&annotation));
    page.push_str(NOTES);
    for setting in settings {
        if let Some(name) = setting.config_map_key {
            write_row(&mut page, name, setting.config_map_bounds, setting);
        }
    }
    page
}

fn write_annotations(page: &mut String, settings: &[SettingReference], is_listed: impl Fn(&str) -> bool) {
    for setting in settings {
        if let Some(name) = setting.annotation.filter(|name| is_listed(name)) {
            write_row(page, name, setting.annotation_bounds, setting);
        }
    }
}

fn write_row(page: &mut String, name: &str, bounds: &str, setting: &SettingReference) {
    let default = setting.default.as_ref().map(|default| format!("`{default}`")).unwrap_or_default();
    let (bounds, meaning, when) = (cell(bounds), cell(setting.meaning), cell(setting.when));
    // Writing to a String cannot fail.
    let _ = writeln!(page, "| `{name}` | {default} | {bounds} | {meaning} {when} |");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_setting_has_one_row() {
        let page = render();
        for setting in reference() {
            for name in [setting.annotation, setting.config_map_key].into_iter().flatten() {
                let rows = page.matches(&format!("\n| `{name}` |")).count();
                let places = [setting.annotation, setting.config_map_key];
                let expected = places.iter().filter(|place| **place == Some(name)).count();
                assert_eq!(rows, expected, "{name}");
            }
        }
    }

    #[test]
    fn cluster_keys_equal_the_manifest() {
        let manifest =
            std::fs::read_to_string(crate::page::root().join("deploy/config-autoscaler.yaml")).unwrap();
        let map: serde_yaml_ng::Value = serde_yaml_ng::from_str(&manifest).unwrap();
        let in_manifest: BTreeMap<String, String> = serde_yaml_ng::from_value(map["data"].clone()).unwrap();
        let of_reference = reference().iter().filter_map(|s| Some((s.config_map_key?, s.default.clone()?)));
        let of_reference: BTreeMap<String, String> =
            of_reference.map(|(key, default)| (key.to_owned(), default)).collect();
        assert_eq!(in_manifest, of_reference);
    }
}
