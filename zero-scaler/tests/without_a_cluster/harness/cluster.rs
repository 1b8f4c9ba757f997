//! A simulated cluster with one workload, as far as the zero-scaler sees it: the user's objects,
//! pods that follow the size, and an activator.

use std::collections::BTreeSet;
use std::io::ErrorKind;
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

pub(crate) use super::slice_controllers::{APP_PORT, ENDPOINTS, SERVICE};
use super::slice_controllers::{
    SLICES, delete_slices_of_other_owners, is_attached, mirror, publish, resolved_ports, slice, slice_of,
};

pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/shop";
pub(crate) const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
pub(crate) const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
/// A custom resource with a scale subresource.
const GADGET: &str = "/apis/example.com/v1/namespaces/shop/gadgets/web";
/// Of a kind that the zero-scaler does not watch either.
pub(crate) const REPLICA_SET: &str = "/apis/apps/v1/namespaces/shop/replicasets/web";
pub(crate) const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
pub(crate) const SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web";
const BARE_POD: &str = "/api/v1/namespaces/shop/pods/web-bare";
pub(crate) const PRIVATE_SERVICE: &str = "/api/v1/namespaces/shop/services/web-private";
const CLUSTER_IP: &str = "10.96.0.10";
const CLUSTER_IPV6: &str = "fd00:96::10";
pub(crate) const ACTIVATOR: &str = "10.0.9.9";
pub(crate) const ACTIVATOR_IPV6: &str = "fd00::9:9";
/// The HPA's target for one pod.
pub(crate) const TARGET: i64 = 10;
/// Delay after which pods follow the size.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The cluster. Its simulated controllers stop when it is dropped.
pub(crate) struct Cluster {
    pub(crate) api: FakeApi,
    observed: Arc<Mutex<Observed>>,
    probes: Arc<AtomicUsize>,
    _pods: JoinSet<()>,
}

/// What was observed from outside: sizes, and moments at which a request would have been lost.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Each size of the target, in order.
    pub(crate) sizes: Vec<i64>,
    /// Descriptions of moments at which a request would have been lost.
    pub(crate) lost_requests: Vec<String>,
    reachable: bool,
    /// Addresses of the activators with a running process.
    activators: BTreeSet<IpAddr>,
    /// Whether pods have no sidecar. None of their ports then has its name.
    without_sidecars: bool,
    /// Whether the controller of Kubernetes has not reached the public Service yet.
    slices_delayed: bool,
}

