//! The directory of activators: which are ready, which listen on a leased port, how long none was
//! ready.
//!
//! Input: the slices of Service `activator`, and probes. Output: endpoints for the slices of
//! workloads. A successful probe is valid for as long as the activator is ready, so reconciles
//! probe each pair of activator and port once.
//!
//! In a dual-stack cluster an activator has two addresses. It is selected once, by its first
//! address, as activators identify each other. Each of its addresses is probed on its own.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use autoscaler::api::PortLease;
use autoscaler::contract::ADMIN_PORT;
use autoscaler::stats::reporters::MissingReports;
use autoscaler::{Key, Protocol};
use component_base::retry;
use futures::future::join_all;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions};
use parking_lot::Mutex;

use crate::activators::activator_reports::{ActivatorReports, ReportChanges};
use crate::activators::path_probe::{PathProber, ProbeError, ProbedAddress};
use crate::activators::recent_joins::RecentJoins;
use crate::activators::selection::{ActivatorAddresses, Placement, Selection};
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::watches::ACTIVATOR_SERVICE;
use crate::clock::now;
use crate::pods::endpoints::{PodEndpoint, copied, is_ready};

/// Rounds of probes. In each, other activators replace those that failed.
const MAX_ROUNDS: u32 = 3;

/// Delay before the first retry. Activators open a leased port within milliseconds.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// Time without probes of an activator after a timeout. Each timeout delays a reconcile, and an
/// activator on an unreachable node would delay the reconciles of all workloads.
const UNREACHABLE_PAUSE: Duration = Duration::from_secs(2);
/// Longest delay between retries.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The activators of the installation.
#[derive(Debug)]
pub struct Activators {
    cache: Arc<ClusterCache>,
    system_namespace: String,
    prober: Arc<dyn PathProber>,
    namespace_deleted_at: OnceLock<Instant>,
    uninstall_is_announced: AtomicBool,
    reports: ActivatorReports,
    /// Successful probes by activator and leased port.
    listening: Mutex<HashMap<IpAddr, HashMap<u16, VerifiedLease>>>,
    joins: Mutex<RecentJoins>,
    /// Activators whose last probe timed out, and when.
    unreachable: Mutex<HashMap<IpAddr, Instant>>,
    none_since: Mutex<Option<Instant>>,
    /// Consecutive reconciles in which not all activators listened.
    misses: Mutex<HashMap<Key, u32>>,
}

/// The ServerlessService that leases ports. One that was created again may get the ports of its
/// predecessor while activators still close them, so the UID counts.
#[derive(Clone, Copy, Debug)]
pub struct PortHolder<'a> {
    pub key: &'a Key,
    /// The UID of the ServerlessService.
    pub uid: &'a str,
}

/// The lease for which a probe of an activator's port succeeded.
#[derive(Debug)]
struct VerifiedLease {
    key: Key,
    uid: String,
    protocol: Protocol,
}

/// The activators of a workload that may enter its endpoints.
#[derive(Debug, Default)]
pub struct ListeningActivators {
    /// One endpoint for each address whose probes succeeded.
    pub endpoints: Vec<PodEndpoint>,
    /// Whether all selected activators listen at all of their addresses.
    pub all: bool,
    /// When it moves to activators that joined; `None` if it does not.
    pub moves_after: Option<Duration>,
}

/// The activators that were selected, by their first addresses, and the result without their
/// endpoints.
struct Selected {
    listening: BTreeSet<IpAddr>,
    result: ListeningActivators,
}

// === impl Activators ===

impl Activators {
    /// Reads the slices of Service `activator` in `system_namespace` from the cache.
    pub fn new(cache: Arc<ClusterCache>, system_namespace: String, prober: Arc<dyn PathProber>) -> Self {
        Self {
            cache,
            system_namespace,
            prober,
            namespace_deleted_at: OnceLock::new(),
            uninstall_is_announced: AtomicBool::new(false),
            reports: ActivatorReports::default(),
            listening: Mutex::default(),
            joins: Mutex::default(),
            unreachable: Mutex::default(),
            none_since: Mutex::default(),
            misses: Mutex::default(),
        }
    }

