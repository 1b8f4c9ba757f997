//! The cluster around the processes: the user's objects, a kubelet, and nodes with kube-proxies
//! that apply the slices of the Service late.
//!
//! Pods follow the size of the Deployment: the newest ones are removed first.

mod objects;

use std::collections::{BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use fake_api::FakeApi;
use futures::future::BoxFuture;
use http::StatusCode;
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::time::Instant;
use zero_scaler::activators::path_probe::{PathProber, ProbeError, ProbedAddress};

pub use objects::{MAX_PODS, TARGET, WorkloadKind};

use self::objects::CLUSTER_IP;

use crate::activator::Activator;
use crate::journal::Journal;

/// Nodes with clients. The zero-scalers run on the first one.
pub const NODES: usize = 2;
/// Longest delay of a kube-proxy.
pub const LATEST_PROXY: Duration = Duration::from_secs(3);

pub const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";
pub const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
pub const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
pub const SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web";
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/zero-scaler";
const NAMESPACE: &str = "/api/v1/namespaces/shop";
const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
const PRIVATE_SERVICE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";

/// A pod of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    pub number: u64,
    pub address: String,
    pub ready_at: Instant,
}

/// What the last step of the kubelet changed.
#[derive(Debug, Default)]
pub struct PodChanges {
    pub removed: Vec<Pod>,
    /// Whether the size was set to 0, which only a zero-scaler does.
    pub to_zero: bool,
}

pub struct Cluster {
    pub api: FakeApi,
    pub kind: WorkloadKind,
    pub pods: Vec<Pod>,
    pub network: Arc<Mutex<NodeNetwork>>,
    /// Delays of a kube-proxy that has a fault, by node.
    pub proxy_delays: [Duration; NODES],
    next_pod: u64,
    version: usize,
    size: i64,
    /// The pods at the last step, and whether each was ready.
    listed: Vec<(u64, bool)>,
    /// Counts changes of the pods.
    pub pods_version: usize,
    journal: Journal,
}

/// Where the Service's address leads to on each node, and the processes behind it.
#[derive(Debug, Default)]
pub struct NodeNetwork {
    endpoints: [Vec<String>; NODES],
    pending: [VecDeque<(Instant, Vec<String>)>; NODES],
    /// Addresses of the activators with a running process.
    pub activators: BTreeSet<IpAddr>,
    /// The port that the workload leases.
    leased: Option<u64>,
}

/// Sends the probes of a zero-scaler.
#[derive(Clone, Debug)]
pub struct NodeProber(pub Arc<Mutex<NodeNetwork>>);

// === impl Cluster ===

impl Cluster {
    pub fn new(kind: WorkloadKind, journal: Journal) -> Self {
        let api = FakeApi::default();
        api.put(NAMESPACE, json!({}));
        api.put(HPA, kind.hpa());
        api.put(DEPLOYMENT, kind.deployment());
        api.put(SERVICE, kind.service());
        Self {
            api,
            kind,
            pods: Vec::new(),
            network: Arc::default(),
            proxy_delays: [Duration::ZERO; NODES],
            next_pod: 0,
            version: 0,
            size: 0,
            listed: Vec::new(),
            pods_version: 0,
            journal,
        }
    }

    /// `spec.replicas` of the Deployment at the last step.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// Scales the Deployment, as the HPA does.
    pub fn scale(&self, replicas: i64) {
        let mut object = self.api.get(DEPLOYMENT).unwrap();
        object["spec"]["replicas"] = replicas.into();
        self.api.put(DEPLOYMENT, object);
    }

    /// The pods that are ready.
    pub fn ready_pods(&self) -> impl Iterator<Item = &Pod> {
        let now = Instant::now();
        self.pods.iter().filter(move |pod| pod.ready_at <= now)
    }

    /// The pods as objects, for the watch of the metrics-adapter.
    pub fn pod_objects(&self) -> Vec<Value> {
        let now = Instant::now();
        let object = |pod: &Pod| {
            objects::pod(
                &format!("web-{}", pod.number),
                &pod.address,
                pod.ready_at <= now,
                self.kind.sidecars,
            )
        };
        self.pods.iter().map(object).collect()
    }

    /// Writes the slice of the activators.
    pub fn publish_activators(&self, activators: &[Activator]) {
        let endpoints: Vec<_> = (activators.iter())
            .map(|activator| (activator.name.clone(), activator.ip.to_string(), activator.is_listed_ready))
            .collect();
        let path = format!("{SLICES}/rouse-system/endpointslices/activator-x");
        self.api.put(&path, objects::slice("activator", &endpoints, json!([])));
    }

    /// The endpoints of the Service by its slices, which a kube-proxy may not have applied yet.
    pub fn service_endpoints(&self) -> Vec<String> {
        let path = format!("{SLICES}/shop/endpointslices/web-rouse-managed-ipv4");
        let slice = self.api.get(&path).unwrap_or_default();
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
    }

