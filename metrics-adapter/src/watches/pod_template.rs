//! PodTemplate: identifies what runs in a pod, and when it was killed for its memory.
//!
//! Input: pods, from the watch. Output: the epoch of learning, a hash that changes with the image,
//! the command, the arguments, the environment or the resources of the app's containers; and the
//! time of the newest out-of-memory kill.
//!
//! The hash is part of the stored state, so every release must compute the same. It leaves out the
//! sidecar, because an upgrade of Rouse would otherwise discard the evidence of all workloads. It
//! leaves out labels and annotations too, because a restart of a rollout changes them.

use std::time::Duration;

use autoscaler::contract::QUEUE_PROXY;
use autoscaler::routing::hash::hash;
use component_base::kubernetes::unix_time;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus};

/// Reason of the kubelet for a container that was killed above its memory limit.
const OUT_OF_MEMORY: &str = "OOMKilled";

/// Hash of the app's containers.
pub(crate) fn template_hash(spec: &PodSpec) -> u64 {
    let containers = spec.containers.iter().filter(|container| container.name != QUEUE_PROXY);
    let parts = containers.map(|container| {
        let Container { name, image, command, args, env, env_from, resources, .. } = container;
        (name, image, command, args, env, env_from, resources)
    });
    // Maps of these types are ordered, so equal containers have equal texts. An error would make
    // all templates equal, and no field here has one.
    hash(&serde_json::to_string(&parts.collect::<Vec<_>>()).unwrap_or_default())
}

/// When a container of the app was last killed for its memory, in Unix time.
pub(crate) fn last_memory_kill(status: &PodStatus) -> Option<Duration> {
    let containers = status.container_statuses.iter().flatten();
    containers.filter(|container| container.name != QUEUE_PROXY).filter_map(memory_kill).max()
}

fn memory_kill(container: &ContainerStatus) -> Option<Duration> {
    let states = [&container.state, &container.last_state].into_iter().flatten();
    let ends = states.filter_map(|state| state.terminated.as_ref());
    let kills = ends.filter(|end| end.reason.as_deref() == Some(OUT_OF_MEMORY));
    kills.filter_map(|end| unix_time(end.finished_at.as_ref()?)).max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn app() -> Value {
        json!({
            "name": "app", "image": "shop/web:1", "args": ["--port", "8080"],
            "env": [{"name": "MODE", "value": "fast"}],
            "resources": {"limits": {"memory": "256Mi", "cpu": "1"}},
        })
    }

    fn hash_of(containers: Value) -> u64 {
        template_hash(&serde_json::from_value(json!({"containers": containers})).unwrap())
    }

    #[test]
    fn hash_changes_with_each_part_of_the_app() {
        let same = hash_of(json!([app()]));
        for (path, value) in [
            ("/image", json!("shop/web:2")),
            ("/args/1", json!("8081")),
            ("/env/0/value", json!("slow")),
            ("/resources/limits/memory", json!("512Mi")),
        ] {
            let mut changed = app();
            *changed.pointer_mut(path).unwrap() = value;
            assert_ne!(hash_of(json!([changed])), same, "{path}");
        }
        assert_ne!(hash_of(json!([app(), {"name": "cache", "image": "redis"}])), same);
    }

    #[test]
    fn hash_ignores_the_sidecar_and_the_order_of_maps() {
        let same = hash_of(json!([app()]));
        let sidecar = json!({"name": "queue-proxy", "image": "rouse/queue-proxy:2"});
        assert_eq!(hash_of(json!([app(), sidecar])), same);
        let mut reordered = app();
        reordered["resources"]["limits"] = json!({"cpu": "1", "memory": "256Mi"});
        reordered["livenessProbe"] = json!({"periodSeconds": 5});
        assert_eq!(hash_of(json!([reordered])), same);
    }

    /// The hash is stored: another value discards the evidence of every workload at an upgrade.
    #[test]
    fn hash_is_the_same_in_all_releases() {
        assert_eq!(hash_of(json!([app()])), 9_365_143_078_176_863_364);
    }

    #[test]
    fn memory_kill_is_the_newest_of_the_app() {
        let kill = |reason: &str, time: &str| json!({"terminated": {"reason": reason, "exitCode": 137, "finishedAt": time}});
        let container = |name: &str, state: Value, last: Value| {
            json!({
                "name": name, "image": "a", "imageID": "a", "ready": true, "restartCount": 1,
                "state": state, "lastState": last,
            })
        };
        let status = |containers: Value| -> PodStatus {
            serde_json::from_value(json!({"containerStatuses": containers})).unwrap()
        };
        let (old, new) =
            (kill("OOMKilled", "1970-01-01T00:00:10Z"), kill("OOMKilled", "1970-01-01T00:00:20Z"));
        let killed = status(json!([container("app", new.clone(), old.clone())]));
        assert_eq!(last_memory_kill(&killed), Some(Duration::from_secs(20)));
        let other = kill("Error", "1970-01-01T00:00:30Z");
        let restarted = status(json!([
            container("app", json!({"running": {}}), old),
            container("queue-proxy", json!({"running": {}}), new),
            container("cache", json!({"running": {}}), other),
        ]));
        assert_eq!(last_memory_kill(&restarted), Some(Duration::from_secs(10)));
        assert_eq!(last_memory_kill(&PodStatus::default()), None);
    }
}
