//! TrimmedPod: the part of a Pod object that an activator reads. The rest is dropped while it is
//! decoded.
//!
//! The zone of a pod is in its own labels: since Kubernetes 1.35 the API server copies it from the
//! node when the pod is bound. So no activator needs to read nodes.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::contract::{INJECT_LABEL, QUEUE_PROXY};
use autoscaler::routing::proximity::Location;
use component_base::kubernetes::Decoded;
use k8s_openapi::api::core::v1::Pod as CorePod;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::workloads::Pod;
use crate::workloads::containers::{AnyObject, Container, Containers, QueueProxy};

/// Kind of the owners that make a pod only after the end of its predecessor of the same name, be it
/// of Kubernetes or of another group.
const STATEFUL_SET: &str = "StatefulSet";
/// Label of a node, and of each pod on it, with the zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A pod. If it has a queue-proxy, only its node and the queue-proxy's ports and limit are kept of
/// the spec.
#[derive(Clone, Debug, Default, Deserialize, Serialize, Resource)]
#[resource(inherit = CorePod)]
#[serde(default)]
pub(super) struct TrimmedPod {
    pub(super) metadata: ObjectMeta,
    /// From the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// From the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sidecar_ports: Option<SidecarPorts>,
    /// Of the queue-proxy, from the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spec: Option<PodSpec>,
    pub(super) status: PodStatus,
    /// Whether it is from a file that an earlier process wrote.
    #[serde(skip)]
    pub(super) is_persisted: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    #[serde(skip_serializing)]
    node_name: Option<String>,
    containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Container>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    readiness_gates: Vec<AnyObject>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<PodCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct PodCondition {
    r#type: String,
    status: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<bool>,
}

/// Drops what is not read of a pod that a watch delivered.
pub(super) fn trim_pod(pod: &mut Decoded<TrimmedPod>) {
    trim_metadata(pod);
    if let Ok(pod) = &mut pod.0 {
        Arc::make_mut(pod).trim_spec();
    }
}

/// Drops metadata that is not read; managed fields are large.
pub(super) fn trim_metadata<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    object.meta_mut().annotations = None;
}

// === impl TrimmedPod ===

impl TrimmedPod {
    /// Drops the spec of a pod with a queue-proxy, except for the node and what is read of the
    /// queue-proxy.
    fn trim_spec(&mut self) {
        self.node = self.spec.as_mut().and_then(|spec| spec.node_name.take());
        let queue_proxy = self.spec.as_ref().and_then(PodSpec::queue_proxy);
        if let Some(QueueProxy { ports, limit }) = queue_proxy.map(Container::queue_proxy)
            && self.is_injected()
        {
            (self.sidecar_ports, self.limit) = (Some(ports), limit);
            self.spec = None;
            self.status.container_statuses.clear();
            self.status.init_container_statuses.clear();
        }
    }

    /// The pod for a process at this location.
    pub(super) fn read(&self, own: &Location) -> Pod {
        let phase = self.status.phase.as_deref().unwrap_or_default();
        let is_ready = phase == "Running" && self.has_condition("Ready");
        let labels: BTreeMap<_, _> = self.metadata.labels.clone().unwrap_or_default();
        Pod {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            labels,
            ip: self.status.pod_ip.as_deref().and_then(|ip| ip.parse().ok()),
            scheduled: !self.is_persisted && self.has_condition("PodScheduled"),
            proximity: own.proximity(&self.location()),
            // A pod from a file has to be verified before it gets a request.
            ready: is_ready && !self.is_persisted,
            was_ready: is_ready && self.is_persisted,
            ending: self.metadata.deletion_timestamp.is_some() || matches!(phase, "Succeeded" | "Failed"),
            delays_successor: self.is_of_stateful_set(),
            injected: self.is_injected(),
            queue_proxy: QueueProxy { ports: self.sidecar_ports.unwrap_or_default(), limit: self.limit },
            containers: self.spec.as_ref().map(|spec| spec.containers(&self.status)),
        }
    }

