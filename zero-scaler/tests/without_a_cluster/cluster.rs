//! A cluster with one workload, as far as the zero-scaler sees it: the user's objects, pods that follow the size, and an
//! activator.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use autoscaler::Key;
use fake_api::FakeApi;
use futures::future::BoxFuture;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use zero_scaler::activators::path_probe::{PathProber, ProbeError, ProbedAddress};

pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/shop";
pub(crate) const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
/// Something else that has a size.
const GADGET: &str = "/apis/example.com/v1/namespaces/shop/gadgets/web";
pub(crate) const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
pub(crate) const SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web";
pub(crate) const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
const BARE_POD: &str = "/api/v1/namespaces/shop/pods/web-bare";
const PRIVATE_SERVICE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";
const CLUSTER_IP: &str = "10.96.0.10";
const CLUSTER_IPV6: &str = "fd00:96::10";
pub(crate) const ACTIVATOR: &str = "10.0.9.9";
pub(crate) const ACTIVATOR_IPV6: &str = "fd00::9:9";
/// Endpoints in one slice of Kubernetes' own.
const IN_A_SLICE: usize = 100;
/// What one pod should carry.
pub(crate) const TARGET: i64 = 10;
/// How soon pods follow the size.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The cluster. Its pods go when it is dropped.
pub(crate) struct Cluster {
    pub(crate) api: FakeApi,
    seen: Arc<Mutex<Seen>>,
    asked: Arc<AtomicUsize>,
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
    /// Pods have no sidecar, so that none of their ports has the name by which endpoints are found.
    bare: bool,
}

