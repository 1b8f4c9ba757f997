//! NetworkPolicies of Rouse's own namespace: whether the parts reach each other.
//!
//! Clients of activators and the API server may be anywhere, so any rule for their ports is enough.

use std::collections::BTreeMap;

use autoscaler::contract::{ADMIN_PORT, API_PORT, FIRST_LEASED_PORTS, SLOTS_PORT, STATS_PORT};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;

use super::shared_facts::peers;
use crate::check::cluster_objects::{
    ACTIVATOR, ClusterObjects, DEPLOYMENTS, METRICS_ADAPTER, NAME_LABEL, ZERO_SCALER,
};
use crate::check::finding::Finding;
use crate::check::selection::network_policy::{Traffic, blocking_ingress, closing_egress};

/// Connections between parts: to, port, its name, from, and what fails without it. No part is any
/// client.
const FLOWS: [(&str, u16, &str, Option<&str>, &str); 7] = [
    (ACTIVATOR, *FIRST_LEASED_PORTS.start(), "", None, "requests to workloads at zero fail"),
    (ACTIVATOR, SLOTS_PORT, "slots", Some(ACTIVATOR), "activators do not lend slots to each other"),
    (
        ACTIVATOR,
        ADMIN_PORT,
        "admin",
        Some(ZERO_SCALER),
        "no path is verified, so TCP workloads stay above zero",
    ),
    (METRICS_ADAPTER, API_PORT, "api", None, "HPAs get no metric"),
    (METRICS_ADAPTER, STATS_PORT, "stats", Some(ACTIVATOR), "requests at activators are not counted"),
    (METRICS_ADAPTER, STATS_PORT, "stats", Some(ZERO_SCALER), "no decision is applied"),
    (ZERO_SCALER, STATS_PORT, "stats", Some(ACTIVATOR), "no request wakes a workload at once"),
];

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    let Some(policies) = cluster.network_policies.found() else { return Vec::new() };
    let ingress = FLOWS.into_iter().filter_map(|flow| blocked(cluster, policies, flow));
    let egress = DEPLOYMENTS.into_iter().filter_map(|part| closed(cluster, policies, part));
    ingress.chain(egress).collect()
}

fn blocked(
    cluster: &ClusterObjects,
    policies: &[NetworkPolicy],
    (to, port, name, from, effect): (&str, u16, &str, Option<&str>, &str),
) -> Option<Finding> {
    let port = declared_port(cluster, to, name).unwrap_or(port);
    let clients = from.map(|part| peers(cluster, part));
    let client = clients.as_ref().map(|peers| peers.first());
    let traffic = Traffic { from: client.flatten(), port, name: Some(name), protocol: "TCP" };
    let policy = blocking_ingress(policies, &cluster.system_namespace, &labels(to), traffic)?;
    let clients = from.unwrap_or("clients");
    let problem = format!(
        "it selects the pods of {to}, and no NetworkPolicy lets {clients} connect to their port {port}: \
         {effect}"
    );
    Some(Finding::error(object(cluster, policy), CheckReason::TrafficBlocked, problem))
}

/// The number of a port in the pods. Values of the chart change it.
fn declared_port(cluster: &ClusterObjects, part: &str, name: &str) -> Option<u16> {
    let template = &cluster.deployments.get(part)?.found()?.spec.template;
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    ports.find(|port| port.name.as_deref() == Some(name))?.container_port.try_into().ok()
}

fn closed(cluster: &ClusterObjects, policies: &[NetworkPolicy], part: &str) -> Option<Finding> {
    let policy = closing_egress(policies, &labels(part))?;
    let problem = format!(
        "it selects the pods of {part}, and no NetworkPolicy lets them connect to anything: the API server \
         and pods are out of reach"
    );
    Some(Finding::error(object(cluster, policy), CheckReason::EgressBlocked, problem))
}

fn labels(part: &str) -> BTreeMap<String, String> {
    [(NAME_LABEL.to_owned(), part.to_owned())].into()
}

fn object(cluster: &ClusterObjects, policy: &NetworkPolicy) -> String {
    format!("NetworkPolicy {}/{}", cluster.system_namespace, policy.name_any())
}
