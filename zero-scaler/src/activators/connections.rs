//! ActivatorConnections: leaves an activator out of the endpoints when its process is killed.
//!
//! Each activator keeps a push connection to each zero-scaler. The kernel closes the connections of
//! a killed process at once; Kubernetes marks its pod as not ready about a second later.
//!
//! A broken connection alone is not enough, because the network or this process may be at fault. So
//! an activator is left out only if its node refuses a new connection, which shows that no process
//! listens, and if another activator accepts one, which shows that this process can reach
//! activators. So at least one activator stays.
//!
//! The kernel closes the sockets of a killed process one after another, so its node may still
//! accept connections for a moment after the push connection broke. So an accepted connection does
//! not show that the process lives, and the check is repeated for half a second.
//!
//! What is dropped is the result of its probes. It returns with the next probe that succeeds.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::{ActivatorReport, ReportStream, StreamState};
use futures::future::{join, join_all};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::activators::directory::Activators;
use crate::activators::path_probe::ProbeError;
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::work_queue::WorkQueues;

/// Delays before an activator that accepted a connection is checked again. The kernel takes
/// milliseconds to end a process, and longer on a loaded node.
const RECHECKS: [Duration; 6] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(50),
    Duration::from_millis(130),
    Duration::from_millis(300),
];

/// The push connections of activators to this process.
#[derive(Debug)]
pub struct ActivatorConnections {
    activators: Arc<Activators>,
    cache: Arc<ClusterCache>,
    queues: Arc<WorkQueues>,
    /// Activators that were left out and did not reconnect. Bounded by the ready ones.
    left_out: Mutex<HashSet<IpAddr>>,
}

// === impl ActivatorConnections ===

impl ActivatorConnections {
    /// A change enqueues the ServerlessServices of `cache` in `queues`.
    pub fn new(activators: Arc<Activators>, cache: Arc<ClusterCache>, queues: Arc<WorkQueues>) -> Self {
        Self { activators, cache, queues, left_out: Mutex::default() }
    }

    /// An authenticated connection from this address was opened.
    pub fn opened(&self, peer: IpAddr) {
        if self.left_out.lock().remove(&peer.to_canonical()) {
            self.reconcile_endpoints();
        }
    }

    /// Takes a report of one connection.
    pub fn report(&self, stream: &mut ReportStream, report: &ActivatorReport) {
        let is_whole = report.messages.iter().all(|message| message.stat.is_plausible());
        match stream.frame(report, is_whole) {
            StreamState::Open => {}
            StreamState::SecondReported(carried) => {
                self.activators.reports().reported(&report.activator, carried);
            }
            StreamState::Damaged => self.interrupted(stream),
        }
    }

    /// A frame of this connection could not be decoded.
    pub fn malformed(&self, stream: &mut ReportStream) {
        stream.malformed();
        self.interrupted(stream);
    }

    /// A report of this connection is missing, or it ended.
    pub fn interrupted(&self, stream: &ReportStream) {
        stream.activator().into_iter().for_each(|name| self.activators.reports().interrupted(name));
    }

    /// A connection from this address ended without a close message.
    pub async fn broken(&self, peer: IpAddr) {
        let peer = peer.to_canonical();
        let ready = self.activators.ready_addresses();
        // A drained activator left the endpoints before.
        let Some(pod) = ready.iter().find(|addresses| addresses.contains(&peer)) else { return };
        let others = ready.iter().filter(|other| *other != pod).filter_map(|other| other.first());
        let checks = join_all(others.map(|other| self.activators.connect(*other)));
        let (is_gone, others) = join(self.is_gone(peer), checks).await;
        if !is_gone || !others.iter().any(Result::is_ok) {
            tracing::debug!(activator = %peer, "push connection broken, activator kept in endpoints");
            return;
        }
        tracing::warn!(activator = %peer, "activator refuses connections, removed from endpoints");
        self.activators.forget_probes(pod);
        let mut left_out = self.left_out.lock();
        left_out.retain(|left_out| ready.iter().flatten().any(|address| address == left_out));
        left_out.insert(peer);
        drop(left_out);
        self.reconcile_endpoints();
    }

