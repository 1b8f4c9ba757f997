//! The pods behind a workload's Service, from slices that others write.
//!
//! Input: the slices that Kubernetes keeps for the private Service (managed mode) or for the public one (attached mode).
//! Output: endpoints for our own slices, and how many pods are ready. Read by both reconcilers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_PORT};
use k8s_openapi::api::core::v1::ServicePort;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::cache::service::Service;
use crate::cache::slice_index::{SliceIndex, is_ours};

/// An endpoint and its address family, `IPv4` or `IPv6`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEndpoint {
    /// The slice's address type.
    pub family: String,
    /// One address, with the conditions that Kubernetes gave it.
    pub endpoint: Endpoint,
}

/// Whether the zero-scaler owns the Service's endpoints: it selects nothing itself.
pub fn is_managed(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.selector.as_ref()).is_none_or(BTreeMap::is_empty)
}

/// The Service's ports that can be led to activators: those that lead to the sidecar. Of a managed Service all do, since its
/// endpoints are ours.
pub fn routable_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let managed = is_managed(service);
    tcp_ports(service).filter(move |port| managed || names_sidecar(port))
}

/// Whether a port's target is the sidecar.
pub fn names_sidecar(port: &ServicePort) -> bool {
    match &port.target_port {
        Some(IntOrString::String(name)) => name == QUEUE_PROXY,
        Some(IntOrString::Int(number)) => *number == i32::from(QUEUE_PROXY_PORT),
        None => port.port == i32::from(QUEUE_PROXY_PORT),
    }
}

/// The Service's ports that speak TCP.
pub fn tcp_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"))
}

/// The pods of a workload, ready or not.
pub fn pods(
    slices: &SliceIndex,
    namespace: &str,
    service: &Service,
    private: Option<&str>,
) -> Vec<PodEndpoint> {
    if is_managed(service) {
        let Some(private) = private else { return Vec::new() };
        let with_sidecar = |slice: &EndpointSlice| {
            slice.ports.iter().flatten().any(|port| port.port == Some(i32::from(QUEUE_PROXY_PORT)))
        };
        collect(&slices.of(namespace, private), with_sidecar)
    } else {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        collect(&slices.of(namespace, name), |slice| !is_ours(slice))
    }
}

/// The numbers that pods give to the sidecar's port, where these are not the usual one. Kubernetes makes slices of their own for
/// such pods. No activator finds them: it knows the pods' addresses, and the port by contract.
pub fn nonstandard_sidecar_ports(
    slices: &SliceIndex,
    namespace: &str,
    service: &Service,
    private: Option<&str>,
) -> BTreeSet<i32> {
    let by_name = |port: &&ServicePort| {
        private.is_none() && port.target_port == Some(IntOrString::String(QUEUE_PROXY.to_owned()))
    };
    let names: BTreeSet<&str> =
        tcp_ports(service).filter(by_name).map(|port| port.name.as_deref().unwrap_or_default()).collect();
    let name = private.or(service.metadata.name.as_deref()).unwrap_or_default();
    let slices = slices.of(namespace, name);
    let of_others = slices.iter().filter(|slice| !is_ours(slice) && has_endpoints(slice));
    let ports = of_others.flat_map(|slice| slice.ports.iter().flatten());
    ports
        .filter(|port| private.is_some() || names.contains(port.name.as_deref().unwrap_or_default()))
        .filter_map(|port| port.port.filter(|number| *number != i32::from(QUEUE_PROXY_PORT)))
        .collect()
}

fn has_endpoints(slice: &EndpointSlice) -> bool {
    slice.endpoints.as_ref().is_some_and(|endpoints| !endpoints.is_empty())
}

/// How many of these take requests.
pub fn ready(pods: &[PodEndpoint]) -> u32 {
    // A dual-stack pod has an address in each family and is still one pod.
    let count = |family: &str| pods.iter().filter(|p| p.family == family && is_ready(&p.endpoint)).count();
    u32::try_from(count("IPv4").max(count("IPv6"))).unwrap_or(u32::MAX)
}

/// Whether an endpoint takes requests; nothing said means yes, by the API's definition.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true)
}

/// What of an endpoint belongs into a slice of ours. Hints are left out: they are computed for a slice as a whole.
pub fn carried(endpoint: &Endpoint) -> Endpoint {
    Endpoint {
        addresses: endpoint.addresses.clone(),
        conditions: endpoint.conditions.clone(),
        node_name: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        target_ref: endpoint.target_ref.clone(),
        ..Endpoint::default()
    }
}

/// Each address once, in the order of addresses.
fn collect(slices: &[Arc<EndpointSlice>], wanted: impl Fn(&EndpointSlice) -> bool) -> Vec<PodEndpoint> {
    let mut by_address = BTreeMap::new();
    for slice in slices.iter().filter(|slice| wanted(slice)) {
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(address) = endpoint.addresses.first() else { continue };
            let pod = PodEndpoint { family: slice.address_type.clone(), endpoint: carried(endpoint) };
            by_address.insert(address.clone(), pod);
        }
    }
    by_address.into_values().collect()
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::SLICE_MANAGER;
    use kube::runtime::watcher::Event;

    use super::*;
    use crate::cache::slice_index::{MANAGED_BY, SERVICE_NAME};

    fn slice(
        name: &str,
        service: &str,
        manager: &str,
        port: u16,
        endpoints: &serde_json::Value,
    ) -> EndpointSlice {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {SERVICE_NAME: service, MANAGED_BY: manager}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": port}],
        }))
        .unwrap()
    }

    fn service(selector: &serde_json::Value) -> Service {
        serde_json::from_value(
            serde_json::json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"selector": selector}}),
        )
        .unwrap()
    }

    #[test]
    fn pods_come_from_the_private_service_or_from_slices_that_are_not_ours() {
        let index = SliceIndex::default();
        let two = serde_json::json!([
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}]}},
        ]);
        let none = serde_json::json!([{"addresses": ["10.9.9.9"]}]);
        index.apply(&Event::Apply(slice("p", "web-private", "k8s", QUEUE_PROXY_PORT, &two)));
        index.apply(&Event::Apply(slice("q", "web-private", "k8s", 8080, &none)));
        index.apply(&Event::Apply(slice("ours", "web", SLICE_MANAGER, 20000, &none)));
        index.apply(&Event::Apply(slice("theirs", "web", "k8s", QUEUE_PROXY_PORT, &two)));

        let managed = service(&serde_json::Value::Null);
        let attached = service(&serde_json::json!({"app": "web"}));
        assert!(is_managed(&managed) && !is_managed(&attached));
        assert_eq!(
            nonstandard_sidecar_ports(&index, "shop", &managed, Some("web-private")),
            BTreeSet::from([8080])
        );
        assert!(pods(&index, "shop", &managed, None).is_empty());
        for (service, private) in [(&managed, Some("web-private")), (&attached, None)] {
            let pods = pods(&index, "shop", service, private);
            assert_eq!(pods.len(), 2);
            assert_eq!(ready(&pods), 1);
            assert_eq!(pods[0].endpoint.hints, None);
            assert_eq!(pods[1].endpoint.conditions.as_ref().and_then(|c| c.terminating), Some(true));
        }
    }
}
