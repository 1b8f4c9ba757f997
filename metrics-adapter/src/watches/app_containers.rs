//! AppContainers: the resource limits of the app's containers in a pod, and when they started.
//!
//! Input: pods, from the watch. A container without a limit has no share of one, and is left out.

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::contract::QUEUE_PROXY;
use autoscaler::contract::quantity::parse_milli;
use component_base::kubernetes::unix_time;
use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStatus, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// A container of the app with at least one limit. Kept for each pod, so it is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppContainer {
    pub(crate) name: Box<str>,
    /// Thousandths of a byte.
    pub(crate) memory_limit: Option<i64>,
    /// Thousandths of a CPU.
    pub(crate) cpu_limit: Option<i64>,
    /// Start of the running container, in Unix time.
    pub(crate) started: Option<Duration>,
}

/// The containers of a pod that have a limit, without the sidecar.
pub(crate) fn app_containers(spec: &PodSpec, status: Option<&PodStatus>) -> Box<[AppContainer]> {
    let statuses = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let containers = spec.containers.iter().filter(|container| container.name != QUEUE_PROXY);
    containers.filter_map(|container| AppContainer::new(container, statuses)).collect()
}

// === impl AppContainer ===

impl AppContainer {
    fn new(container: &Container, statuses: &[ContainerStatus]) -> Option<Self> {
        let limits = container.resources.as_ref()?.limits.as_ref()?;
        let (memory_limit, cpu_limit) = (limit(limits, "memory"), limit(limits, "cpu"));
        let status = statuses.iter().find(|status| status.name == container.name);
        (memory_limit.is_some() || cpu_limit.is_some()).then(|| Self {
            name: container.name.as_str().into(),
            memory_limit,
            cpu_limit,
            started: status.and_then(|status| started(status.state.as_ref()?)),
        })
    }
}

/// A limit of 0 means no limit, as for the kubelet.
fn limit(limits: &BTreeMap<String, Quantity>, resource: &str) -> Option<i64> {
    parse_milli(&limits.get(resource)?.0).ok().filter(|limit| *limit > 0)
}

fn started(state: &ContainerState) -> Option<Duration> {
    unix_time(state.running.as_ref()?.started_at.as_ref()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn containers(spec: Value, statuses: Value) -> Box<[AppContainer]> {
        let spec = serde_json::from_value(json!({"containers": spec})).unwrap();
        let status = serde_json::from_value(json!({"containerStatuses": statuses})).unwrap();
        app_containers(&spec, Some(&status))
    }

    #[test]
    fn limits_and_starts_are_those_of_the_app_alone() {
        let limited = |name: &str, limits: Value| json!({"name": name, "resources": {"limits": limits}});
        let spec = json!([
            limited("app", json!({"memory": "256Mi", "cpu": "500m"})),
            limited("queue-proxy", json!({"memory": "64Mi"})),
            limited("cache", json!({"memory": "0", "cpu": "1"})),
            limited("invalid", json!({"memory": "much", "cpu": "-1"})),
            {"name": "unlimited"},
        ]);
        let running = |name: &str, state: Value| {
            json!({
                "name": name, "image": "a", "imageID": "a", "ready": true, "restartCount": 0, "state": state,
            })
        };
        let statuses = json!([
            running("cache", json!({"waiting": {}})),
            running("app", json!({"running": {"startedAt": "1970-01-01T00:01:00Z"}})),
        ]);
        let app = AppContainer {
            name: "app".into(),
            memory_limit: Some(256 * 1024 * 1024 * 1000),
            cpu_limit: Some(500),
            started: Some(Duration::from_secs(60)),
        };
        let cache =
            AppContainer { name: "cache".into(), memory_limit: None, cpu_limit: Some(1000), started: None };
        assert_eq!(*containers(spec, statuses), [app, cache]);
        assert_eq!(*containers(json!([{"name": "app", "resources": {}}]), json!([])), []);
    }
}
