//! The slices of each mode, recorded for the tests of gateways and meshes, which read them with the
//! code of those programs.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::tests::{endpoint, observed};
use super::*;
use crate::cache::service::trimmed;
use std::sync::Arc;

/// Set to record the slices again: `ROUSE_RECORD=1 cargo test -p zero-scaler recorded_slices`.
const RECORD: &str = "ROUSE_RECORD";

/// A Service that leads to sidecars by the name of their port, in one of its states.
struct Case {
    state: &'static str,
    mode: &'static str,
    is_managed: bool,
    pods: Vec<PodEndpoint>,
    annotations: Value,
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance/front-doors/testdata/slices.json")
}

fn named(namespace: &str, name: &str, address: &str) -> PodEndpoint {
    let mut named = endpoint(address, true);
    let reference = json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": name});
    named.endpoint.target_ref = serde_json::from_value(reference).unwrap();
    named.endpoint.node_name = Some("node-1".to_owned());
    named.endpoint.zone = Some("a".to_owned());
    named
}

fn cases() -> Vec<Case> {
    let case = |state, mode, is_managed, pods: &[&str]| {
        let pods = pods.iter().enumerate();
        let pods = pods.map(|(i, address)| named("shop", &format!("web-{i}"), address)).collect();
        Case { state, mode, is_managed, pods, annotations: json!({}) }
    };
    let two = ["10.1.0.1", "10.1.0.2"];
    vec![
        case("managed, at zero", "Proxy", true, &[]),
        case("managed, through activators", "Proxy", true, &two),
        case("managed, straight to pods", "Serve", true, &two),
        case("attached, at zero", "Proxy", false, &[]),
        case("attached, through activators", "Proxy", false, &two),
        case("attached, straight to pods", "Serve", false, &two),
        Case {
            annotations: json!({"cloud.google.com/neg-status": "{}"}),
            ..case("managed, at zero, targets are pods", "Proxy", true, &[])
        },
    ]
}

fn observe(case: &Case) -> ObservedService {
    let mut observed = observed(case.mode, case.is_managed, &case.pods);
    let ports = [(80, "http", Value::Null), (81, "h2", json!("kubernetes.io/h2c")), (82, "tcp", Value::Null)];
    let of_service = ports.iter().map(|(number, name, protocol)| {
        json!({"name": name, "port": number, "appProtocol": protocol, "targetPort": "queue-proxy", "protocol": "TCP"})
    });
    let service = Arc::make_mut(&mut observed.service);
    service.metadata.annotations = serde_json::from_value(case.annotations.clone()).unwrap();
    service.spec.as_mut().unwrap().ports = serde_json::from_value(of_service.collect()).unwrap();
    observed.ports = serde_json::from_value(
        ports
            .iter()
            .map(|(number, name, _)| {
                json!({"name": name, "servicePort": number, "activatorPort": 20_000 + number, "podPort": 8012})
            })
            .collect(),
    )
    .unwrap();
    let activators = [("activator-0", "10.2.0.1"), ("activator-1", "10.2.0.2")];
    observed.activators = activators.map(|(name, address)| named("rouse-system", name, address)).to_vec();
    observed.service = Arc::new(trimmed(&observed.service));
    observed
}

/// What Kubernetes writes for a Service with a selector.
fn of_kubernetes(case: &Case, service: &Service) -> Option<EndpointSlice> {
    let endpoints: Vec<&Endpoint> = case.pods.iter().map(|pod| &pod.endpoint).collect();
    let ports = service.spec.as_ref()?.ports.iter().flatten().map(
        |port| json!({"name": port.name, "port": 8012, "protocol": "TCP", "appProtocol": port.app_protocol}),
    );
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-abcde", "namespace": "shop", "labels": {
            SLICE_SERVICE: "web", SLICE_MANAGED_BY: "endpointslice-controller.k8s.io"}},
        "endpoints": endpoints,
        "ports": if endpoints.is_empty() { json!([]) } else { ports.collect() },
    });
    (!case.is_managed).then(|| serde_json::from_value(slice).unwrap())
}

/// The addresses of a Service port that a reader of the slices must find.
fn expected(path: &ServingPath, case: &Case, service_port: i32) -> Vec<String> {
    let on = |pods: &[PodEndpoint], number: u16| -> Vec<String> {
        let addresses = pods.iter().flat_map(|pod| pod.endpoint.addresses.clone());
        addresses.map(|address| format!("{address}:{number}")).collect()
    };
    let lease = path.ports.iter().find(|lease| i32::from(lease.service_port) == service_port);
    let mut found = lease.map_or_else(Vec::new, |lease| on(&path.activators, lease.activator_port));
    if path.mode == SksMode::Serve || !case.is_managed {
        found.extend(on(&case.pods, QUEUE_PROXY_PORT));
    }
    found.sort();
    found
}

fn recorded(case: &Case) -> Value {
    let observed = observe(case);
    let path = ServingPath::new(&observed, observed.activators.clone());
    let mut all: Vec<EndpointSlice> = of_kubernetes(case, &observed.service).into_iter().collect();
    all.extend(slices(&observed, &path));
    let ports = observed.service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let ports = ports.map(|port| (port.name.clone().unwrap_or_default(), expected(&path, case, port.port)));
    json!({
        "state": case.state,
        "service": *observed.service,
        "slices": all,
        "expected": ports.collect::<BTreeMap<_, _>>(),
    })
}

/// A difference is a change of what gateways and meshes read: record it, and run their tests.
#[test]
fn recorded_slices_are_those_that_are_written() {
    let cases: Vec<Value> = cases().iter().map(recorded).collect();
    let text = format!("{}\n", serde_json::to_string_pretty(&cases).unwrap());
    if std::env::var_os(RECORD).is_some() {
        fs::write(recording(), &text).unwrap();
    }
    assert_eq!(fs::read_to_string(recording()).unwrap(), text, "{RECORD}=1 records them");
}

/// An activator is found by its leased port, which no pod names: a mesh that follows the reference
/// to the pod sends to the Service's targetPort instead.
#[test]
fn activators_name_their_pod_only_for_load_balancers_that_need_it() {
    let names_pods = |annotations: Value| {
        let case = Case { state: "", mode: "Proxy", is_managed: true, pods: Vec::new(), annotations };
        recorded(&case).pointer("/slices/0/endpoints/0/targetRef").is_some()
    };
    for annotations in [
        json!({"cloud.google.com/neg-status": "{}"}),
        json!({"alb.ingress.kubernetes.io/target-type": "ip"}),
        json!({"service.beta.kubernetes.io/aws-load-balancer-nlb-target-type": "ip"}),
    ] {
        assert!(names_pods(annotations.clone()), "{annotations}");
    }
    for annotations in [
        json!({}),
        json!({"alb.ingress.kubernetes.io/target-type": "instance"}),
        json!({"cloud.google.com/neg": r#"{"ingress": true}"#}),
    ] {
        assert!(!names_pods(annotations.clone()), "{annotations}");
    }
}