    /// What the objects of the workload state, for a seed that fails.
    pub fn state(&self) -> String {
        let status = |path: &str| self.api.get(path).unwrap_or_default()["status"].to_string();
        format!("PodAutoscaler {}, ServerlessService {}", status(AUTOSCALER), status(SERVERLESS_SERVICE))
    }

    /// The endpoints of the Service on a node.
    pub fn endpoints_on(&self, node: usize) -> Vec<String> {
        self.network.lock().endpoints[node].clone()
    }

    /// Runs the kubelet and the kube-proxies until now.
    pub fn step(&mut self, rng: &mut StdRng) -> PodChanges {
        let is_changed = std::mem::replace(&mut self.version, self.api.version()) != self.api.version();
        let changes = if is_changed { self.follow_size(rng) } else { PodChanges::default() };
        let now = Instant::now();
        let listed = self.pods.iter().map(|pod| (pod.number, pod.ready_at <= now)).collect();
        let pods_changed = std::mem::replace(&mut self.listed, listed) != self.listed;
        self.pods_version += usize::from(pods_changed);
        if is_changed || pods_changed {
            self.publish_pods();
            let leased = self.api.get(SERVERLESS_SERVICE).unwrap_or_default();
            let endpoints = self.service_endpoints();
            let mut network = self.network.lock();
            network.leased = leased["status"]["ports"][0]["activatorPort"].as_u64();
            for (node, delay) in self.proxy_delays.iter().enumerate() {
                let usual = Duration::from_millis(rng.random_range(20..800));
                network.pending[node].push_back((now + usual.max(*delay), endpoints.clone()));
            }
        }
        self.network.lock().apply(now);
        changes
    }

    fn follow_size(&mut self, rng: &mut StdRng) -> PodChanges {
        let object = self.api.get(DEPLOYMENT).unwrap();
        let size = object["spec"]["replicas"].as_i64().unwrap();
        let before = std::mem::replace(&mut self.size, size);
        if before != size {
            let by = object["metadata"]["managedFields"][0]["manager"].as_str().unwrap_or_default();
            self.journal.note(format!("size {before} to {size} ({by})"));
        }
        let now = Instant::now();
        while self.pods.len() < usize::try_from(size).unwrap() {
            let number = self.next_pod;
            self.next_pod += 1;
            let ready_at = now + Duration::from_millis(rng.random_range(500..6000));
            let address = format!("10.1.{}.{}", number / 250, number % 250);
            self.pods.push(Pod { number, address, ready_at });
        }
        let removed = self.pods.split_off(usize::try_from(size).unwrap());
        PodChanges { removed, to_zero: size == 0 && before > 0 }
    }

    /// Writes the slice of the private Service, as Kubernetes does.
    fn publish_pods(&self) {
        let path = format!("{SLICES}/shop/endpointslices/web-private-x");
        if self.api.get(PRIVATE_SERVICE).is_none() {
            return self.api.remove(&path);
        }
        let now = Instant::now();
        let endpoints: Vec<_> = (self.pods.iter())
            .map(|pod| (format!("web-{}", pod.number), pod.address.clone(), pod.ready_at <= now))
            .collect();
        self.api.put(&path, objects::slice("web-private", &endpoints, self.kind.pod_ports()));
    }
}

// === impl NodeNetwork ===

impl NodeNetwork {
    fn apply(&mut self, now: Instant) {
        for (endpoints, pending) in self.endpoints.iter_mut().zip(&mut self.pending) {
            while let Some((_, newest)) = pending.pop_front_if(|(due, _)| *due <= now) {
                *endpoints = newest;
            }
        }
    }

    fn is_activator(&self, address: &str) -> bool {
        address.parse().is_ok_and(|ip| self.activators.contains(&ip))
    }

    fn answers(&self, address: SocketAddr) -> bool {
        if address != SocketAddr::new(CLUSTER_IP.parse().unwrap(), 80) {
            return self.activators.contains(&address.ip()) && self.leased == Some(address.port().into());
        }
        let endpoints = &self.endpoints[0];
        !endpoints.is_empty() && endpoints.iter().all(|endpoint| self.is_activator(endpoint))
    }
}

impl PathProber for NodeProber {
    fn probe<'a>(&'a self, probed: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        let answers = self.0.lock().answers(probed.address);
        let other = || ProbeError::NotActivator(probed.address, StatusCode::OK);
        Box::pin(std::future::ready(answers.then_some(()).ok_or_else(other)))
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
        let listens = self.0.lock().activators.contains(&address.ip());
        let refused = || ProbeError::Connect(address, ErrorKind::ConnectionRefused.into());
        Box::pin(std::future::ready(listens.then_some(()).ok_or_else(refused)))
    }
}