/// Responds to activator path probes as this cluster's network would.
#[derive(Debug)]
pub(crate) struct SimulatedNetwork {
    api: FakeApi,
    observed: Arc<Mutex<Observed>>,
    probes: Arc<AtomicUsize>,
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
        let observed = Arc::new(Mutex::new(Observed::new()));
        let mut pods = JoinSet::new();
        pods.spawn(follow(api.clone(), observed.clone()));
        let cluster = Self { api, observed, probes: Arc::default(), _pods: pods };
        cluster.activators(&[ACTIVATOR]);
        cluster
    }

    /// Gives the Service and the pods addresses of both families.
    pub(crate) fn dual_stack(&self) {
        self.edit(SERVICE, |service| {
            service["spec"]["clusterIPs"] = json!([CLUSTER_IP, CLUSTER_IPV6]);
            service["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
            service["spec"]["ipFamilyPolicy"] = "RequireDualStack".into();
        });
    }

    /// Gives the activators addresses of both families.
    pub(crate) fn dual_stack_activators(&self) {
        let path = format!("{SLICES}/rouse-system/endpointslices/activator-y");
        self.api.put(&path, slice("activator", "IPv6", &[ACTIVATOR_IPV6.to_owned()]));
    }

    /// Gives the Service a selector (attached mode).
    pub(crate) fn attached(&self) {
        self.edit(SERVICE, |service| service["spec"]["selector"] = json!({"app": "web"}));
    }

    /// Removes the selector of the Service (managed mode). Kubernetes keeps its slice and its
    /// Endpoints.
    pub(crate) fn make_managed(&self) {
        self.edit(SERVICE, |service| service["spec"]["selector"] = Value::Null);
        let mut endpoints = endpoints(&self.service_endpoints());
        endpoints["metadata"]["labels"] =
            json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
        self.api.put(ENDPOINTS, endpoints);
    }

    /// Creates Endpoints of the Service, as a user does.
    pub(crate) fn user_written_endpoints(&self) {
        self.api.put(ENDPOINTS, endpoints(&["10.0.8.8".to_owned()]));
    }

    /// Adds a slice of the Service that another manager writes.
    pub(crate) fn slice_of_other_manager(&self, path: &str) {
        self.api.put(path, slice_of("web", "IPv4", &["10.0.8.7".to_owned()], "mesh.example.com"));
    }

    /// Adds a second activator that is ready but listens on no port.
    pub(crate) fn unresponsive_activator(&self) {
        self.activators(&[ACTIVATOR, "10.0.9.8"]);
    }

    /// The notes of all events of a reason.
    pub(crate) fn notes(&self, reason: &str) -> Vec<String> {
        self.events(reason).iter().map(|event| event["note"].as_str().unwrap().to_owned()).collect()
    }

    /// Sets the ready activators.
    pub(crate) fn activators(&self, addresses: &[&str]) {
        let path = format!("{SLICES}/rouse-system/endpointslices/activator-x");
        let addresses: Vec<_> = addresses.iter().map(|address| (*address).to_owned()).collect();
        self.api.put(&path, slice("activator", "IPv4", &addresses));
    }

    /// Starts the process of an activator.
    pub(crate) fn start_activator(&self, address: &str) {
        self.observed().activators.insert(ip(address));
    }

    /// Kills the process of an activator. Its pod stays ready.
    pub(crate) fn kill_activator(&self, address: &str) {
        self.observed().activators.remove(&ip(address));
    }

    /// Adds a slice of the private Service for pods with another port; `None` removes it.
    pub(crate) fn pods_with_other_port(&self, port: Option<u16>) {
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

    pub(crate) fn network(&self) -> SimulatedNetwork {
        SimulatedNetwork {
            api: self.api.clone(),
            observed: self.observed.clone(),
            probes: self.probes.clone(),
        }
    }

    /// The number of probes of the leased port of the activator.
    pub(crate) fn probes(&self) -> usize {
        self.probes.load(Ordering::Relaxed)
    }

    pub(crate) fn observed(&self) -> std::sync::MutexGuard<'_, Observed> {
        self.observed.lock().unwrap()
    }

    /// Scales the target, as `kubectl scale` does.
    pub(crate) fn scale(&self, replicas: i64) {
        self.edit(target(&self.api), |object| object["spec"]["replicas"] = replicas.into());
    }

    pub(crate) fn max_replicas(&self, replicas: i64) {
        self.edit(HPA, |object| object["spec"]["maxReplicas"] = replicas.into());
    }

    /// Changes an object, as its user does.
    pub(crate) fn edit(&self, path: &str, edit: impl FnOnce(&mut Value)) {
        let mut object = self.api.get(path).unwrap();
        edit(&mut object);
        self.api.put(path, object);
    }

    /// The number of writes of the size by the zero-scaler.
    pub(crate) fn scale_writes(&self) -> usize {
        self.api.writes().iter().filter(|write| write.ends_with("/web/scale")).count()
    }

    /// A field of an object, or null.
    pub(crate) fn field(&self, path: &str, pointer: &str) -> Value {
        let object = self.api.get(path).unwrap_or_default();
        object.pointer(pointer).cloned().unwrap_or_default()
    }

    /// The events of this reason, in order.
    pub(crate) fn events(&self, reason: &str) -> Vec<Value> {
        let mut events = self.api.objects();
        events.retain(|(path, event)| path.contains("/events/") && event["reason"] == reason);
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// The path of the target.
    pub(crate) fn target(&self) -> &'static str {
        target(&self.api)
    }

    /// Adds a Deployment of this name beside the target.
    pub(crate) fn copy_of_deployment(&self, name: &str) {
        self.api.put(&format!("/apis/apps/v1/namespaces/shop/deployments/{name}"), deployment(1));
    }

    /// Replaces the target by a custom resource. The zero-scaler does not watch its kind.
    pub(crate) fn scale_a_gadget(&self) {
        self.scale_an_undiscovered_gadget();
        self.discover_gadgets(&["scale", "status"]);
    }

    /// The same with a kind that discovery does not have.
    pub(crate) fn scale_an_undiscovered_gadget(&self) {
        self.api.remove(DEPLOYMENT);
        self.api.put(GADGET, deployment(1));
        self.edit(HPA, |hpa| {
            hpa["spec"]["scaleTargetRef"] =
                json!({"apiVersion": "example.com/v1", "kind": "Gadget", "name": "web"});
        });
    }

    /// Adds that kind to discovery, with these subresources.
    pub(crate) fn discover_gadgets(&self, subresources: &[&str]) {
        self.discover("/apis/example.com/v1", "Gadget", "gadgets", subresources);
    }

    /// Replaces the target by a ReplicaSet.
    pub(crate) fn scale_a_replica_set(&self) {
        self.api.remove(DEPLOYMENT);
        self.api.put(REPLICA_SET, deployment(1));
        self.discover("/apis/apps/v1", "ReplicaSet", "replicasets", &["scale", "status"]);
        self.edit(HPA, |hpa| hpa["spec"]["scaleTargetRef"]["kind"] = "ReplicaSet".into());
    }

    fn discover(&self, path: &str, kind: &str, plural: &str, subresources: &[&str]) {
        let names = subresources.iter().map(|subresource| format!("{plural}/{subresource}"));
        let resources: Vec<Value> = std::iter::once(plural.to_owned())
            .chain(names)
            .map(|name| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]}))
            .collect();
        self.api.set_discovery(path, json!(resources));
    }

    /// Creates a PodAutoscaler as a user, beside the HPA, or in place of it if the scaler is
    /// Direct.
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

    /// Deletes an object and all that it owns.
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

    /// Sets whether pods have a sidecar.
    pub(crate) fn set_sidecars(&self, present: bool) {
        self.observed().without_sidecars = !present;
        if present {
            return self.api.remove(BARE_POD);
        }
        let ready = json!([{"type": "Ready", "status": "True"}]);
        self.api.put(
            BARE_POD,
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]},
                "status": {"phase": "Running", "conditions": ready}}),
        );
    }

    /// Delays the slices that Kubernetes writes for the public Service.
    pub(crate) fn delay_slices(&self, delayed: bool) {
        self.observed().slices_delayed = delayed;
        // The simulated controllers act after changes.
        self.edit(NAMESPACE, |namespace| {
            namespace["metadata"]["labels"] = json!({"delayed": delayed.to_string()})
        });
    }

    /// Makes pods as their owner wrote them, without sidecar, at the named port `web` of the app.
    pub(crate) fn plain_pods(&self) {
        self.label_template(false);
        self.set_sidecars(false);
        self.set_target_port("web");
    }

    /// Sets or removes the inject label of the pod template.
    pub(crate) fn label_template(&self, labelled: bool) {
        let labels = if labelled {
            json!({"app": "web", "autoscaling.rouse.dev/inject": "true"})
        } else {
            json!({"app": "web"})
        };
        self.edit(DEPLOYMENT, |deployment| deployment["spec"]["template"]["metadata"]["labels"] = labels);
    }

    /// Sets the annotation `sidecar` of the HPA.
    pub(crate) fn annotate_sidecar(&self, value: &str) {
        self.edit(HPA, |hpa| hpa["metadata"]["annotations"]["autoscaling.rouse.dev/sidecar"] = value.into());
    }

    /// Sets the target port of the Service, a name.
    pub(crate) fn set_target_port(&self, name: &str) {
        self.edit(SERVICE, |service| service["spec"]["ports"][0]["targetPort"] = name.into());
    }

    /// The port numbers in the slices of the Service.
    pub(crate) fn endpoint_ports(&self) -> Vec<i64> {
        let slices = slices(&self.api, "IPv4");
        let ports = slices.iter().flat_map(|slice| slice["ports"].as_array().into_iter().flatten());
        ports.filter_map(|port| port["port"].as_i64()).collect()
    }

    /// The endpoints of the Service by IPv4.
    pub(crate) fn service_endpoints(&self) -> Vec<String> {
        service_endpoints(&self.api, "IPv4")
    }

    /// The endpoints of the Service by IPv6.
    pub(crate) fn service_endpoints_ipv6(&self) -> Vec<String> {
        service_endpoints(&self.api, "IPv6")
    }

    /// The number of endpoints in each slice of the Service.
    pub(crate) fn slices(&self) -> Vec<usize> {
        slices(&self.api, "IPv4")
            .iter()
            .map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len))
            .collect()
    }

    pub(crate) fn size(&self) -> i64 {
        size(&self.api)
    }

    /// All objects but events and Leases, without fields that depend on the time of the write.
    pub(crate) fn end_state(&self) -> Vec<(String, Value)> {
        let kept = |path: &str| !path.contains("/events/") && !path.contains("/leases/");
        let mut objects = self.api.objects();
        objects.retain(|(path, _)| kept(path));
        objects.iter_mut().for_each(|(_, object)| timeless(object));
        objects
    }
}