    fn is_injected(&self) -> bool {
        self.label(INJECT_LABEL).is_some_and(|value| value == "true")
    }

    fn is_of_stateful_set(&self) -> bool {
        self.metadata.owner_references.iter().flatten().any(|owner| owner.kind == STATEFUL_SET)
    }

    fn location(&self) -> Location {
        Location::new(self.node.clone(), self.label(ZONE_LABEL).cloned())
    }

    fn label(&self, name: &str) -> Option<&String> {
        self.metadata.labels.as_ref()?.get(name)
    }

    fn has_condition(&self, name: &str) -> bool {
        let is_true = |condition: &PodCondition| condition.r#type == name && condition.status == "True";
        self.status.conditions.iter().any(is_true)
    }
}

// === impl PodSpec ===

impl PodSpec {
    fn queue_proxy(&self) -> Option<&Container> {
        self.containers.iter().chain(&self.init_containers).find(|container| container.name == QUEUE_PROXY)
    }

    fn containers(&self, status: &PodStatus) -> Containers {
        let restarted = self.init_containers.iter().filter(|container| container.is_restarted_always());
        let all: Vec<Container> = self.containers.iter().chain(restarted).cloned().collect();
        let is_starting = all
            .iter()
            .any(|container| container.startup_probe.is_some() && !status.has_started(&container.name));
        Containers { all, has_readiness_gates: !self.readiness_gates.is_empty(), is_starting }
    }
}

// === impl PodStatus ===

