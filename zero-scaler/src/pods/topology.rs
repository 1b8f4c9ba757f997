//! TopologyHints: which clients an activator in the endpoints is near to.
//!
//! Input: the Service's `trafficDistribution`, or its annotation for topology mode. Output: hints
//! for the endpoints of activators, as Kubernetes writes them for its own endpoints. Pods keep the
//! hints of the slices that they are read from.
//!
//! kube-proxy uses hints only while every ready endpoint of the Service has some. Activators
//! without hints would thus disable the hints of an attached Service's pods.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, ForNode, ForZone};

use crate::cache::service::has_topology_mode;

/// Which clients prefer an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    Zone,
    Node,
}

/// The hints of an activator for this Service; none if its clients have no preference.
pub(crate) fn hints_of_activator(service: &Service, activator: &Endpoint) -> Option<EndpointHints> {
    let near = near(service)?;
    let for_zones = activator.zone.clone().map(|name| vec![ForZone { name }]);
    let node = activator.node_name.clone().filter(|_| near == Near::Node);
    let for_nodes = node.map(|name| vec![ForNode { name }]);
    (for_zones.is_some() || for_nodes.is_some()).then_some(EndpointHints { for_nodes, for_zones })
}

fn near(service: &Service) -> Option<Near> {
    // As in Kubernetes, the annotation has precedence. Its shares of zones follow the CPUs of their
    // nodes; a few activators are not divided by CPUs.
    if has_topology_mode(service) {
        return Some(Near::Zone);
    }
    match service.spec.as_ref()?.traffic_distribution.as_deref()? {
        "PreferClose" | "PreferSameZone" => Some(Near::Zone),
        "PreferSameNode" => Some(Near::Node),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cache::service::trimmed;

    fn hints(service: &Value, activator: &Value) -> Value {
        let service: Service = serde_json::from_value(service.clone()).unwrap();
        let activator: Endpoint = serde_json::from_value(activator.clone()).unwrap();
        serde_json::to_value(hints_of_activator(&trimmed(&service), &activator)).unwrap()
    }

    #[test]
    fn activators_have_the_hints_that_kubernetes_gives_to_pods() {
        let of = |distribution: &str| json!({"metadata": {}, "spec": {"trafficDistribution": distribution}});
        let activator = json!({"addresses": ["10.2.0.1"], "zone": "a", "nodeName": "node1"});
        let zone = json!({"forZones": [{"name": "a"}]});
        assert_eq!(hints(&of("PreferClose"), &activator), zone);
        assert_eq!(hints(&of("PreferSameZone"), &activator), zone);
        let node = json!({"forZones": [{"name": "a"}], "forNodes": [{"name": "node1"}]});
        assert_eq!(hints(&of("PreferSameNode"), &activator), node);
        assert_eq!(hints(&of("SomethingNew"), &activator), Value::Null);
        assert_eq!(hints(&json!({"metadata": {}, "spec": {}}), &activator), Value::Null);
        let annotated = |mode: &str| json!({"metadata": {"annotations": {"service.kubernetes.io/topology-mode": mode}}, "spec": {}});
        assert_eq!(hints(&annotated("Auto"), &activator), zone);
        assert_eq!(hints(&annotated("Disabled"), &activator), Value::Null);
    }

    #[test]
    fn activator_without_a_zone_has_no_zone_hint() {
        let service =
            |distribution: &str| json!({"metadata": {}, "spec": {"trafficDistribution": distribution}});
        let activator = json!({"addresses": ["10.2.0.1"], "nodeName": "node1"});
        assert_eq!(hints(&service("PreferClose"), &activator), Value::Null);
        assert_eq!(hints(&service("PreferSameNode"), &activator), json!({"forNodes": [{"name": "node1"}]}));
    }
}
