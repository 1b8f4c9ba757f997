//! PodFootprint: what a pod of a template takes of a node, and how long it may take to end.
//!
//! Input: the pod template of a watched target. A sidecar that the admission policy adds is not in
//! it, so the savings leave it out.

use autoscaler::contract::quantity::parse_milli;
use autoscaler::scaling::savings::PodRequests;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};

/// Thousandths of a byte in a mebibyte.
const MILLI_MIB: i64 = 1000 << 20;
/// The default of the Kubernetes API, in seconds.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// Requests and termination grace period of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodFootprint {
    /// What the scheduler reserves for it.
    pub requests: PodRequests,
    /// Its termination grace period, in seconds.
    pub grace_seconds: i64,
}

// === impl PodFootprint ===

impl Default for PodFootprint {
    /// A pod of an unknown template: its requests are not counted.
    fn default() -> Self {
        Self { requests: PodRequests::default(), grace_seconds: DEFAULT_GRACE_SECONDS }
    }
}

impl PodFootprint {
    /// The footprint of a pod of this template.
    pub(crate) fn of(template: &PodTemplateSpec) -> Self {
        let Some(spec) = &template.spec else { return Self::default() };
        let requests = PodRequests {
            cpu_milli: effective_milli(spec, "cpu"),
            memory_mib: effective_milli(spec, "memory") / MILLI_MIB,
        };
        let grace_seconds = spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS).max(0);
        Self { requests, grace_seconds }
    }
}

/// What the scheduler reserves, in thousandths: of all containers and sidecars together. Init
/// containers that end need it for their own time only, and are left out.
fn effective_milli(spec: &PodSpec, resource: &str) -> i64 {
    let is_sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let requests = spec.containers.iter().chain(sidecars).map(|container| request_milli(container, resource));
    requests.fold(0, i64::saturating_add)
}

/// A request; without one, Kubernetes takes the limit.
fn request_milli(container: &Container, resource: &str) -> i64 {
    let Some(resources) = &container.resources else { return 0 };
    let of = |list: &Option<std::collections::BTreeMap<String, _>>| list.as_ref()?.get(resource).cloned();
    let quantity = of(&resources.requests).or_else(|| of(&resources.limits));
    quantity.and_then(|quantity| parse_milli(&quantity.0).ok()).unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn footprint(spec: Value) -> PodFootprint {
        PodFootprint::of(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    #[test]
    fn sums_requests_of_containers_and_sidecars() {
        let spec = json!({
            "terminationGracePeriodSeconds": 5,
            "containers": [
                {"name": "app", "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}},
                {"name": "limited", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}},
                {"name": "bare"},
            ],
            "initContainers": [
                {"name": "migrate", "resources": {"requests": {"cpu": "4", "memory": "8Gi"}}},
                {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "25m", "memory": "16Mi"}}},
            ],
        });
        let requests = PodRequests { cpu_milli: 1275, memory_mib: 128 + 1024 + 16 };
        assert_eq!(footprint(spec), PodFootprint { requests, grace_seconds: 5 });
    }

    #[test]
    fn absent_values_are_those_of_the_kubernetes_api() {
        assert_eq!(footprint(json!({"containers": [{"name": "app"}]})), PodFootprint::default());
        assert_eq!(PodFootprint::of(&PodTemplateSpec::default()).grace_seconds, 30);
    }
}
