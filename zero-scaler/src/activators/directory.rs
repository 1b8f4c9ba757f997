//! Which activators there are, which of them answer on a leased port, and for how long there have been none.
//!
//! Input: the slices of the Service `activator`, and probes. Output: endpoints for the slices of workloads. That an activator
//! listens is remembered for as long as it is ready, so a reconcile asks each (activator, port) once.
//!
//! Where there are two address families an activator has two addresses. It is chosen once, by its first, as activators know each
//! other, and each of its addresses has to answer for itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use autoscaler::api::PortLease;
use autoscaler::contract::ADMIN_PORT;
use autoscaler::routing::endpoint_subset::endpoint_subset;
use autoscaler::{Key, Protocol};
use futures::future::join_all;
use k8s_openapi::api::discovery::v1::EndpointConditions;
use parking_lot::Mutex;
use runtime::retry;

use crate::activators::path_probe::{PathProber, ProbeError, ProbedAddress};
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::watches::ACTIVATOR_SERVICE;
use crate::clock::now;
use crate::pods::endpoints::{PodEndpoint, carried, is_ready};

/// Rounds in which activators that do not answer are replaced by others.
const ROUNDS: u32 = 3;

/// How soon to ask again who did not listen: a leased port is opened within milliseconds.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// For how long nobody asks an activator that let a question pass. Each such question takes a look its time, and a node that is cut off
/// would have it of every workload.
const SILENCE: Duration = Duration::from_secs(2);
/// How late at most.
const LAST_RETRY: Duration = Duration::from_secs(5);

/// The activators of the installation.
#[derive(Debug)]
pub struct Activators {
    objects: Arc<ClusterCache>,
    system_namespace: String,
    prober: Arc<dyn PathProber>,
    leaving: AtomicBool,
    listening: Mutex<HashMap<IpAddr, HashMap<u16, Proven>>>,
    /// Those that did not answer at all, and when that was seen.
    silent: Mutex<HashMap<IpAddr, Instant>>,
    none_since: Mutex<Option<Instant>>,
    misses: Mutex<HashMap<Key, u32>>,
}

/// Who leases ports: the ServerlessService of a workload. One that is made anew may get the ports of the one before it, while
/// activators still close them.
#[derive(Clone, Copy, Debug)]
pub struct PortHolder<'a> {
    /// The workload.
    pub key: &'a Key,
    /// The object's.
    pub uid: &'a str,
}

/// For whom, and what, an activator listened on a port when it was asked.
#[derive(Debug)]
struct Proven {
    key: Key,
    uid: String,
    protocol: Protocol,
}

/// The activators of a workload that may be in its path.
#[derive(Debug)]
pub struct ListeningActivators {
    /// Those that answered, each with all of its addresses that did.
    pub endpoints: Vec<PodEndpoint>,
    /// Whether all did who should.
    pub all: bool,
}

// === impl Activators ===

impl Activators {
    /// The activators as the watches know them.
    pub fn new(objects: Arc<ClusterCache>, system_namespace: String, prober: Arc<dyn PathProber>) -> Self {
        Self {
            objects,
            system_namespace,
            prober,
            leaving: AtomicBool::new(false),
            listening: Mutex::default(),
            silent: Mutex::default(),
            none_since: Mutex::default(),
            misses: Mutex::default(),
        }
    }

    /// The ready ones.
    pub fn ready(&self) -> Vec<PodEndpoint> {
        let slices = self.objects.slices.of(&self.system_namespace, ACTIVATOR_SERVICE);
        let mut ready = Vec::new();
        for slice in &slices {
            for endpoint in slice.endpoints.iter().flatten().filter(|e| is_ready(e)) {
                let mut endpoint = carried(endpoint);
                endpoint.conditions = Some(EndpointConditions {
                    ready: Some(true),
                    serving: Some(true),
                    terminating: Some(false),
                });
                ready.push(PodEndpoint { family: slice.address_type.clone(), endpoint });
            }
        }
        ready.sort_by(|a, b| a.endpoint.addresses.cmp(&b.endpoint.addresses));
        ready.dedup_by(|a, b| a.endpoint.addresses == b.endpoint.addresses);
        ready
    }

    /// They are all about to go, and will not come back.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether they are.
    pub fn are_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// For how long there has been none; `None` while there is one that stays.
    pub fn absent_for(&self, now: Instant) -> Option<Duration> {
        if self.are_leaving() {
            return Some(Duration::MAX);
        }
        let mut none_since = self.none_since.lock();
        if !self.ready().is_empty() {
            *none_since = None;
            return None;
        }
        Some(now.saturating_duration_since(*none_since.get_or_insert(now)))
    }

    /// The admin ports of the ready ones.
    pub fn admin_ports(&self) -> Vec<SocketAddr> {
        by_first_address(&self.ready()).into_keys().map(|ip| SocketAddr::new(ip, ADMIN_PORT)).collect()
    }