    /// Endpoints of the ready activators, one for each address. Without those that have to leave
    /// the endpoints, because they do not report.
    pub fn ready(&self) -> Vec<PodEndpoint> {
        self.list();
        let slices = self.cache.slices.of(&self.system_namespace, ACTIVATOR_SERVICE);
        let mut ready = Vec::new();
        for slice in &slices {
            for endpoint in slice.endpoints.iter().flatten().filter(|e| is_ready(e)) {
                let mut endpoint = copied(endpoint);
                // Those of Rouse's own Service. A workload's Service has others.
                endpoint.hints = None;
                endpoint.conditions = Some(EndpointConditions {
                    ready: Some(true),
                    serving: Some(true),
                    terminating: Some(false),
                });
                let (family, ports) = (slice.address_type.clone(), Arc::default());
                ready.push(PodEndpoint { family, endpoint, ports });
            }
        }
        ready.sort_by(|a, b| a.endpoint.addresses.cmp(&b.endpoint.addresses));
        ready.dedup_by(|a, b| a.endpoint.addresses == b.endpoint.addresses);
        self.reports.retain_reporting(&mut ready, |activator| name_of(&activator.endpoint));
        ready
    }

    /// The reports that activators send.
    pub fn reports(&self) -> &ActivatorReports {
        &self.reports
    }

    /// Whether every activator that may carry requests reported the last second.
    pub fn all_report(&self) -> bool {
        self.list();
        self.reports.are_complete()
    }

    /// Why requests of this workload may be unreported; `None` if all of them are reported.
    pub fn silence(&self, key: &Key) -> Option<String> {
        self.list();
        self.reports.silence(key)
    }

    /// Compares the reports with the last call; `adapters`: what the metrics-adapters miss.
    pub fn update_reports(&self, adapters: MissingReports, at: jiff::Timestamp) -> ReportChanges {
        self.list();
        self.reports.update(adapters, at)
    }

