//! Simulates the controllers of Kubernetes that write EndpointSlices.

use fake_api::FakeApi;
use serde_json::{Value, json};

pub(crate) const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
pub(crate) const ENDPOINTS: &str = "/api/v1/namespaces/shop/endpoints/web";
pub(super) const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";
/// Endpoints in one EndpointSlice of Kubernetes.
const IN_A_SLICE: usize = 100;
/// The number of the app's port `web`.
pub(crate) const APP_PORT: i64 = 3000;

/// The controller of a Service with a selector deletes slices with its manager label that do not
/// belong to the Service, after it wrote its own.
pub(super) fn delete_slices_of_other_owners(api: &FakeApi) {
    let is_of_service = |slice: &Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    let is_of_other = |slice: &Value| slice["metadata"]["ownerReferences"][0]["kind"] == "ServerlessService";
    for (path, slice) in api.objects() {
        let manager = &slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"];
        if is_of_service(&slice) && is_of_other(&slice) && manager == "endpointslice-controller.k8s.io" {
            api.remove(&path);
        }
    }
}

/// Simulates the controller that mirrors the Endpoints of a Service without selector into a slice.
pub(super) fn mirror(api: &FakeApi) {
    let path = format!("{SLICES}/shop/endpointslices/web-mirrored");
    let is_mirrored = api.get(&path).is_some();
    match api.get(ENDPOINTS).filter(|_| !is_attached(api)) {
        Some(endpoints) if !is_mirrored => {
            let addresses = endpoints["subsets"][0]["addresses"].as_array().into_iter().flatten();
            let addresses: Vec<_> = addresses.map(|a| a["ip"].as_str().unwrap().to_owned()).collect();
            api.put(&path, slice_of("web", "IPv4", &addresses, "endpointslicemirroring-controller.k8s.io"));
        }
        None if is_mirrored => api.remove(&path),
        _ => {}
    }
}

pub(super) fn is_attached(api: &FakeApi) -> bool {
    api.get(SERVICE).is_some_and(|service| service["spec"]["selector"].is_object())
}

/// The ports of a Service's slices, with their numbers on the pods: of the sidecar, if they have
/// one, and of the app's port `web`. Kubernetes leaves out a name that no container has.
pub(super) fn resolved_ports(service: &Value, with_sidecars: bool) -> Value {
    let number = |port: &Value| match port["targetPort"].as_str() {
        Some("queue-proxy") => with_sidecars.then_some(8012),
        Some("web") => Some(APP_PORT),
        Some(_) => None,
        None => port["targetPort"].as_i64().or(port["port"].as_i64()),
    };
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    ports
        .filter_map(|port| Some(json!({"name": port["name"], "port": number(port)?, "protocol": "TCP"})))
        .collect()
}

/// Writes a Service's EndpointSlices for this many pods.
pub(super) fn publish(api: &FakeApi, service: &str, family: &str, size: i64, ports: &Value) {
    let address = |i: i64| match family {
        "IPv6" => format!("fd00::{i:x}"),
        _ => format!("10.0.{}.{}", i / 250, i % 250),
    };
    let pods: Vec<String> = (0..size).map(address).collect();
    let path = |i: usize| format!("{SLICES}/shop/endpointslices/{service}-{family}-{i}");
    let mut written = 0;
    for (i, pods) in pods.chunks(IN_A_SLICE).enumerate() {
        let mut slice = slice(service, family, pods);
        slice["ports"] = ports.clone();
        api.put(&path(i), slice);
        written = i + 1;
    }
    (written..).map(path).take_while(|path| api.get(path).is_some()).for_each(|path| api.remove(&path));
}

/// An EndpointSlice as Kubernetes writes it; the pods' names contain their index.
pub(super) fn slice(service: &str, family: &str, addresses: &[String]) -> Value {
    slice_of(service, family, addresses, "endpointslice-controller.k8s.io")
}

pub(super) fn slice_of(service: &str, family: &str, addresses: &[String], manager: &str) -> Value {
    let endpoints: Vec<Value> = (addresses.iter().enumerate())
        .map(|(i, address)| {
            json!({"addresses": [address], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("{service}-{i}")}})
        })
        .collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": manager}},
        "addressType": family, "endpoints": endpoints, "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}],
    })
}