    /// The activators of a workload: `number` of the ready ones, each of which answered on all of `ports`.
    pub async fn listening(
        &self,
        lessee: PortHolder<'_>,
        ports: &[PortLease],
        number: u32,
    ) -> ListeningActivators {
        if ports.is_empty() {
            return ListeningActivators { endpoints: Vec::new(), all: true };
        }
        let ready = self.ready();
        self.forget_all_but(&ready);
        let activators = by_first_address(&ready);
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let answering = self.choose(activators.keys().copied(), lessee, ports, number).await;
        let mut all = answering.len() >= activators.len().min(number);
        let mut endpoints = Vec::new();
        for (first, addresses) in activators.iter().filter(|(first, _)| answering.contains(*first)) {
            for (ip, endpoint) in addresses {
                let answers = ip == first || self.answers(*ip, ports, lessee).await;
                all &= answers;
                endpoints.extend(answers.then(|| (*endpoint).clone()));
            }
        }
        ListeningActivators { endpoints, all }
    }

    /// Those of a workload that answer at their first addresses; others stand in for the silent ones.
    async fn choose(
        &self,
        activators: impl Iterator<Item = IpAddr>,
        lessee: PortHolder<'_>,
        ports: &[PortLease],
        number: usize,
    ) -> BTreeSet<IpAddr> {
        let named: BTreeMap<String, IpAddr> = activators.map(|ip| (ip.to_string(), ip)).collect();
        let mut candidates: BTreeSet<&str> = named.keys().map(String::as_str).collect();
        let mut answering = BTreeSet::new();
        for _ in 0..ROUNDS {
            let chosen = endpoint_subset(&candidates, &lessee.key.to_string(), number);
            let chosen: Vec<_> =
                chosen.into_iter().filter_map(|name| Some((name, *named.get(name)?))).collect();
            let answers = join_all(chosen.iter().map(|(_, ip)| self.answers(*ip, ports, lessee))).await;
            let (answered, silent): (Vec<_>, Vec<_>) =
                chosen.into_iter().zip(answers).partition(|(_, ok)| *ok);
            answering = answered.into_iter().map(|((_, ip), _)| ip).collect();
            if silent.is_empty() {
                break;
            }
            candidates.retain(|name| !silent.iter().any(|((other, _), _)| name == other));
        }
        answering
    }

    /// When to ask again, later each time; `None` when everybody who should listens.
    pub fn retry_after(&self, key: &Key, all_listen: bool) -> Option<Duration> {
        let mut misses = self.misses.lock();
        if all_listen {
            misses.remove(key);
            return None;
        }
        let count = misses.entry(key.clone()).and_modify(|n| *n = n.saturating_add(1)).or_insert(0);
        Some(retry::delay_after(*count, FIRST_RETRY, LAST_RETRY))
    }

    async fn answers(&self, ip: IpAddr, ports: &[PortLease], lessee: PortHolder<'_>) -> bool {
        for lease in ports {
            let port = lease.activator_port;
            let known = |proven: &Proven| proven.is_of(lessee, lease);
            if self.listening.lock().get(&ip).and_then(|ports| ports.get(&port)).is_some_and(known) {
                continue;
            }
            if self.is_silent(ip) {
                return false;
            }
            let door = ProbedAddress {
                address: SocketAddr::new(ip, port),
                protocol: lease.protocol,
                activator_port: port,
                activators: vec![SocketAddr::new(ip, ADMIN_PORT)],
            };
            if let Err(error) = self.prober.ask(&door, lessee.key).await {
                if matches!(error, ProbeError::Timeout(_)) {
                    self.silent.lock().insert(ip, now());
                }
                tracing::debug!(workload = %lessee.key, %error, "activator not taken into the slices yet");
                return false;
            }
            self.listening.lock().entry(ip).or_default().insert(port, Proven::new(lessee, lease));
        }
        true
    }

    fn is_silent(&self, ip: IpAddr) -> bool {
        let since = self.silent.lock().get(&ip).copied();
        since.is_some_and(|since| now().saturating_duration_since(since) < SILENCE)
    }

    /// A proof is only as old as the activator's readiness: one that restarts is asked again.
    fn forget_all_but(&self, ready: &[PodEndpoint]) {
        let alive: HashSet<IpAddr> = ready.iter().filter_map(address).collect();
        self.listening.lock().retain(|ip, _| alive.contains(ip));
        self.silent.lock().retain(|ip, _| alive.contains(ip));
    }

    /// Drops proofs of workloads that are gone; to be called now and then.
    pub fn prune(&self) {
        self.misses.lock().retain(|key, _| self.objects.autoscaler_meta(key).is_some());
        for known in self.listening.lock().values_mut() {
            known.retain(|_, proven| self.objects.autoscaler_meta(&proven.key).is_some());
        }
    }
}

// === impl Proven ===

impl Proven {
    fn new(lessee: PortHolder<'_>, lease: &PortLease) -> Self {
        Self { key: lessee.key.clone(), uid: lessee.uid.to_owned(), protocol: lease.protocol }
    }