    fn list(&self) {
        let slices = self.cache.slices.of(&self.system_namespace, ACTIVATOR_SERVICE);
        // In this order, so that a pod is ready if it is ready in one slice.
        let listed: BTreeSet<(String, bool)> = slices
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten())
            .map(|endpoint| (name_of(endpoint), is_ready(endpoint)))
            .collect();
        self.reports.list(listed);
    }

    /// Records that the installation's namespace is being deleted, for good.
    pub fn namespace_is_deleted(&self) {
        self.namespace_deleted_at.get_or_init(now);
    }

    /// Time since that was recorded.
    pub fn namespace_deleted_for(&self) -> Option<Duration> {
        self.namespace_deleted_at.get().map(|at| now().saturating_duration_since(*at))
    }

    /// Records whether an uninstall is announced. Returns whether that changed.
    pub fn announce_uninstall(&self, announced: bool) -> bool {
        self.uninstall_is_announced.swap(announced, Ordering::Relaxed) != announced
    }

    /// Whether all activators are about to be deleted for good.
    pub fn are_leaving(&self) -> bool {
        self.namespace_deleted_at.get().is_some() || self.uninstall_is_announced.load(Ordering::Relaxed)
    }

    /// Time without a ready activator; `None` while one is ready and stays.
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

    /// Admin addresses of the ready activators.
    pub fn admin_addresses(&self) -> Vec<SocketAddr> {
        by_first_address(&self.ready()).into_keys().map(|ip| SocketAddr::new(ip, ADMIN_PORT)).collect()
    }

    /// The addresses of each ready activator.
    pub(super) fn ready_addresses(&self) -> Vec<Vec<IpAddr>> {
        let ready = self.ready();
        by_first_address(&ready).into_values().map(|addresses| addresses.into_keys().collect()).collect()
    }

    /// Opens a connection to the admin port of an activator.
    pub(super) async fn connect(&self, ip: IpAddr) -> Result<(), ProbeError> {
        self.prober.connect(SocketAddr::new(ip, ADMIN_PORT)).await
    }

    /// Drops the successful probes of an activator, so that reconciles probe it again.
    pub(super) fn forget_probes(&self, addresses: &[IpAddr]) {
        let mut listening = self.listening.lock();
        addresses.iter().for_each(|ip| drop(listening.remove(ip)));
    }

    /// Selects activators for a workload. Each listens on all of `ports`.
    pub async fn listening(
        &self,
        lessee: PortHolder<'_>,
        ports: &[PortLease],
        placement: &Placement,
    ) -> ListeningActivators {
        if ports.is_empty() {
            return ListeningActivators { all: true, ..ListeningActivators::default() };
        }
        let ready = self.ready();
        self.retain_ready(&ready);
        let activators = by_first_address(&ready);
        self.joins.lock().observe(&activators.keys().copied().collect(), now());
        let mut selected = self.select(&activators, lessee, ports, placement).await;
        for (first, addresses) in activators.iter().filter(|(first, _)| selected.listening.contains(*first)) {
            for (ip, endpoint) in addresses {
                let listens = ip == first || self.listens(*ip, ports, lessee).await;
                selected.result.all &= listens;
                selected.result.endpoints.extend(listens.then(|| (*endpoint).clone()));
            }
        }
        selected.result
    }

    /// Selects activators of a workload by their first addresses. Others replace those that do not
    /// listen.
    async fn select(
        &self,
        activators: &ActivatorAddresses<'_>,
        lessee: PortHolder<'_>,
        ports: &[PortLease],
        placement: &Placement,
    ) -> Selected {
        let recent = self.joins.lock().recent(now());
        let mut selection = Selection::new(lessee.key, activators, placement, &recent);
        let moved = selection.is_displaced().then(|| self.joins.lock().try_move(lessee.key, now()));
        selection.settles = moved == Some(Ok(()));
        let (mut listening, mut failed) = (BTreeSet::new(), BTreeSet::new());
        let wanted = selection.without(&failed).len();
        for _ in 0..MAX_ROUNDS {
            let subset = selection.without(&failed);
            let results = join_all(subset.iter().map(|ip| self.listens(*ip, ports, lessee))).await;
            let (passed, missed): (Vec<_>, Vec<_>) =
                subset.into_iter().zip(results).partition(|(_, listens)| *listens);
            listening = passed.into_iter().map(|(ip, _)| ip).collect();
            if missed.is_empty() {
                break;
            }
            failed.extend(missed.into_iter().map(|(ip, _)| ip));
        }
        let (all, moves_after) = (listening.len() >= wanted, moved.and_then(Result::err));
        Selected { listening, result: ListeningActivators { endpoints: Vec::new(), all, moves_after } }
    }

    /// Delay before the next reconcile, longer each time; `None` if all selected activators listen.
    pub fn retry_after(&self, key: &Key, all_listen: bool) -> Option<Duration> {
        let mut misses = self.misses.lock();
        if all_listen {
            misses.remove(key);
            return None;
        }
        let count = misses.entry(key.clone()).and_modify(|n| *n = n.saturating_add(1)).or_insert(0);
        Some(retry::delay_after(*count, FIRST_RETRY, LONGEST_RETRY))
    }

    async fn listens(&self, ip: IpAddr, ports: &[PortLease], lessee: PortHolder<'_>) -> bool {
        for lease in ports {
            let port = lease.activator_port;
            let is_verified = |verified: &VerifiedLease| verified.matches(lessee, lease);
            if self.listening.lock().get(&ip).and_then(|ports| ports.get(&port)).is_some_and(is_verified) {
                continue;
            }
            if self.is_unreachable(ip) {
                return false;
            }
            let probed = ProbedAddress {
                address: SocketAddr::new(ip, port),
                protocol: lease.protocol,
                activator_port: port,
                admin_addresses: vec![SocketAddr::new(ip, ADMIN_PORT)],
            };
            if let Err(error) = self.prober.probe(&probed, lessee.key).await {
                if matches!(error, ProbeError::Timeout(_)) {
                    self.unreachable.lock().insert(ip, now());
                }
                tracing::debug!(workload = %lessee.key, %error, "activator probe failed, activator not added to endpoints yet");
                return false;
            }
            self.listening.lock().entry(ip).or_default().insert(port, VerifiedLease::new(lessee, lease));
        }
        true
    }

    fn is_unreachable(&self, ip: IpAddr) -> bool {
        let since = self.unreachable.lock().get(&ip).copied();
        since.is_some_and(|since| now().saturating_duration_since(since) < UNREACHABLE_PAUSE)
    }

    /// Drops the results of activators that are not ready, so that a restarted one is probed again.
    fn retain_ready(&self, ready: &[PodEndpoint]) {
        let addresses: HashSet<IpAddr> = ready.iter().filter_map(address).collect();
        self.listening.lock().retain(|ip, _| addresses.contains(ip));
        self.unreachable.lock().retain(|ip, _| addresses.contains(ip));
    }

    /// Drops the results of workloads that no longer exist. Call it periodically.
    pub fn prune(&self) {
        let exists = |key: &Key| self.cache.autoscaler_meta(key).is_some();
        self.misses.lock().retain(|key, _| exists(key));
        self.joins.lock().prune(exists);
        for leases in self.listening.lock().values_mut() {
            leases.retain(|_, verified| self.cache.autoscaler_meta(&verified.key).is_some());
        }
    }
}

