//! A cluster with one workload, as far as the zero-scaler sees it: the user's objects, pods that follow the size, and an
//! activator.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use autoscaler::Key;
use fake_api::FakeApi;
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use zero_scaler::activator_probe::{Ask, Door, ProbeError};

pub(crate) const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
pub(crate) const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
pub(crate) const SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web";
const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
const PRIVATE_SERVICE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";
const CLUSTER_IP: &str = "10.96.0.10";
const ACTIVATOR: &str = "10.0.9.9";
/// How soon pods follow the size.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The cluster. Its pods go when it is dropped.
pub(crate) struct Cluster {
    pub(crate) api: FakeApi,
    seen: Arc<Mutex<Seen>>,
    _pods: JoinSet<()>,
}

/// What a caller of the Service, and whoever pays for pods, would have noticed.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Each size of the Deployment, in turn.
    pub(crate) sizes: Vec<i64>,
    /// Moments at which a request would have got lost.
    pub(crate) lost: Vec<String>,
    reachable: bool,
}

/// Answers as the network of such a cluster would.
#[derive(Debug)]
pub(crate) struct Network(FakeApi);

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new() -> Self {
        let api = FakeApi::default();
        api.put(HPA, hpa());
        api.put(DEPLOYMENT, deployment(1));
        api.put(
            SERVICE,
            json!({"spec": {"clusterIP": CLUSTER_IP, "type": "ClusterIP", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"}]}}),
        );
        api.put(
            &format!("{SLICES}/rouse-system/endpointslices/activator-x"),
            slice("activator", &[ACTIVATOR]),
        );
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut pods = JoinSet::new();
        pods.spawn(follow(api.clone(), seen.clone()));
        Self { api, seen, _pods: pods }
    }

    pub(crate) fn network(&self) -> Network {
        Network(self.api.clone())
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Scales as a person would.
    pub(crate) fn scale(&self, replicas: i64) {
        let mut object = self.api.get(DEPLOYMENT).unwrap();
        object["spec"]["replicas"] = replicas.into();
        self.api.put(DEPLOYMENT, object);
    }

    pub(crate) fn max_replicas(&self, replicas: i64) {
        let mut object = self.api.get(HPA).unwrap();
        object["spec"]["maxReplicas"] = replicas.into();
        self.api.put(HPA, object);
    }

    /// A field of an object, null if there is none.
    pub(crate) fn field(&self, path: &str, pointer: &str) -> Value {
        let object = self.api.get(path).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// Where requests go.
    pub(crate) fn behind_the_service(&self) -> Vec<String> {
        behind_the_service(&self.api)
    }

    pub(crate) fn size(&self) -> i64 {
        size(&self.api)
    }

    /// All that the zero-scaler keeps, without what depends on when it was written.
    pub(crate) fn end_state(&self) -> Vec<(String, Value)> {
        let kept = |path: &str| !path.contains("/events/") && !path.contains("/leases/");
        let mut objects = self.api.objects();
        objects.retain(|(path, _)| kept(path));
        objects.iter_mut().for_each(|(_, object)| timeless(object));
        objects
    }
}

fn timeless(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let times = [
                "resourceVersion",
                "uid",
                "generation",
                "observedGeneration",
                "lastTransitionTime",
                "creationTimestamp",
            ];
            fields.retain(|field, _| !times.contains(&field.as_str()));
            fields.values_mut().for_each(timeless);
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

fn size(api: &FakeApi) -> i64 {
    api.get(DEPLOYMENT).unwrap()["spec"]["replicas"].as_i64().unwrap()
}

/// Plays the controllers of Deployments and EndpointSlices, and looks whether anything is lost.
async fn follow(api: FakeApi, seen: Arc<Mutex<Seen>>) {
    let mut known = 0;
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        if std::mem::replace(&mut known, api.version()) == api.version() {
            continue;
        }
        let size = size(&api);
        seen.lock().unwrap().look(&api, size);
        if api.get(PRIVATE_SERVICE).is_some() {
            let pods: Vec<String> = (0..size).map(|i| format!("10.0.0.{i}")).collect();
            let pods: Vec<&str> = pods.iter().map(String::as_str).collect();
            api.put(&format!("{SLICES}/shop/endpointslices/web-private-x"), slice("web-private", &pods));
        }
    }
}

/// The addresses in the slices of the public Service.
fn behind_the_service(api: &FakeApi) -> Vec<String> {
    let of_service = |object: &Value| object["metadata"]["labels"]["kubernetes.io/service-name"] == "web";
    let slices = api
        .objects()
        .into_iter()
        .filter(|(path, object)| path.contains("endpointslices") && of_service(object));
    let endpoints = slices.flat_map(|(_, slice)| slice["endpoints"].as_array().cloned().unwrap_or_default());
    endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

// === impl Seen ===

impl Seen {
    fn look(&mut self, api: &FakeApi, size: i64) {
        if self.sizes.last() != Some(&size) {
            self.sizes.push(size);
        }
        let behind = behind_the_service(api);
        self.reachable |= !behind.is_empty();
        if self.reachable && behind.is_empty() {
            self.lost.push("nobody is behind the Service".to_owned());
        }
        if size == 0 && behind != [ACTIVATOR] {
            self.lost.push(format!("at zero, requests go to {behind:?}"));
        }
    }
}

impl Ask for Network {
    fn ask<'a>(&'a self, door: &'a Door, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        let leased =
            self.0.get(SERVERLESS_SERVICE).unwrap_or_default()["status"]["ports"][0]["activatorPort"].clone();
        let activator = SocketAddr::new(ip(ACTIVATOR), u16::try_from(leased.as_u64().unwrap_or(0)).unwrap());
        let through_service =
            door.address == SocketAddr::new(ip(CLUSTER_IP), 80) && behind_the_service(&self.0) == [ACTIVATOR];
        let answer = if door.address == activator || through_service {
            Ok(())
        } else {
            Err(ProbeError::SomebodyElse(door.address, StatusCode::OK))
        };
        Box::pin(std::future::ready(answer))
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse::<Ipv4Addr>().unwrap().into()
}

fn hpa() -> Value {
    json!({
        "metadata": {"annotations": {
            "autoscaling.rouse.dev/scale-to-zero": "true", "autoscaling.rouse.dev/window": "6s"}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 5,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "concurrency", "selector": {"matchLabels": {"service": "web"}}},
                "target": {"type": "AverageValue", "averageValue": "10"}}}],
            "behavior": {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}},
        },
    })
}

fn deployment(replicas: i64) -> Value {
    json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"}}, "spec": {"containers": []}}}})
}

fn slice(service: &str, addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|a| json!({"addresses": [a], "conditions": {"ready": true}})).collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}],
    })
}
