//! Endpoints as JSON, for each mode and each kind of Service.

use autoscaler::Key;
use serde_json::{Value, json};

use super::*;
use std::sync::Arc;

pub(in super::super) fn endpoint(address: &str, ready: bool) -> PodEndpoint {
    let family = if address.contains(':') { "IPv6" } else { "IPv4" };
    let endpoint = json!({"addresses": [address], "conditions": {"ready": ready, "serving": ready, "terminating": !ready}});
    PodEndpoint {
        family: family.into(),
        endpoint: serde_json::from_value(endpoint).unwrap(),
        ports: Arc::default(),
    }
}

pub(in super::super) fn observed(mode: &str, managed: bool, pods: &[PodEndpoint]) -> ObservedService {
    let selector = if managed { Value::Null } else { json!({"app": "web"}) };
    ObservedService {
        key: Key::new("shop", "web"),
        sks: serde_json::from_value(json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u-2"},
            "spec": {"service": "web", "selector": "app=web", "mode": mode, "numActivators": 2},
        }))
        .unwrap(),
        service: Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {
                "selector": selector, "ipFamilies": ["IPv4"], "clusterIP": "10.96.0.9",
                "ports": [{"name": "http", "port": 80}, {"name": "h2", "port": 81, "appProtocol": "kubernetes.io/h2c"}],
            }}))
            .unwrap(),
        ),
        managed,
        private: managed.then(|| "web-private".into()),
        private_service: None,
        private_taken: None,
        without_pods: false,
        ports: serde_json::from_value(json!([
            {"name": "http", "servicePort": 80, "activatorPort": 20001, "podPort": 8012},
            {"name": "h2", "servicePort": 81, "activatorPort": 20002, "podPort": 8012},
        ]))
        .unwrap(),
        pods: pods.to_vec(),
        slices: Vec::new(),
        foreign_slices: Vec::new(),
        activators: vec![endpoint("10.2.0.1", true), endpoint("10.2.0.2", true)],
        activators_leaving: false,
        namespace_deleted_for: None,
        start_failure: None,
        unleased: None,
        other_targets: Vec::new(),
        missing_port: None,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

/// (addresses, ports) of each slice.
fn shape(slices: &[EndpointSlice]) -> Vec<(Vec<&str>, Vec<i32>)> {
    slices
        .iter()
        .map(|slice| {
            let endpoints = slice.endpoints.iter().flatten();
            let ports = slice.ports.iter().flatten();
            (endpoints.map(|e| e.addresses[0].as_str()).collect(), ports.filter_map(|p| p.port).collect())
        })
        .collect()
}

fn written(observed: &ObservedService, listening: &[PodEndpoint]) -> (ServingPath, Vec<EndpointSlice>) {
    let path = ServingPath::new(observed, listening.to_vec());
    let slices = slices(observed, &path);
    (path, slices)
}

#[test]
fn managed_service_routes_to_activators_on_leased_ports() {
    let observed = observed("Proxy", true, &[endpoint("10.1.0.1", true)]);
    let (path, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    assert_eq!(path.mode, SksMode::Proxy);
    assert_eq!(
        serde_json::to_value(&slices).unwrap(),
        json!([{
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-rouse-managed-ipv4", "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web", "autoscaling.rouse.dev/workload": "web",
                    "autoscaling.rouse.dev/managed-slice": "true",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                "ownerReferences": [{"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
                    "name": "web", "uid": "u-2", "controller": true}]},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.2.0.1"],
                "conditions": {"ready": true, "serving": true, "terminating": false}}],
            "ports": [{"name": "http", "port": 20001, "protocol": "TCP"},
                {"name": "h2", "port": 20002, "protocol": "TCP", "appProtocol": "kubernetes.io/h2c"}],
        }])
    );
}