    /// Whether the node of an activator refuses a connection, now or in a moment.
    async fn is_gone(&self, activator: IpAddr) -> bool {
        let mut checked = self.activators.connect(activator).await;
        for delay in RECHECKS {
            if checked.is_err() {
                break;
            }
            sleep(delay).await;
            checked = self.activators.connect(activator).await;
        }
        is_refused(&checked)
    }

    fn reconcile_endpoints(&self) {
        self.queues.serverless_services.enqueue_all(&self.cache.serverless_services);
    }
}

fn is_refused(result: &Result<(), ProbeError>) -> bool {
    matches!(result, Err(ProbeError::Connect(_, error)) if error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use autoscaler::api::PortLease;
    use autoscaler::{Key, Protocol};

    use super::*;
    use crate::activators::directory::PortHolder;
    use crate::activators::fake_network::{FakeNetwork, activators_of};
    use crate::activators::selection::Placement;

    const KILLED: &str = "10.2.0.1";
    const OTHER: &str = "10.2.0.2";
    const BOTH: [&str; 2] = [KILLED, OTHER];

    fn connections(network: &Arc<FakeNetwork>) -> ActivatorConnections {
        let (activators, cache) = activators_of(network, &BOTH);
        ActivatorConnections::new(activators, cache, Arc::new(WorkQueues::default()))
    }

    /// The activators in the endpoints of a workload after a reconcile.
    async fn endpoints(connections: &ActivatorConnections) -> Vec<String> {
        let (name, protocol) = ("http".to_owned(), Protocol::Http);
        let (service_port, activator_port, pod_port, pod_port_name) = (80, 20000, 8012, None);
        let ports = [PortLease { name, service_port, activator_port, pod_port, pod_port_name, protocol }];
        let lessee = PortHolder { key: &Key::new("shop", "web"), uid: "u" };
        let placement = Placement { number: 2, ..Placement::default() };
        let listening = connections.activators.listening(lessee, &ports, &placement).await;
        listening.endpoints.iter().flat_map(|e| e.endpoint.addresses.clone()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn killed_activator_is_left_out_until_it_listens_again() {
        let network = Arc::new(FakeNetwork::listening(&BOTH));
        let connections = connections(&network);
        assert_eq!(endpoints(&connections).await, BOTH);
        network.set(&[OTHER], &[KILLED]);
        assert_eq!(endpoints(&connections).await, BOTH, "nothing shows it yet");
        connections.broken("::ffff:10.2.0.1".parse().unwrap()).await;
        assert_eq!(endpoints(&connections).await, [OTHER]);
        network.set(&BOTH, &[]);
        connections.opened(KILLED.parse().unwrap());
        assert!(connections.left_out.lock().is_empty());
        assert_eq!(endpoints(&connections).await, BOTH);
    }

    #[tokio::test(start_paused = true)]
    async fn killed_activator_that_accepts_for_a_moment_is_left_out() {
        let network = Arc::new(FakeNetwork::listening(&BOTH));
        let connections = connections(&network);
        assert_eq!(endpoints(&connections).await, BOTH);
        let listeners_close = async {
            sleep(Duration::from_millis(30)).await;
            network.set(&[OTHER], &[KILLED]);
        };
        join(connections.broken(KILLED.parse().unwrap()), listeners_close).await;
        assert_eq!(endpoints(&connections).await, [OTHER]);
    }

    #[tokio::test(start_paused = true)]
    async fn broken_connection_without_further_evidence_changes_nothing() {
        for (peer, listening, refusing, what) in [
            (KILLED, &BOTH[..], &[][..], "it accepts a new connection"),
            (KILLED, &[OTHER], &[], "it is unreachable"),
            (KILLED, &[], &BOTH, "all refuse connections"),
            (KILLED, &[], &[KILLED], "no other is reachable"),
            (KILLED, &[], &[], "none is reachable"),
            ("10.2.0.9", &BOTH, &["10.2.0.9"], "it is not a ready activator"),
        ] {
            let network = Arc::new(FakeNetwork::listening(&BOTH));
            let connections = connections(&network);
            assert_eq!(endpoints(&connections).await, BOTH);
            let probes = network.passed.load(Ordering::Relaxed);
            network.set(listening, refusing);
            connections.broken(peer.parse().unwrap()).await;
            assert_eq!(endpoints(&connections).await, BOTH, "{what}");
            assert_eq!(network.passed.load(Ordering::Relaxed), probes, "probed again: {what}");
        }
    }
}