    fn is_of(&self, lessee: PortHolder<'_>, lease: &PortLease) -> bool {
        self.uid == lessee.uid && self.key == *lessee.key && self.protocol == lease.protocol
    }
}

/// Activators with their addresses, each under the first of them.
fn by_first_address(ready: &[PodEndpoint]) -> BTreeMap<IpAddr, BTreeMap<IpAddr, &PodEndpoint>> {
    let mut by_pod: HashMap<String, BTreeMap<IpAddr, &PodEndpoint>> = HashMap::new();
    for endpoint in ready {
        let Some(ip) = address(endpoint) else { continue };
        let pod = endpoint.endpoint.target_ref.as_ref().and_then(|pod| pod.name.clone());
        by_pod.entry(pod.unwrap_or_else(|| ip.to_string())).or_default().insert(ip, endpoint);
    }
    by_pod.into_values().filter_map(|addresses| Some((*addresses.keys().next()?, addresses))).collect()
}

fn address(endpoint: &PodEndpoint) -> Option<IpAddr> {
    endpoint.endpoint.addresses.first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fake_api::FakeApi;
    use futures::future::BoxFuture;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use kube::runtime::watcher::Event;
    use prometheus::{IntCounterVec, Opts};
    use runtime::readiness::Readiness;
    use serde_json::json;

    use super::*;
    use crate::cache::work_queue::WorkQueues;

    const LISTENS: &str = "10.2.0.1";
    const CUT_OFF: &str = "10.2.0.2";

    /// A network in which one of the activators is not reached.
    #[derive(Debug, Default)]
    struct NetworkProber {
        answered: AtomicUsize,
        lost: AtomicUsize,
    }

    impl PathProber for NetworkProber {
        fn ask<'a>(&'a self, door: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
            Box::pin(async {
                if door.address.ip().to_string() == LISTENS {
                    self.answered.fetch_add(1, Ordering::Relaxed);
                    return Ok(());
                }
                self.lost.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(500)).await;
                Err(ProbeError::Timeout(door.address))
            })
        }
    }

    fn activators(network: &Arc<NetworkProber>) -> Activators {
        let (queues, readiness) = (Arc::new(WorkQueues::default()), Readiness::default());
        let errors = IntCounterVec::new(Opts::new("errors", "errors"), &["kind"]).unwrap();
        let client = FakeApi::default().client();
        let (objects, _) =
            crate::cache::watches::watches(&client, "rouse-system", queues, &errors, &readiness);
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "rouse-system", "labels": {"kubernetes.io/service-name": "activator"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [LISTENS]}, {"addresses": [CUT_OFF]}],
        }))
        .unwrap();
        objects.slices.apply(&Event::Apply(slice));
        Activators::new(objects, "rouse-system".to_owned(), network.clone())
    }

    fn lease(protocol: Protocol) -> Vec<PortLease> {
        let (name, pod_port) = ("http".to_owned(), 8012);
        vec![PortLease { name, service_port: 80, activator_port: 20000, pod_port, protocol }]
    }

    async fn in_path(activators: &Activators, key: &Key, uid: &str, ports: &[PortLease]) -> Vec<String> {
        let listening = activators.listening(PortHolder { key, uid }, ports, 2).await;
        listening.endpoints.iter().flat_map(|e| e.endpoint.addresses.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_cut_off_is_in_no_path_and_does_not_take_every_workloads_time() {
        let network = Arc::new(NetworkProber::default());
        let (activators, began) = (activators(&network), tokio::time::Instant::now());
        for i in 0..100 {
            let key = Key::new("shop", format!("web-{i}"));
            assert_eq!(in_path(&activators, &key, "u", &lease(Protocol::Http)).await, [LISTENS]);
        }
        assert_eq!((began.elapsed().as_millis(), network.lost.load(Ordering::Relaxed)), (500, 1));
        tokio::time::advance(SILENCE).await;
        in_path(&activators, &Key::new("shop", "web-0"), "u", &lease(Protocol::Http)).await;
        assert_eq!(network.lost.load(Ordering::Relaxed), 2, "it may be back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_proof_is_for_one_lease_and_one_protocol() {
        let network = Arc::new(NetworkProber::default());
        let (activators, key) = (activators(&network), Key::new("shop", "web"));
        for (uid, protocol, asked) in [
            ("u-1", Protocol::Http, 1),
            ("u-1", Protocol::Http, 1),
            ("u-1", Protocol::Tcp, 2),
            ("u-2", Protocol::Tcp, 3),
            ("u-1", Protocol::Tcp, 4),
        ] {
            assert_eq!(in_path(&activators, &key, uid, &lease(protocol)).await, [LISTENS]);
            assert_eq!(network.answered.load(Ordering::Relaxed), asked, "{uid} {protocol}");
        }
        assert_eq!(in_path(&activators, &key, "u-1", &[]).await, [""; 0], "nothing is leased");
    }
}