/// Without them, UDP beside TCP has no endpoint as soon as Rouse manages the Service.
#[test]
fn ports_of_other_protocols_lead_to_pods_in_both_modes() {
    let pod = PodEndpoint {
        ports: serde_json::from_value::<Vec<EndpointPort>>(json!([
            {"name": "http", "port": 8012}, {"name": "rouse-udp-53", "port": 5353}]))
        .unwrap()
        .into(),
        ..endpoint("10.1.0.1", true)
    };
    for (mode, tcp) in [("Proxy", vec!["10.2.0.1"]), ("Serve", vec!["10.1.0.1"])] {
        let mut observed = observed(mode, true, std::slice::from_ref(&pod));
        let udp = json!({"name": "dns", "port": 53, "protocol": "UDP", "targetPort": "dns"});
        let ports = Arc::make_mut(&mut observed.service).spec.as_mut().unwrap().ports.as_mut().unwrap();
        ports.push(serde_json::from_value(udp).unwrap());
        let (_, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
        assert_eq!((shape(&slices)[0].0.clone(), slices.len()), (tcp, 2), "{mode}");
        assert_eq!(slices[1].metadata.name.as_deref(), Some("web-rouse-managed-direct-ipv4"));
        assert_eq!(
            serde_json::to_value((&slices[1].ports, &slices[1].endpoints.as_ref().unwrap()[0].addresses))
                .unwrap(),
            json!([[{"name": "dns", "port": 5353, "protocol": "UDP"}], ["10.1.0.1"]])
        );
    }
    let attached = observed("Proxy", false, std::slice::from_ref(&pod));
    assert_eq!(written(&attached, &[endpoint("10.2.0.1", true)]).1.len(), 1, "Kubernetes writes the others");
}

#[test]
fn managed_service_keeps_conditions_of_pods() {
    let pods = [endpoint("10.1.0.1", false), endpoint("10.1.0.2", true)];
    let observed = observed("Serve", true, &pods);
    let (path, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    assert_eq!((path.mode, path.activators.len()), (SksMode::Serve, 0));
    assert_eq!(shape(&slices), [(vec!["10.1.0.2", "10.1.0.1"], vec![8012, 8012])]);
    let terminating = slices[0].endpoints.as_ref().unwrap()[1].conditions.as_ref().unwrap().terminating;
    assert_eq!(terminating, Some(true));
}

/// While a rollout changes the sidecar's port. A slice without a ready endpoint that is written
/// first would leave the Service without one until the second is written.
#[test]
fn pods_with_other_sidecar_ports_are_in_a_second_slice_behind_ready_ones() {
    let with_port = |address, ready, port: u16| {
        let ports: Vec<_> = serde_json::from_value(json!([{"name": "http", "port": port}])).unwrap();
        PodEndpoint { ports: ports.into(), ..endpoint(address, ready) }
    };
    for (first_ready, expected) in [
        (true, [(vec!["10.1.0.1"], vec![18012, 18012]), (vec!["10.1.0.2"], vec![8012, 8012])]),
        (false, [(vec!["10.1.0.2"], vec![8012, 8012]), (vec!["10.1.0.1"], vec![18012, 18012])]),
    ] {
        let pods = [with_port("10.1.0.1", first_ready, 18012), with_port("10.1.0.2", true, 8012)];
        let (_, slices) = written(&observed("Serve", true, &pods), &[]);
        assert_eq!(shape(&slices), expected);
        assert_eq!(slices[1].metadata.name.as_deref(), Some("web-rouse-managed-ipv4-1"));
    }
}

#[test]
fn attached_service_has_our_slice_only_in_proxy_mode() {
    let pods = [endpoint("10.1.0.1", true)];
    let (_, slices) = written(&observed("Proxy", false, &pods), &[endpoint("10.2.0.1", true)]);
    assert_eq!(shape(&slices), [(vec!["10.2.0.1"], vec![20001, 20002])]);
    let labels = slices[0].metadata.labels.as_ref().unwrap();
    assert_eq!(labels[SLICE_MANAGED_BY], SLICE_MANAGER, "Kubernetes would delete it beside its own");
    assert!(!labels.contains_key(MANAGED_SLICE));
    let (_, slices) = written(&observed("Serve", false, &pods), &[endpoint("10.2.0.1", true)]);
    assert_eq!(shape(&slices), []);
    // No pod is ready: the activators enter in either mode.
    let (path, slices) = written(&observed("Serve", false, &[]), &[endpoint("10.2.0.1", true)]);
    assert_eq!((path.mode, slices.len()), (SksMode::Proxy, 1));
}

#[test]
fn service_has_endpoints_while_any_backend_is_ready() {
    let pods = [endpoint("10.1.0.1", true)];
    // No activator listens: the pods.
    let (path, slices) = written(&observed("Proxy", true, &pods), &[]);
    assert_eq!(path.mode, SksMode::Serve);
    assert_eq!(shape(&slices), [(vec!["10.1.0.1"], vec![8012, 8012])]);
    // Nor is a pod ready: the activators that are in the endpoints already, and still ready.
    let mut without_pods = observed("Proxy", true, &[]);
    let mut gone = without_pods.activators.clone();
    gone.push(endpoint("10.2.0.9", true));
    let before = ServingPath { mode: SksMode::Proxy, activators: gone, ports: without_pods.ports.clone() };
    without_pods.slices = super::slices(&without_pods, &before).into_iter().map(Arc::new).collect();
    let (path, slices) = written(&without_pods, &[]);
    assert_eq!(path.mode, SksMode::Proxy);
    assert_eq!(shape(&slices)[0].0, ["10.2.0.1", "10.2.0.2"]);
    // No endpoint at all: an empty slice, so that connections are refused.
    let (_, slices) = written(&observed("Proxy", true, &[]), &[]);
    assert_eq!(shape(&slices)[0].0, [""; 0]);
}

#[test]
fn each_ip_family_has_its_own_slice_and_fallback() {
    let pods = [endpoint("10.1.0.1", true), endpoint("fd00::1", true)];
    let mut dual = observed("Proxy", true, &pods);
    Arc::get_mut(&mut dual.service).unwrap().spec.as_mut().unwrap().ip_families =
        Some(vec!["IPv4".into(), "IPv6".into()]);
    let (_, slices) = written(&dual, &[endpoint("10.2.0.1", true)]);
    assert_eq!(shape(&slices), [(vec!["10.2.0.1"], vec![20001, 20002]), (vec!["fd00::1"], vec![8012, 8012])]);
    assert_eq!(slices[1].metadata.name.as_deref(), Some("web-rouse-managed-ipv6"));
}

#[test]
fn more_than_a_thousand_pods_need_a_second_slice() {
    let pods: Vec<_> =
        (0..1001).map(|i| endpoint(&format!("10.1.{}.{}", i / 200, i % 200), i != 0)).collect();
    let (_, slices) = written(&observed("Serve", true, &pods), &[]);
    let sizes: Vec<_> = slices.iter().map(|s| s.endpoints.as_ref().map_or(0, Vec::len)).collect();
    assert_eq!(sizes, [1000, 1]);
    assert_eq!(slices[1].metadata.name.as_deref(), Some("web-rouse-managed-ipv4-1"));
    // The one that is not ready comes last.
    assert_eq!(shape(&slices)[1].0, ["10.1.0.0"]);
}

#[test]
fn the_private_service_selects_the_pods_at_their_sidecar() {
    let observed = observed("Serve", true, &[]);
    assert_eq!(
        private_service(&observed).unwrap()["spec"],
        json!({
            "clusterIP": "None", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 8012, "protocol": "TCP", "targetPort": "queue-proxy"}],
        })
    );
}

