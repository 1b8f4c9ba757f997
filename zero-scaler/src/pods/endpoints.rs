//! Reads the pods of a workload's Service from the EndpointSlices that Kubernetes writes.
//!
//! Input: the slices of the private Service (managed mode) or of the public Service (attached
//! mode).
//! Output: endpoints for Rouse's own slices, and the number of ready pods. Both reconcilers use it.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::api::targets_sidecar;
use autoscaler::contract::QUEUE_PROXY_PORT;
use autoscaler::findings::service::ServiceFields;
use autoscaler::settings::SidecarMode;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};

use crate::cache::slice_index::{SliceIndex, is_ours};
use crate::pods::private_ports;
use crate::pods::target_port::tcp_ports;

/// An endpoint and its address family, `IPv4` or `IPv6`.
#[derive(Clone, Debug, PartialEq)]
pub struct PodEndpoint {
    /// The address type of the slice.
    pub family: String,
    /// One address, with the conditions from Kubernetes.
    pub endpoint: Endpoint,
    /// The ports of its slice, with their numbers on this endpoint.
    pub ports: Arc<[EndpointPort]>,
}

/// Whether the zero-scaler owns the endpoints of the Service, which then has no selector.
pub fn is_managed(service: &Service) -> bool {
    ServiceFields::of(service).is_managed()
}

/// The TCP ports that can be routed to activators: those that target the sidecar. In managed mode
/// all do, because Rouse writes the endpoints.
pub fn routable_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    let managed = is_managed(service);
    tcp_ports(service).filter(move |port| managed || targets_sidecar(port, QUEUE_PROXY_PORT))
}

/// The pods of a workload, ready or not: those with a sidecar, if it needs one.
pub fn pods(
    slices: &SliceIndex,
    namespace: &str,
    service: &Service,
    private: Option<&str>,
    sidecar: SidecarMode,
) -> Vec<PodEndpoint> {
    if is_managed(service) {
        let Some(private) = private else { return Vec::new() };
        let with_sidecar = |slice: &EndpointSlice| {
            private_ports::sidecar_port(slice.ports.as_deref().unwrap_or_default()).is_some()
        };
        collect(&slices.of(namespace, private), |slice| !sidecar.is_required() || with_sidecar(slice))
    } else {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        collect(&slices.of(namespace, name), |slice| !is_ours(slice))
    }
}

/// The number of ready pods.
pub fn ready(pods: &[PodEndpoint]) -> u32 {
    // A dual-stack pod has one endpoint per address family and counts once.
    let count = |family: &str| pods.iter().filter(|p| p.family == family && is_ready(&p.endpoint)).count();
    u32::try_from(count("IPv4").max(count("IPv6"))).unwrap_or(u32::MAX)
}

/// Whether an endpoint is ready. The API defines a missing condition as ready.
pub fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true)
}

/// A copy of an endpoint for Rouse's slices, with the hints that Kubernetes computed for the
/// Service of its slice.
pub fn copied(endpoint: &Endpoint) -> Endpoint {
    Endpoint {
        addresses: endpoint.addresses.clone(),
        conditions: endpoint.conditions.clone(),
        node_name: endpoint.node_name.clone(),
        zone: endpoint.zone.clone(),
        target_ref: endpoint.target_ref.clone(),
        hints: endpoint.hints.clone(),
        ..Endpoint::default()
    }
}

/// Each address once, sorted.
fn collect(slices: &[Arc<EndpointSlice>], filter: impl Fn(&EndpointSlice) -> bool) -> Vec<PodEndpoint> {
    let mut by_address = BTreeMap::new();
    for slice in slices.iter().filter(|slice| filter(slice)) {
        let ports: Arc<[EndpointPort]> = slice.ports.as_deref().unwrap_or_default().into();
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(address) = endpoint.addresses.first() else { continue };
            let (family, ports) = (slice.address_type.clone(), ports.clone());
            let pod = PodEndpoint { family, endpoint: copied(endpoint), ports };
            by_address.insert(address.clone(), pod);
        }
    }
    by_address.into_values().collect()
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::{SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE};
    use component_base::kubernetes::Decoded;
    use kube::runtime::watcher::Event;

    use super::*;

    fn slice(
        name: &str,
        service: &str,
        manager: &str,
        port: (&str, u16),
        endpoints: &serde_json::Value,
    ) -> Decoded<EndpointSlice> {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {SLICE_SERVICE: service, SLICE_MANAGED_BY: manager}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": port.0, "port": port.1}],
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
    fn reads_pods_of_private_service_or_from_kubernetes_slices() {
        let index = SliceIndex::default();
        let two = serde_json::json!([
            {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "a"}]}},
        ]);
        let other = serde_json::json!([{"addresses": ["10.9.9.9"]}]);
        index.apply(&Event::Apply(slice("p", "web-private", "k8s", ("http", 18012), &two)));
        index.apply(&Event::Apply(slice("q", "web-private", "k8s", ("rouse-80", 8080), &other)));
        index.apply(&Event::Apply(slice("ours", "web", SLICE_MANAGER, ("http", 20000), &other)));
        index.apply(&Event::Apply(slice("kubernetes", "web", "k8s", ("http", 18012), &two)));

        let managed = service(&serde_json::Value::Null);
        let attached = service(&serde_json::json!({"app": "web"}));
        assert!(is_managed(&managed) && !is_managed(&attached));
        assert!(pods(&index, "shop", &managed, None, SidecarMode::Required).is_empty());
        for (service, private) in [(&managed, Some("web-private")), (&attached, None)] {
            let pods = pods(&index, "shop", service, private, SidecarMode::Required);
            assert_eq!(pods.len(), 2);
            assert_eq!(ready(&pods), 1);
            let zones = pods[0].endpoint.hints.as_ref().and_then(|hints| hints.for_zones.as_ref());
            assert_eq!(zones.map(|zones| zones[0].name.as_str()), Some("a"));
            assert_eq!(pods[1].endpoint.conditions.as_ref().and_then(|c| c.terminating), Some(true));
        }
        let all = pods(&index, "shop", &managed, Some("web-private"), SidecarMode::None);
        let port = |pod: &PodEndpoint| pod.ports[0].port;
        assert_eq!(all.iter().map(port).collect::<Vec<_>>(), [Some(18012), Some(18012), Some(8080)]);
    }
}