/// A condition as text: status, reason and message.
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
                "savings",
                // Depends on a uid.
                "activatorPort",
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
    [GADGET, REPLICA_SET].into_iter().find(|path| api.get(path).is_some()).unwrap_or(DEPLOYMENT)
}

/// Simulates the controllers of Deployments and EndpointSlices, and records lost requests.
async fn follow(api: FakeApi, observed: Arc<Mutex<Observed>>) {
    let mut version = 0;
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if std::mem::replace(&mut version, api.version()) == api.version() {
            continue;
        }
        let size = size(&api);
        observed.lock().unwrap().record(&api, size);
        let with_sidecars = !observed.lock().unwrap().without_sidecars;
        let private = api.get(PRIVATE_SERVICE).unwrap_or_default();
        let ports = resolved_ports(&private, with_sidecars);
        for family in ["IPv4", "IPv6"] {
            let families = private["spec"]["ipFamilies"].as_array();
            // Its slices are deleted with it.
            let has_family = families.is_some_and(|families| families.iter().any(|it| it == family));
            publish(&api, "web-private", family, if has_family { size } else { 0 }, &ports);
        }
        let delayed = observed.lock().unwrap().slices_delayed;
        if let Some(service) = api.get(SERVICE).filter(|_| is_attached(&api) && !delayed) {
            publish(&api, "web", "IPv4", size, &resolved_ports(&service, with_sidecars));
            delete_slices_of_other_owners(&api);
        }
        mirror(&api);
    }
}