/// The Service prefers endpoints of the client's zone, as do the pods' endpoints by Kubernetes.
fn in_zones(mode: &str, managed: bool) -> (ObservedService, PodEndpoint) {
    let in_zone = |address: &str, zone: &str| {
        let mut endpoint = endpoint(address, true);
        endpoint.endpoint.zone = Some(zone.into());
        endpoint
    };
    let mut pod = in_zone("10.1.0.1", "a");
    pod.endpoint.hints = serde_json::from_value(json!({"forZones": [{"name": "a"}]})).unwrap();
    let mut observed = observed(mode, managed, &[pod]);
    Arc::make_mut(&mut observed.service).spec.as_mut().unwrap().traffic_distribution =
        Some("PreferSameZone".into());
    (observed, in_zone("10.2.0.1", "b"))
}

fn hints(slices: &[EndpointSlice]) -> Vec<Value> {
    let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
    endpoints.map(|endpoint| serde_json::to_value(&endpoint.hints).unwrap()).collect()
}

#[test]
fn clients_that_prefer_their_zone_find_pods_and_activators_of_it() {
    for (mode, managed, zone) in [("Serve", true, "a"), ("Proxy", true, "b"), ("Proxy", false, "b")] {
        let (observed, activator) = in_zones(mode, managed);
        let (_, slices) = written(&observed, &[activator]);
        assert_eq!(hints(&slices), [json!({"forZones": [{"name": zone}]})], "{mode}, managed: {managed}");
    }
}

#[test]
fn private_service_has_the_topology_of_the_public_one() {
    let (mut observed, _) = in_zones("Serve", true);
    Arc::make_mut(&mut observed.service).metadata.annotations =
        Some([("service.kubernetes.io/topology-mode".to_owned(), "Auto".to_owned())].into());
    let private = private_service(&observed).unwrap();
    assert_eq!(private["spec"]["trafficDistribution"], "PreferSameZone");
    assert_eq!(private["metadata"]["annotations"], json!({"service.kubernetes.io/topology-mode": "Auto"}));
}