/// Answers as the network of such a cluster would.
#[derive(Debug)]
pub(crate) struct NetworkProber {
    api: FakeApi,
    asked: Arc<AtomicUsize>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn new() -> Self {
        let api = FakeApi::default();
        api.put(NAMESPACE, json!({}));
        api.put(HPA, hpa());
        api.put(DEPLOYMENT, deployment(1));
        api.put(
            SERVICE,
            json!({"spec": {"clusterIP": CLUSTER_IP, "type": "ClusterIP", "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"}]}}),
        );
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut pods = JoinSet::new();
        pods.spawn(follow(api.clone(), seen.clone()));
        let cluster = Self { api, seen, asked: Arc::default(), _pods: pods };
        cluster.activators(&[ACTIVATOR]);
        cluster
    }

    /// From now on the Service and the pods have addresses of both families.
    pub(crate) fn dual_stack(&self) {
        self.edit(SERVICE, |service| {
            service["spec"]["clusterIPs"] = json!([CLUSTER_IP, CLUSTER_IPV6]);
            service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
            service["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
        });
    }

    /// So have the activators.
    pub(crate) fn dual_stack_activators(&self) {
        let path = format!("{SLICES}/rouse-system/endpointslices/activator-y");
        self.api.put(&path, slice("activator", "IPv6", &[ACTIVATOR_IPV6.to_owned()]));
    }

    /// From now on the Service selects its pods itself.
    pub(crate) fn attached(&self) {
        self.edit(SERVICE, |service| service["spec"]["selector"] = json!({"app": "web"}));
    }

    /// From now on there is a second activator, which is ready and listens on no port.
    pub(crate) fn deaf_activator(&self) {
        self.activators(&[ACTIVATOR, "10.0.9.8"]);
    }

    /// The notes of all events of a reason.
    pub(crate) fn notes(&self, reason: &str) -> Vec<String> {
        self.events(reason).iter().map(|event| event["note"].as_str().unwrap().to_owned()).collect()
    }

    /// From now on these are the activators that are ready.
    pub(crate) fn activators(&self, addresses: &[&str]) {
        let path = format!("{SLICES}/rouse-system/endpointslices/activator-x");
        let addresses: Vec<_> = addresses.iter().map(|address| (*address).to_owned()).collect();
        self.api.put(&path, slice("activator", "IPv4", &addresses));
    }

    /// A slice for pods of the private Service that have their port elsewhere.
    pub(crate) fn pods_elsewhere(&self, port: Option<u16>) {
        let path = format!("{SLICES}/shop/endpointslices/web-private-elsewhere");
        match port {
            Some(port) => {
                let mut slice = slice("web-private", "IPv4", &["10.0.7.7".to_owned()]);
                slice["ports"][0]["port"] = port.into();
                self.api.put(&path, slice);
            }
            None => self.api.remove(&path),
        }
    }

    pub(crate) fn network(&self) -> NetworkProber {
        NetworkProber { api: self.api.clone(), asked: self.asked.clone() }
    }

    /// How often somebody asked whether the activator listens.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// Scales as a person would.
    pub(crate) fn scale(&self, replicas: i64) {
        self.edit(target(&self.api), |object| object["spec"]["replicas"] = replicas.into());
    }

    pub(crate) fn max_replicas(&self, replicas: i64) {
        self.edit(HPA, |object| object["spec"]["maxReplicas"] = replicas.into());
    }

    /// Changes an object as its user would.
    pub(crate) fn edit(&self, path: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.api.get(path).unwrap();
        edit(&mut object);
        self.api.put(path, object);
    }

    /// How often the zero-scaler has written the size.
    pub(crate) fn sizes_written(&self) -> usize {
        self.api.writes().iter().filter(|write| write.ends_with("/web/scale")).count()
    }

    /// A field of an object, null if there is none.
    pub(crate) fn field(&self, path: &str, pointer: &str) -> Value {
        let object = self.api.get(path).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// The events of this reason, in turn.
    pub(crate) fn events(&self, reason: &str) -> Vec<Value> {
        let mut events = self.api.objects();
        events.retain(|(path, event)| path.contains("/events/") && event["reason"] == reason);
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// What is scaled is of a kind that the zero-scaler does not watch.
    pub(crate) fn scale_a_gadget(&self) {
        self.api.remove(DEPLOYMENT);
        self.api.put(GADGET, deployment(1));
        self.edit(HPA, |hpa| {
            hpa["spec"]["scaleTargetRef"] =
                json!({"apiVersion": "example.com/v1", "kind": "Gadget", "name": "web"});
        });
    }

    /// Tells discovery of that kind.
    pub(crate) fn discover_gadgets(&self) {
        self.api.set_discovery(
            "/apis/example.com/v1",
            json!([{"name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget", "verbs": ["get"]}]),
        );
    }

    /// A PodAutoscaler by a user's hand, beside an HPA or, if it is Direct, without one.
    pub(crate) fn user_written(&self, scaler: &str) {
        if scaler == "Direct" {
            self.api.remove(HPA);
        }
        self.api.put(
            AUTOSCALER,
            json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
            "metadata": {"annotations": {"autoscaling.rouse.dev/window": "6s"}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "scaler": scaler, "service": "web", "target": TARGET.to_string(),
                "minReplicas": 1, "maxReplicas": 50, "scaleToZero": true,
            }}),
        );
    }

    /// Takes an object away, and what it owns.
    pub(crate) fn delete(&self, path: &str) {
        let uid = self.field(path, "/metadata/uid");
        self.api.remove(path);
        for (child, object) in self.api.objects() {
            let owners = object["metadata"]["ownerReferences"].as_array();
            if owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid)) {
                self.delete(&child);
            }
        }
    }

    /// Whether its pods are given a sidecar.
    pub(crate) fn inject(&self, sidecars: bool) {
        self.seen().bare = !sidecars;
        if sidecars {
            return self.api.remove(BARE_POD);
        }
        let ready = json!([{"type": "Ready", "status": "True"}]);
        self.api.put(
            BARE_POD,
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]},
                "status": {"phase": "Running", "conditions": ready}}),
        );
    }

    /// Where requests go.
    pub(crate) fn behind_the_service(&self) -> Vec<String> {
        behind_the_service(&self.api, "IPv4")
    }

    /// Where those go that come by IPv6.
    pub(crate) fn behind_the_service_by_ipv6(&self) -> Vec<String> {
        behind_the_service(&self.api, "IPv6")
    }

    /// How many endpoints each slice of the Service has.
    pub(crate) fn slices(&self) -> Vec<usize> {
        slices(&self.api, "IPv4")
            .iter()
            .map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len))
            .collect()
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

/// What a condition of an object says.
pub(crate) fn condition(cluster: &Cluster, object: &str, r#type: &str) -> String {
    let conditions = cluster.field(object, "/status/conditions");
    let all = conditions.as_array().into_iter().flatten();
    let of_type = all.filter(|condition| condition["type"] == r#type);
    of_type.map(|c| format!("{} {}: {}", c["status"], c["reason"], c["message"])).collect()
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
    api.get(target(api)).unwrap()["spec"]["replicas"].as_i64().unwrap()
}

fn target(api: &FakeApi) -> &'static str {
    if api.get(GADGET).is_some() { GADGET } else { DEPLOYMENT }
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
        let size = if seen.lock().unwrap().bare { 0 } else { size };
        if let Some(private) = api.get(PRIVATE_SERVICE) {
            for family in private["spec"]["ipFamilies"].as_array().into_iter().flatten() {
                publish(&api, "web-private", family.as_str().unwrap(), size);
            }
        }
        if is_attached(&api) {
            publish(&api, "web", "IPv4", size);
        }
    }
}

