//! What NetworkPolicies let through.
//!
//! Input: all policies of a pod's namespace, the pod's labels, and [`Traffic`]. Output: the first
//! policy that selects the pod, if no such policy lets the traffic through. Traffic with unknown
//! parts, such as the address of a peer, counts as let through.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Labels, matches};

/// Port of the cluster's DNS.
const DNS: i32 = 53;

/// A pod at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    pub namespace: String,
    pub namespace_labels: BTreeMap<String, String>,
    pub labels: BTreeMap<String, String>,
    /// Its address; `None` if it is unknown.
    pub address: Option<IpAddr>,
}

/// Connections to a port of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// The client; `None` for clients that are not known, which any rule may mean.
    pub from: Option<&'a Peer>,
    /// The port's number.
    pub port: u16,
    /// The port's name in the container, if it has one.
    pub name: Option<&'a str>,
    /// `TCP` or `UDP`.
    pub protocol: &'a str,
}

/// The first policy that selects a pod with these labels for ingress, if no such policy allows the
/// traffic.
pub fn blocking_ingress<'a>(
    policies: &'a [NetworkPolicy],
    namespace: &str,
    labels: &Labels,
    traffic: Traffic<'_>,
) -> Option<&'a NetworkPolicy> {
    let selecting: Vec<&NetworkPolicy> =
        policies.iter().filter(|policy| selects(policy, "Ingress", labels)).collect();
    let allowed = selecting.iter().any(|policy| {
        let rules = policy.spec.as_ref().and_then(|spec| spec.ingress.as_deref()).unwrap_or_default();
        rules.iter().any(|rule| allows(rule, namespace, traffic))
    });
    selecting.first().copied().filter(|_| !allowed)
}

/// The first policy that selects a pod with these labels for egress, if no such policy has a rule
/// for more than DNS.
pub fn closing_egress<'a>(policies: &'a [NetworkPolicy], labels: &Labels) -> Option<&'a NetworkPolicy> {
    let selecting: Vec<&NetworkPolicy> =
        policies.iter().filter(|policy| selects(policy, "Egress", labels)).collect();
    let has_rule = selecting
        .iter()
        .filter_map(|policy| policy.spec.as_ref())
        .flat_map(|spec| spec.egress.iter().flatten())
        .any(|rule| rule.ports.as_ref().is_none_or(|ports| !ports.iter().all(is_dns)));
    selecting.first().copied().filter(|_| !has_rule)
}

/// Whether a policy selects such pods for a direction. Without types a policy is for ingress, and
/// for egress if it has rules for it.
fn selects(policy: &NetworkPolicy, direction: &str, labels: &Labels) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let is_for = spec.policy_types.as_ref().map_or_else(
        || direction == "Ingress" || spec.egress.is_some(),
        |types| types.iter().any(|it| it == direction),
    );
    is_for && spec.pod_selector.as_ref().is_none_or(|selector| matches(selector, labels))
}

fn allows(rule: &NetworkPolicyIngressRule, namespace: &str, traffic: Traffic<'_>) -> bool {
    let from = rule.from.as_deref().unwrap_or_default();
    let ports = rule.ports.as_deref().unwrap_or_default();
    let is_client = traffic
        .from
        .is_none_or(|peer| from.is_empty() || from.iter().any(|it| includes(it, namespace, peer)));
    is_client && (ports.is_empty() || ports.iter().any(|port| is(port, traffic)))
}

fn includes(from: &NetworkPolicyPeer, namespace: &str, peer: &Peer) -> bool {
    if let Some(block) = &from.ip_block {
        return peer.address.is_none_or(|address| contains(block, address));
    }
    let is_namespace = from
        .namespace_selector
        .as_ref()
        .map_or(peer.namespace == namespace, |selector| matches(selector, &peer.namespace_labels));
    is_namespace && from.pod_selector.as_ref().is_none_or(|selector| matches(selector, &peer.labels))
}

fn is(port: &NetworkPolicyPort, traffic: Traffic<'_>) -> bool {
    port.protocol.as_deref().unwrap_or("TCP") == traffic.protocol
        && match &port.port {
            None => true,
            Some(IntOrString::Int(first)) => {
                (*first..=port.end_port.unwrap_or(*first)).contains(&i32::from(traffic.port))
            }
            Some(IntOrString::String(name)) => traffic.name == Some(name),
        }
}

fn is_dns(port: &NetworkPolicyPort) -> bool {
    port.port == Some(IntOrString::Int(DNS)) && port.end_port.is_none()
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