/// The addresses in the EndpointSlices of the public Service.
fn service_endpoints(api: &FakeApi, family: &str) -> Vec<String> {
    let slices = slices(api, family);
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

/// The EndpointSlices of the public Service.
fn slices(api: &FakeApi, family: &str) -> Vec<Value> {
    let wanted = |object: &Value| {
        object["metadata"]["labels"]["kubernetes.io/service-name"] == "web" && object["addressType"] == family
    };
    let slices = api.objects().into_iter().filter(|(path, _)| path.contains("endpointslices"));
    slices.map(|(_, slice)| slice).filter(wanted).collect()
}

// === impl Observed ===

impl Observed {
    fn new() -> Self {
        Self {
            sizes: Vec::new(),
            lost_requests: Vec::new(),
            reachable: false,
            activators: [ACTIVATOR, ACTIVATOR_IPV6].map(ip).into(),
            without_sidecars: false,
            slices_delayed: false,
        }
    }

    /// Whether an activator's process listens at an address.
    fn is_activator(&self, address: &str) -> bool {
        self.activators.contains(&ip(address))
    }

    fn record(&mut self, api: &FakeApi, size: i64) {
        if self.sizes.last() != Some(&size) {
            self.sizes.push(size);
        }
        let behind = service_endpoints(api, "IPv4");
        self.reachable |= !behind.is_empty();
        if self.reachable && behind.is_empty() {
            self.lost_requests.push("the Service has no endpoint".to_owned());
        }
        // In attached mode Kubernetes removes the pods' endpoints itself, a moment later.
        let activators = behind.iter().filter(|ip| self.is_activator(ip)).count();
        let held = activators > 0 && (activators == behind.len() || is_attached(api));
        if size == 0 && !held {
            self.lost_requests.push(format!("at zero, requests go to {behind:?}"));
        }
    }
}

impl PathProber for SimulatedNetwork {
    fn probe<'a>(&'a self, probed: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        let leased =
            self.api.get(SERVERLESS_SERVICE).unwrap_or_default()["status"]["ports"][0]["activatorPort"]
                .clone();
        let observed = self.observed.lock().unwrap();
        let (service, family) = match probed.address.ip() {
            IpAddr::V4(_) => (CLUSTER_IP, "IPv4"),
            IpAddr::V6(_) => (CLUSTER_IPV6, "IPv6"),
        };
        let at_activator = observed.activators.contains(&probed.address.ip())
            && leased.as_u64() == Some(probed.address.port().into());
        let behind = service_endpoints(&self.api, family);
        let activators = behind.iter().filter(|ip| observed.is_activator(ip)).count();
        // In attached mode a few probes reach every endpoint of the Service.
        let through_service = probed.address == SocketAddr::new(ip(service), 80)
            && activators > 0
            && (activators == behind.len() || is_attached(&self.api));
        if at_activator {
            self.probes.fetch_add(1, Ordering::Relaxed);
        }
        let answer = if at_activator || through_service {
            Ok(())
        } else {
            Err(ProbeError::NotActivator(probed.address, StatusCode::OK))
        };
        Box::pin(std::future::ready(answer))
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
        let listens = self.observed.lock().unwrap().activators.contains(&address.ip());
        let refused = || ProbeError::Connect(address, ErrorKind::ConnectionRefused.into());
        Box::pin(std::future::ready(listens.then_some(()).ok_or_else(refused)))
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

/// Endpoints of the Service.
fn endpoints(addresses: &[String]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"metadata": {}, "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 8012}]}]})
}