// === impl VerifiedLease ===

impl VerifiedLease {
    fn new(lessee: PortHolder<'_>, lease: &PortLease) -> Self {
        Self { key: lessee.key.clone(), uid: lessee.uid.to_owned(), protocol: lease.protocol }
    }

    fn matches(&self, lessee: PortHolder<'_>, lease: &PortLease) -> bool {
        self.uid == lessee.uid && self.key == *lessee.key && self.protocol == lease.protocol
    }
}

/// The addresses of each activator pod, by its least address.
fn by_first_address(ready: &[PodEndpoint]) -> ActivatorAddresses<'_> {
    let mut by_pod: HashMap<String, BTreeMap<IpAddr, &PodEndpoint>> = HashMap::new();
    for endpoint in ready {
        let Some(ip) = address(endpoint) else { continue };
        by_pod.entry(name_of(&endpoint.endpoint)).or_default().insert(ip, endpoint);
    }
    by_pod.into_values().filter_map(|addresses| Some((*addresses.keys().next()?, addresses))).collect()
}

/// The name of an activator's pod; its address, where the slice does not name the pod.
fn name_of(endpoint: &Endpoint) -> String {
    let pod = endpoint.target_ref.as_ref().and_then(|pod| pod.name.as_ref());
    pod.or(endpoint.addresses.first()).cloned().unwrap_or_default()
}

fn address(endpoint: &PodEndpoint) -> Option<IpAddr> {
    endpoint.endpoint.addresses.first()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::activators::fake_network::{FakeNetwork, activators_of};

    const LISTENS: &str = "10.2.0.1";
    const UNREACHABLE: &str = "10.2.0.2";

    /// One of two activators is unreachable.
    fn network() -> Arc<FakeNetwork> {
        Arc::new(FakeNetwork::listening(&[LISTENS]))
    }

    fn activators(network: &Arc<FakeNetwork>) -> Arc<Activators> {
        activators_of(network, &[LISTENS, UNREACHABLE]).0
    }

    fn lease(protocol: Protocol) -> Vec<PortLease> {
        let (name, pod_port) = ("http".to_owned(), 8012);
        let (service_port, activator_port, pod_port_name) = (80, 20000, None);
        vec![PortLease { name, service_port, activator_port, pod_port, pod_port_name, protocol }]
    }

    async fn listening_addresses(
        activators: &Activators,
        key: &Key,
        uid: &str,
        ports: &[PortLease],
    ) -> Vec<String> {
        let placement = Placement { number: 2, ..Placement::default() };
        let listening = activators.listening(PortHolder { key, uid }, ports, &placement).await;
        listening.endpoints.iter().flat_map(|e| e.endpoint.addresses.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn unreachable_activator_is_left_out_and_delays_one_reconcile() {
        let network = network();
        let (activators, began) = (activators(&network), tokio::time::Instant::now());
        for i in 0..100 {
            let key = Key::new("shop", format!("web-{i}"));
            assert_eq!(listening_addresses(&activators, &key, "u", &lease(Protocol::Http)).await, [LISTENS]);
        }
        assert_eq!((began.elapsed().as_millis(), network.timed_out.load(Ordering::Relaxed)), (500, 1));
        tokio::time::advance(UNREACHABLE_PAUSE).await;
        listening_addresses(&activators, &Key::new("shop", "web-0"), "u", &lease(Protocol::Http)).await;
        assert_eq!(network.timed_out.load(Ordering::Relaxed), 2, "it may be reachable again");
    }

    #[tokio::test(start_paused = true)]
    async fn probe_result_is_valid_for_one_lease_and_protocol() {
        let network = network();
        let (activators, key) = (activators(&network), Key::new("shop", "web"));
        for (uid, protocol, probes) in [
            ("u-1", Protocol::Http, 1),
            ("u-1", Protocol::Http, 1),
            ("u-1", Protocol::Tcp, 2),
            ("u-2", Protocol::Tcp, 3),
            ("u-1", Protocol::Tcp, 4),
        ] {
            assert_eq!(listening_addresses(&activators, &key, uid, &lease(protocol)).await, [LISTENS]);
            assert_eq!(network.passed.load(Ordering::Relaxed), probes, "{uid} {protocol}");
        }
        assert_eq!(listening_addresses(&activators, &key, "u-1", &[]).await, [""; 0], "no port is leased");
    }
}
