//! NetworkPolicies of the namespace: whether the metrics-adapters may connect to port 9090 of the
//! pods.

use std::net::IpAddr;

use autoscaler::contract::QUEUE_PROXY_STATS_PORT;
use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::selection::{Labels, matches};
use crate::check::finding::Finding;
use crate::check::workload_objects::{Peer, WorkloadObjects};

/// Name of the port in the sidecar's container.
const PORT_NAME: &str = "queue-stats";

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let labels =
        workload.template.as_ref().filter(|_| workload.has_sidecar)?.metadata.as_ref()?.labels.as_ref()?;
    let selecting: Vec<&NetworkPolicy> =
        workload.network_policies.iter().filter(|policy| restricts(policy, labels)).collect();
    let first = selecting.first()?;
    let blocked = workload.collectors.iter().any(|peer| {
        !selecting.iter().any(|policy| rules(policy).iter().any(|rule| allows(workload, rule, peer)))
    });
    blocked.then(|| {
        let object = format!("NetworkPolicy {}/{}", workload.key.namespace, first.name_any());
        let problem = format!(
            "it selects the pods of {}, and no NetworkPolicy lets the metrics-adapter connect to their port \
             {QUEUE_PROXY_STATS_PORT}: there is no metric, and HPAs keep their sizes",
            workload.target_name()
        );
        let fix = "allow ingress from namespace rouse-system to ports 9090/TCP, 9090/UDP and 8022/TCP, as the NetworkPolicy in \
                   docs/reference/ports.md";
        Finding::error(object, "StatisticsBlocked", problem, fix)
    })
}

/// Whether a policy selects such pods and restricts ingress.
fn restricts(policy: &NetworkPolicy, labels: &Labels) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let is_ingress = spec.policy_types.as_ref().is_none_or(|types| types.iter().any(|it| it == "Ingress"));
    is_ingress && spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, labels))
}

fn rules(policy: &NetworkPolicy) -> &[NetworkPolicyIngressRule] {
    policy.spec.as_ref().and_then(|spec| spec.ingress.as_deref()).unwrap_or_default()
}

fn allows(workload: &WorkloadObjects, rule: &NetworkPolicyIngressRule, peer: &Peer) -> bool {
    let from = rule.from.as_deref().unwrap_or_default();
    let ports = rule.ports.as_deref().unwrap_or_default();
    (from.is_empty() || from.iter().any(|it| includes(workload, it, peer)))
        && (ports.is_empty() || ports.iter().any(is_statistics))
}

fn includes(workload: &WorkloadObjects, from: &NetworkPolicyPeer, peer: &Peer) -> bool {
    if let Some(block) = &from.ip_block {
        // What is unknown is no finding.
        return peer.address.is_none_or(|address| contains(block, address));
    }
    let namespace =
        from.namespace_selector.as_ref().map_or(peer.namespace == workload.key.namespace, |selector| {
            matches(selector, &peer.namespace_labels)
        });
    namespace && from.pod_selector.as_ref().is_none_or(|selector| matches(selector, &peer.labels))
}

fn is_statistics(port: &NetworkPolicyPort) -> bool {
    let number = i32::from(QUEUE_PROXY_STATS_PORT);
    let is_tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    is_tcp
        && match &port.port {
            None => true,
            Some(IntOrString::Int(first)) => (*first..=port.end_port.unwrap_or(*first)).contains(&number),
            Some(IntOrString::String(name)) => name == PORT_NAME,
        }
}

fn contains(block: &IPBlock, address: IpAddr) -> bool {
    let within = |cidr: &str| is_within(cidr, address).unwrap_or(false);
    within(&block.cidr) && !block.except.iter().flatten().any(|cidr| within(cidr))
}

fn is_within(cidr: &str, address: IpAddr) -> Option<bool> {
    let (network, length) = cidr.split_once('/')?;
    let (network, length): (IpAddr, u32) = (network.parse().ok()?, length.parse().ok()?);
    Some(match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32u32.checked_sub(length)?;
            u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift) || length == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128u32.checked_sub(length)?;
            u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift) || length == 0
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses() {
        for (cidr, address, expected) in [
            ("10.0.0.0/8", "10.200.1.2", true),
            ("10.0.0.0/24", "10.0.1.2", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "10.0.0.1", false),
            ("10.0.0.0/40", "10.0.0.1", false),
        ] {
            assert_eq!(
                is_within(cidr, address.parse().unwrap()).unwrap_or(false),
                expected,
                "{cidr} {address}"
            );
        }
    }
}
