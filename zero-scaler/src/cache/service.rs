//! What is read of a Service, and the copy that the cache keeps of it.
//!
//! Writes are never made from a copy: server-side apply sends owned fields only, so the missing
//! fields are not cleared.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::contract::pod_targets::selects_pods;
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::api::ObjectMeta;

const CLIENT_IP: &str = "ClientIP";
const LOCAL: &str = "Local";
/// The annotations by which Kubernetes divides endpoints among zones. The second is deprecated, and
/// has precedence.
const TOPOLOGY_ANNOTATIONS: [&str; 2] =
    ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];

/// The cluster IPs, one for each family.
pub(crate) fn cluster_ips(service: &Service) -> Vec<IpAddr> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    all.filter_map(|address| address.parse().ok()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether clients in the cluster reach only endpoints on their own node.
pub(crate) fn has_local_internal_policy(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.internal_traffic_policy.as_deref() == Some(LOCAL))
}

/// Whether clients outside of the cluster reach only endpoints on the node to which they are
/// routed. Load balancers leave out nodes without one.
fn has_local_external_policy(service: &Service) -> bool {
    service.spec.as_ref().is_some_and(|spec| spec.external_traffic_policy.as_deref() == Some(LOCAL))
}

/// The annotations that set how endpoints are divided among zones.
pub(crate) fn topology_annotations(service: &Service) -> BTreeMap<String, String> {
    let annotations = service.metadata.annotations.iter().flatten();
    let of_topology = annotations.filter(|(name, _)| TOPOLOGY_ANNOTATIONS.contains(&name.as_str()));
    of_topology.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether the endpoints should not change with the mode: a load balancer uses a node until its
/// next health check there, also after the last endpoint has left the node, and takes minutes to
/// send to new pods.
pub(crate) fn keeps_endpoints(service: &Service) -> bool {
    has_local_external_policy(service) || has_pod_targets(service)
}

/// Whether a load balancer takes only endpoints that name their pod.
pub(crate) fn has_pod_targets(service: &Service) -> bool {
    service.metadata.annotations.iter().flatten().any(|(name, value)| selects_pods(name, value))
}

/// Whether Kubernetes divides the endpoints among the zones.
pub(crate) fn has_topology_mode(service: &Service) -> bool {
    let annotations = service.metadata.annotations.as_ref();
    let value = |name: &&str| annotations.and_then(|all| all.get(*name));
    let in_force = TOPOLOGY_ANNOTATIONS.iter().rev().find_map(value);
    in_force.is_some_and(|value| value.eq_ignore_ascii_case("auto"))
}

/// A copy with what is read: without the API's defaults, and of the labels with the workload's,
/// which the reconciler compares.
pub(crate) fn trimmed(service: &Service) -> Service {
    let meta = &service.metadata;
    let labels = meta.labels.iter().flatten().filter(|(name, _)| *name == WORKLOAD_LABEL);
    let labels: BTreeMap<_, _> = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut annotations = topology_annotations(service);
    let all = meta.annotations.iter().flatten();
    let of_targets = all.filter(|(name, value)| selects_pods(name, value));
    annotations.extend(of_targets.map(|(name, value)| (name.clone(), value.clone())));
    let metadata = ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        deletion_timestamp: meta.deletion_timestamp.clone(),
        owner_references: meta.owner_references.clone(),
        labels: (!labels.is_empty()).then_some(labels),
        annotations: (!annotations.is_empty()).then_some(annotations),
        ..ObjectMeta::default()
    };
    Service { metadata, spec: service.spec.as_ref().map(trimmed_spec), status: None }
}

fn trimmed_spec(spec: &ServiceSpec) -> ServiceSpec {
    let only = |field: &Option<String>, value| field.clone().filter(|field| field == value);
    ServiceSpec {
        type_: spec.type_.clone(),
        cluster_ip: spec.cluster_ip.clone(),
        cluster_ips: spec.cluster_ips.clone(),
        ip_families: spec.ip_families.clone(),
        ip_family_policy: spec.ip_family_policy.clone(),
        selector: spec.selector.clone(),
        session_affinity: only(&spec.session_affinity, CLIENT_IP),
        internal_traffic_policy: only(&spec.internal_traffic_policy, LOCAL),
        external_traffic_policy: only(&spec.external_traffic_policy, LOCAL),
        publish_not_ready_addresses: spec.publish_not_ready_addresses,
        traffic_distribution: spec.traffic_distribution.clone(),
        ports: spec.ports.clone(),
        ..ServiceSpec::default()
    }
}