fn is_attached(api: &FakeApi) -> bool {
    api.get(SERVICE).is_some_and(|service| service["spec"]["selector"].is_object())
}

/// Writes a Service's slices for so many pods.
fn publish(api: &FakeApi, service: &str, family: &str, size: i64) {
    let address = |i: i64| match family {
        "IPv6" => format!("fd00::{i:x}"),
        _ => format!("10.0.{}.{}", i / 250, i % 250),
    };
    let pods: Vec<String> = (0..size).map(address).collect();
    let path = |i: usize| format!("{SLICES}/shop/endpointslices/{service}-{family}-{i}");
    let mut written = 0;
    for (i, pods) in pods.chunks(IN_A_SLICE).enumerate() {
        api.put(&path(i), slice(service, family, pods));
        written = i + 1;
    }
    (written..).map(path).take_while(|path| api.get(path).is_some()).for_each(|path| api.remove(&path));
}

/// The addresses in the slices of the public Service.
fn behind_the_service(api: &FakeApi, family: &str) -> Vec<String> {
    let slices = slices(api, family);
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

/// The public Service's slices.
fn slices(api: &FakeApi, family: &str) -> Vec<Value> {
    let wanted = |object: &Value| {
        object["metadata"]["labels"]["kubernetes.io/service-name"] == "web" && object["addressType"] == family
    };
    let slices = api.objects().into_iter().filter(|(path, _)| path.contains("endpointslices"));
    slices.map(|(_, slice)| slice).filter(wanted).collect()
}

// === impl Seen ===

impl Seen {
    fn look(&mut self, api: &FakeApi, size: i64) {
        if self.sizes.last() != Some(&size) {
            self.sizes.push(size);
        }
        let behind = behind_the_service(api, "IPv4");
        self.reachable |= !behind.is_empty();
        if self.reachable && behind.is_empty() {
            self.lost.push("nobody is behind the Service".to_owned());
        }
        // Where Kubernetes takes out the pods itself, it does so a moment later.
        let held = behind == [ACTIVATOR] || is_attached(api) && behind.iter().any(|ip| ip == ACTIVATOR);
        if size == 0 && !held {
            self.lost.push(format!("at zero, requests go to {behind:?}"));
        }
    }
}

impl PathProber for NetworkProber {
    fn ask<'a>(&'a self, door: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        let leased =
            self.api.get(SERVERLESS_SERVICE).unwrap_or_default()["status"]["ports"][0]["activatorPort"]
                .clone();
        let (activator, service, family) = match door.address.ip() {
            IpAddr::V4(_) => (ACTIVATOR, CLUSTER_IP, "IPv4"),
            IpAddr::V6(_) => (ACTIVATOR_IPV6, CLUSTER_IPV6, "IPv6"),
        };
        let at_activator =
            SocketAddr::new(ip(activator), u16::try_from(leased.as_u64().unwrap_or(0)).unwrap());
        let behind = behind_the_service(&self.api, family);
        // Where pods share the path a few questions are enough to meet everybody.
        let through_service = door.address == SocketAddr::new(ip(service), 80)
            && (behind == [activator] || is_attached(&self.api) && behind.iter().any(|ip| ip == activator));
        if door.address == at_activator {
            self.asked.fetch_add(1, Ordering::Relaxed);
        }
        let answer = if door.address == at_activator || through_service {
            Ok(())
        } else {
            Err(ProbeError::SomebodyElse(door.address, StatusCode::OK))
        };
        Box::pin(std::future::ready(answer))
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
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
                "target": {"type": "AverageValue", "averageValue": TARGET.to_string()}}}],
            "behavior": {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}},
        },
    })
}

fn deployment(replicas: i64) -> Value {
    json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"}}, "spec": {"containers": []}}}})
}

/// A slice as Kubernetes writes it; the pods' names are those of their numbers.
fn slice(service: &str, family: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<Value> = (addresses.iter().enumerate())
        .map(|(i, address)| {
            json!({"addresses": [address], "conditions": {"ready": true},
                "targetRef": {"kind": "Pod", "namespace": "shop", "name": format!("{service}-{i}")}})
        })
        .collect();
    json!({
        "metadata": {"labels": {"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}},
        "addressType": family, "endpoints": endpoints, "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}],
    })
}