impl PodStatus {
    fn has_started(&self, container: &str) -> bool {
        let mut statuses = self.container_statuses.iter().chain(&self.init_container_statuses);
        statuses.any(|status| status.name == container && status.started == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::pod_limit::POD_LIMIT_VARIABLE;
    use autoscaler::routing::proximity::Proximity;
    use serde_json::{Value, json};

    use super::*;

    /// A trimmed pod; `labels` may request a queue-proxy.
    fn trimmed(labels: Value, spec: Value, status: Value) -> TrimmedPod {
        let metadata = json!({"namespace": "shop", "name": "web-1", "uid": "u", "labels": labels,
            "annotations": {"a": "b"}});
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
        let mut pod: TrimmedPod = serde_json::from_value(object).unwrap();
        pod.trim_spec();
        pod
    }

    fn status(started: bool) -> Value {
        json!({
            "phase": "Running", "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "reason": "x"}],
            "containerStatuses": [{"name": "app", "started": started, "ready": true}],
        })
    }

    /// The pod for a process without a location.
    fn read_pod(pod: &TrimmedPod) -> Pod {
        pod.read(&Location::default())
    }

    #[test]
    fn reads_address_and_state() {
        let pod = trimmed(json!({"app": "web"}), json!({}), status(true));
        let read = read_pod(&pod);
        assert_eq!(read.ip, Some("10.0.0.1".parse().unwrap()));
        assert!(read.ready && !read.ending && !read.injected);
        assert_eq!(read.labels.get("app").map(String::as_str), Some("web"));
        let mut ending = pod;
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(read_pod(&ending).ending);
        assert_eq!(read_pod(&trimmed(json!({}), json!({}), json!({"phase": "Pending"}))).ip, None);
    }

    #[test]
    fn drops_spec_of_pod_with_queue_proxy_only() {
        let with = json!({"containers": [{"name": "app"}], "initContainers": [{"name": "queue-proxy"}]});
        let without = json!({"containers": [{"name": "app"}]});
        let labels = json!({INJECT_LABEL: "true"});
        let containers = |labels: &Value, spec: &Value| {
            read_pod(&trimmed(labels.clone(), spec.clone(), status(true)))
                .containers
                .map(|read| read.all.len())
        };
        assert_eq!(containers(&labels, &with), None);
        assert_eq!(containers(&labels, &without), Some(1), "the label alone adds no container");
        assert_eq!(containers(&json!({}), &with), Some(1), "a container of the owner");
    }

    #[test]
    fn keeps_ports_and_limit_of_the_queue_proxy() {
        let ports = json!([{"name": "queue-proxy", "containerPort": 18012}, {"containerPort": 1}]);
        let uid =
            json!({"name": "QUEUE_PROXY_POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}});
        let env = json!([uid, {"name": POD_LIMIT_VARIABLE, "value": "10"}]);
        let queue_proxy = json!({"name": "queue-proxy", "ports": ports, "env": env});
        // A variable of the app's container is not a limit.
        let app = json!({"name": "app", "env": [{"name": POD_LIMIT_VARIABLE, "value": "20"}, {"name": "A"}]});
        let spec = json!({"containers": [app], "initContainers": [queue_proxy]});
        let pod = trimmed(json!({INJECT_LABEL: "true"}), spec, status(true));
        let restored: TrimmedPod = serde_json::from_str(&serde_json::to_string(&pod).unwrap()).unwrap();
        let ports = SidecarPorts { traffic: 18012, ..SidecarPorts::default() };
        let expected = QueueProxy { ports, limit: NonZeroU32::new(10) };
        assert_eq!(read_pod(&pod).queue_proxy, expected);
        assert_eq!(read_pod(&restored).queue_proxy, expected, "persisted");
    }

    #[test]
    fn reads_containers_that_run_beside_each_other() {
        let probe = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1});
        let spec = json!({
            "containers": [{"name": "app", "image": "app:v1", "startupProbe": probe,
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}], "readinessProbe": probe}],
            "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
            "readinessGates": [{"conditionType": "shop/lb"}],
        });
        for started in [false, true] {
            let pod = trimmed(json!({}), spec.clone(), status(started));
            let restored: TrimmedPod = serde_json::from_str(&serde_json::to_string(&pod).unwrap()).unwrap();
            let containers = read_pod(&restored).containers.unwrap();
            assert_eq!(Some(&containers), read_pod(&pod).containers.as_ref(), "persisted");
            let names: Vec<_> = containers.all.iter().map(|container| container.name.as_str()).collect();
            assert_eq!(names, ["app", "mesh"]);
            assert_eq!((containers.is_starting, containers.has_readiness_gates), (!started, true));
            assert!(containers.all[0].readiness_probe.as_ref().unwrap().http_get.is_some());
        }
    }

    #[test]
    fn reads_node_and_zone_with_a_queue_proxy_and_without() {
        let own = Location::new(Some("n1".into()), Some("a".into()));
        let with = json!({"nodeName": "n1", "containers": [{"name": "queue-proxy"}]});
        let other_node = json!({"nodeName": "n2", "containers": [{"name": "app"}]});
        let labels = |zone: &str| json!({INJECT_LABEL: "true", ZONE_LABEL: zone});
        for (labels, spec, expected) in [
            (labels("a"), &with, Proximity::SameNode),
            (labels("a"), &other_node, Proximity::SameZone),
            (labels("b"), &other_node, Proximity::Elsewhere),
            (json!({}), &other_node, Proximity::Elsewhere),
        ] {
            let pod = trimmed(labels, spec.clone(), status(true));
            let restored: TrimmedPod = serde_json::from_str(&serde_json::to_string(&pod).unwrap()).unwrap();
            assert_eq!(pod.read(&own).proximity, expected, "{pod:?}");
            assert_eq!(restored.read(&own).proximity, expected, "persisted: {pod:?}");
        }
    }

    #[test]
    fn persisted_pod_is_not_ready_but_was() {
        let pod = TrimmedPod { is_persisted: true, ..trimmed(json!({}), json!({}), status(true)) };
        let read = read_pod(&pod);
        assert_eq!((read.ready, read.was_ready, read.scheduled), (false, true, false));
    }
}