/// A Service with a named and a numbered target port, for pods without sidecar.
fn without_sidecar(pods: &[(&str, u16)]) -> ObservedService {
    let pod = |(address, number): &(&str, u16)| {
        let ports: Vec<EndpointPort> =
            serde_json::from_value(json!([{"name": "rouse-80", "port": number}])).unwrap();
        PodEndpoint { ports: ports.into(), ..endpoint(address, true) }
    };
    let pods: Vec<_> = pods.iter().map(pod).collect();
    let mut observed = observed("Proxy", true, &pods);
    observed.sks.spec.sidecar = autoscaler::settings::SidecarMode::None;
    let service = Arc::make_mut(&mut observed.service);
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}, {"name": "admin", "port": 81, "targetPort": 9000}]);
    service.spec.as_mut().unwrap().ports = serde_json::from_value(ports).unwrap();
    observed
}

#[test]
fn pods_without_sidecar_serve_at_their_own_ports_if_no_activator_does() {
    let observed = without_sidecar(&[("10.1.0.1", 3000), ("10.1.0.2", 3001), ("10.1.0.3", 3000)]);
    let (path, slices) = written(&observed, &[]);
    assert_eq!(path.mode, SksMode::Serve);
    assert_eq!(
        shape(&slices),
        [(vec!["10.1.0.1", "10.1.0.3"], vec![3000, 9000]), (vec!["10.1.0.2"], vec![3001, 9000])]
    );
    assert_eq!(slices[1].metadata.name.as_deref(), Some("web-rouse-managed-ipv4-1"));
    let (path, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    assert_eq!((path.mode, shape(&slices)), (SksMode::Proxy, vec![(vec!["10.2.0.1"], vec![20001, 20002])]));
}

#[test]
fn private_service_of_pods_without_sidecar_has_the_apps_ports() {
    let ports = private_service(&without_sidecar(&[])).unwrap()["spec"]["ports"].clone();
    assert_eq!((&ports[0]["targetPort"], &ports[1]["targetPort"]), (&json!("web"), &json!(9000)));
}

#[test]
fn unchanged_slice_is_as_desired() {
    let observed = observed("Proxy", true, &[]);
    let (_, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    let mut existing = slices[0].clone();
    existing.metadata.resource_version = Some("7".into());
    existing.metadata.labels.get_or_insert_default().insert("more".into(), "x".into());
    assert!(is_as_desired(&existing, &slices[0]));
    let mut orphan = existing.clone();
    orphan.metadata.owner_references.as_mut().unwrap()[0].uid = "u-1".into();
    assert!(!is_as_desired(&orphan, &slices[0]), "it would be deleted with its former owner");
    existing.ports = None;
    assert!(!is_as_desired(&existing, &slices[0]));
}

#[test]
fn unverified_port_is_in_no_slice_even_without_pods() {
    let mut without_pods = observed("Proxy", true, &[]);
    let before = ServingPath::new(&without_pods, without_pods.activators.clone());
    without_pods.slices = super::slices(&without_pods, &before).into_iter().map(Arc::new).collect();
    without_pods.ports[1].activator_port = 20003;
    let (path, slices) = written(&without_pods, &[]);
    assert_eq!(path.mode, SksMode::Proxy);
    assert_eq!(shape(&slices), [(vec!["10.2.0.1", "10.2.0.2"], vec![20001])]);
    without_pods.ports[0].activator_port = 20004;
    let (_, slices) = written(&without_pods, &[]);
    assert_eq!(shape(&slices)[0].0, [""; 0]);
}

#[test]
fn workload_without_activator_port_is_served_by_pods() {
    let mut observed = observed("Proxy", true, &[endpoint("10.1.0.1", true)]);
    observed.unleased = Some(autoscaler::routing::port_lease::PortLeaseError::Exhausted { service_port: 81 });
    let (path, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    assert_eq!(path.mode, SksMode::Serve);
    assert_eq!(shape(&slices), [(vec!["10.1.0.1"], vec![8012, 8012])]);
    // Without pods a part is better than nothing.
    observed.pods.clear();
    observed.ports.pop();
    let (_, slices) = written(&observed, &[endpoint("10.2.0.1", true)]);
    assert_eq!(shape(&slices), [(vec!["10.2.0.1"], vec![20001])]);
}
