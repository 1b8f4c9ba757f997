//! NetworkPolicies of the namespace: whether requests and statistics reach the pods.
//!
//! Pods with a sidecar connect to no part of Rouse, so rules for their egress are not evaluated,
//! nor are policies for clients.

use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::contract::{PROTOCOL, QUEUE_PROXY, QUEUE_PROXY_ADMIN_PORT_NAME, QUEUE_PROXY_STATS_PORT_NAME};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::selection::network_policy::{Peer, Traffic, blocking_ingress};
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    if workload.pod_labels().is_none() {
        return Vec::new();
    }
    if workload.has_sidecar {
        statistics(workload).into_iter().chain(requests(workload)).collect()
    } else {
        requests_to_app(workload).into_iter().collect()
    }
}

fn statistics(workload: &WorkloadObjects) -> Option<Finding> {
    let ports = workload.sidecar_ports();
    let (port, name) = (ports.stats, Some(QUEUE_PROXY_STATS_PORT_NAME));
    let collectors = &workload.shared.collectors;
    if let Some(policy) = blocking(workload, collectors, port, name, "TCP") {
        let problem = format!(
            "it selects the pods of {}, and no NetworkPolicy lets the metrics-adapter connect to their port \
             {port}: there is no metric, and HPAs keep their sizes",
            workload.target_name()
        );
        return Some(
            Finding::error(object(workload, policy), CheckReason::StatisticsBlocked, problem)
                .with_fix(fix(ports)),
        );
    }
    let policy = blocking(workload, collectors, port, name, "UDP")?;
    let problem = format!(
        "it selects the pods of {}, and no NetworkPolicy lets UDP from the metrics-adapter to their port \
         {port}: it reads them by HTTP, which costs more",
        workload.target_name()
    );
    let object = object(workload, policy);
    Some(Finding::warning(object, CheckReason::DatagramsBlocked, problem).with_fix(fix(ports)))
}

fn requests(workload: &WorkloadObjects) -> Option<Finding> {
    let is_tcp = workload.pod_annotations().any(|(key, value)| key == PROTOCOL && value == "tcp");
    let ports = workload.sidecar_ports();
    let admin = is_tcp.then_some((ports.admin, QUEUE_PROXY_ADMIN_PORT_NAME));
    let mut used = [(ports.traffic, QUEUE_PROXY)].into_iter().chain(admin);
    used.find_map(|(port, name)| blocked_requests(workload, port, Some(name), &fix(ports)))
}

/// The fix where pods have a sidecar.
fn fix(SidecarPorts { traffic, admin, stats }: SidecarPorts) -> String {
    format!(
        "allow ingress from namespace rouse-system to ports {stats}/TCP, {stats}/UDP and {admin}/TCP, and to \
         {traffic}/TCP from anywhere, as the NetworkPolicy in docs/reference/ports.md"
    )
}

/// Activators connect to the app itself, on the ports to which the Service leads.
fn requests_to_app(workload: &WorkloadObjects) -> Option<Finding> {
    let spec = workload.service.found()?.spec.as_ref()?;
    spec.ports.iter().flatten().find_map(|port| {
        let target = port.target_port.clone().unwrap_or(IntOrString::Int(port.port));
        let (number, name) = match &target {
            IntOrString::Int(number) => (u16::try_from(*number).ok()?, None),
            IntOrString::String(name) => (declared(workload, name)?, Some(name.as_str())),
        };
        let fix = format!(
            "allow ingress from pods of namespace rouse-system with the label \
                     app.kubernetes.io/name=activator to {number}/TCP"
        );
        blocked_requests(workload, number, name, &fix)
    })
}

/// The port of this name in the pod template.
fn declared(workload: &WorkloadObjects, name: &str) -> Option<u16> {
    let pod = workload.template.as_ref()?.spec.as_ref()?;
    let mut ports = pod.containers.iter().flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(name))?;
    u16::try_from(port.container_port).ok()
}

fn blocked_requests(workload: &WorkloadObjects, port: u16, name: Option<&str>, fix: &str) -> Option<Finding> {
    let policy = blocking(workload, &workload.shared.activators, port, name, "TCP")?;
    let problem = format!(
        "it selects the pods of {}, and no NetworkPolicy lets the activators connect to their port {port}: \
         held requests fail",
        workload.target_name()
    );
    Some(Finding::error(object(workload, policy), CheckReason::RequestsBlocked, problem).with_fix(fix))
}

/// The policy that keeps one of these peers from a port.
fn blocking<'a>(
    workload: &'a WorkloadObjects,
    peers: &[Peer],
    port: u16,
    name: Option<&str>,
    protocol: &str,
) -> Option<&'a NetworkPolicy> {
    let labels = workload.pod_labels()?;
    let namespace = &workload.namespace;
    peers.iter().find_map(|peer| {
        let traffic = Traffic { from: Some(peer), port, name, protocol };
        blocking_ingress(&namespace.network_policies, &namespace.name, labels, traffic)
    })
}

fn object(workload: &WorkloadObjects, policy: &NetworkPolicy) -> String {
    format!("NetworkPolicy {}/{}", workload.key.namespace, policy.name_any())
}
