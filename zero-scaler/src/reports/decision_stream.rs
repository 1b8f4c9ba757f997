//! The adapters' decisions, as streams.
//!
//! One connection to every ready metrics-adapter; each starts with a snapshot. What a connection said is forgotten with it, so
//! without an adapter nothing is known, which is not the same as zero. The same goes for a workload that a connected adapter
//! no longer speaks of: it repeats what still holds every ten seconds. Age is counted from the arrival, so clocks that differ
//! between nodes do not matter. When several adapters speak of one workload (a leader change) the newest decision counts.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::contract::DECISIONS_PATH;
use autoscaler::{Decision, DecisionEvent, Key};
use parking_lot::{Mutex, MutexGuard};
use runtime::auth::ProjectedToken;
use runtime::websocket::{ClientSocket, Connector, PeerError, PeerLimits, split};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;

use crate::cache::work_queue::WorkQueue;
use crate::clock::now;
use crate::metrics::Metrics;

/// A snapshot of 50,000 workloads has some 15 MiB.
const LARGEST_MESSAGE: usize = 32 << 20;
/// Workloads that one adapter may speak of.
const MOST_WORKLOADS: usize = 100_000;
/// A decision that was not repeated for so long is no longer known: three repetitions are missing.
const FRESH_FOR: Duration = Duration::from_secs(35);
/// How often those are looked for.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
const LIMITS: PeerLimits = PeerLimits {
    ping_interval: Duration::from_secs(5),
    silence_timeout: Duration::from_secs(15),
    send_timeout: Duration::from_secs(5),
};
/// First and longest delay between attempts to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The newest decision of each workload.
#[derive(Debug)]
pub struct Decisions {
    by_peer: Mutex<ByPeer>,
    changed: Arc<WorkQueue>,
    metrics: Metrics,
    token: ProjectedToken,
}

type ByPeer = HashMap<SocketAddr, HashMap<Key, ReceivedDecision>>;

/// A decision and when it came.
#[derive(Clone, Debug)]
pub struct ReceivedDecision {
    /// What was decided.
    pub decision: Decision,
    /// When it was last told.
    pub at: Instant,
}

// === impl Decisions ===

impl Decisions {
    /// Knows nothing yet; fires `changed` with every workload whose decision changes in more than its averages. Adapters know us by `token`.
    pub fn new(changed: Arc<WorkQueue>, metrics: Metrics, token: ProjectedToken) -> Self {
        Self { by_peer: Mutex::default(), changed, metrics, token }
    }

    /// The newest decision on a workload; `None` while no connected adapter has one that still holds.
    pub fn newest(&self, key: &Key, now: Instant) -> Option<ReceivedDecision> {
        let by_peer = self.lock();
        let heard = by_peer.values().filter_map(|known| known.get(key)).filter(|heard| heard.is_fresh(now));
        heard.max_by_key(|heard| heard.decision.decided_at).cloned()
    }

    /// Keeps a connection to each of the adapters until the process ends.
    pub async fn follow(self: Arc<Self>, mut adapters: watch::Receiver<BTreeSet<SocketAddr>>) {
        let mut connections: HashMap<SocketAddr, AbortHandle> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let wanted = adapters.borrow_and_update().clone();
            connections.retain(|peer, task| {
                let keep = wanted.contains(peer);
                if !keep {
                    task.abort();
                    self.forget(*peer);
                }
                keep
            });
            for peer in wanted {
                connections.entry(peer).or_insert_with(|| tasks.spawn(self.clone().keep_connected(peer)));
            }
            // The tasks end only by being aborted above; joining them frees their memory.
            while tasks.try_join_next().is_some() {}
            tokio::select! {
                changed = adapters.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(EXPIRE_EVERY) => self.expire(now()),
            }
        }
    }

    async fn keep_connected(self: Arc<Self>, peer: SocketAddr) {
        let mut connector =
            Connector::new(peer, DECISIONS_PATH, self.token.clone(), RETRY).with_max_message(LARGEST_MESSAGE);
        loop {
            let socket = connector.connect().await;
            let _connected = Connected::new(&self, peer);
            let error = self.read(peer, socket).await;
            tracing::info!(%peer, %error, "decision stream disconnected, reconnecting");
        }
    }

    async fn read(&self, peer: SocketAddr, socket: ClientSocket) -> PeerError {
        let (mut sender, mut receiver) = split(socket, LIMITS);
        tokio::select! {
            Err(error) = sender.ping_until(std::future::pending::<Infallible>()) => error,
            error = async {
                loop {
                    match receiver.next().await {
                        Ok(Message::Text(text)) => self.take(peer, text.as_str()),
                        Ok(_) => {}
                        Err(error) => return error,
                    }
                }
            } => error,
        }
    }

    fn take(&self, peer: SocketAddr, text: &str) {
        match serde_json::from_str(text) {
            Ok(event) => self.receive(peer, event, now()),
            Err(error) => {
                self.metrics.decisions_dropped.inc();
                tracing::warn!(%peer, %error, "a decision that makes no sense is dropped");
            }
        }
    }

    /// Takes in what an adapter said at that moment.
    pub fn receive(&self, peer: SocketAddr, event: DecisionEvent, at: Instant) {
        let mut by_peer = self.lock();
        let known = by_peer.entry(peer).or_default();
        let touched: Vec<Key> = match event {
            DecisionEvent::Snapshot(decisions) => {
                let before = std::mem::take(known);
                known.extend(
                    decisions
                        .into_iter()
                        .take(MOST_WORKLOADS)
                        .map(|d| (d.key.clone(), ReceivedDecision { decision: d, at })),
                );
                before.into_keys().chain(known.keys().cloned()).collect()
            }
            DecisionEvent::Decided(decision) => {
                if known.len() >= MOST_WORKLOADS && !known.contains_key(&decision.key) {
                    self.metrics.decisions_dropped.inc();
                    return;
                }
                let key = decision.key.clone();
                let repeated = known.get(&key).is_some_and(|heard| heard.is_repeated_by(&decision, at));
                known.insert(key.clone(), ReceivedDecision { decision, at });
                if repeated { Vec::new() } else { vec![key] }
            }
            DecisionEvent::Removed(key) => {
                known.remove(&key);
                vec![key]
            }
        };
        drop(by_peer);
        touched.into_iter().for_each(|key| self.changed.enqueue(key));
    }

    /// Forgets what no longer holds, and asks for a look at it: nothing else would tell that it is not known any more.
    fn expire(&self, now: Instant) {
        let mut by_peer = self.lock();
        let aged = by_peer.values_mut().flat_map(|known| known.extract_if(|_, heard| !heard.is_fresh(now)));
        let aged: Vec<Key> = aged.map(|(key, _)| key).collect();
        drop(by_peer);
        aged.into_iter().for_each(|key| self.changed.enqueue(key));
    }

    fn forget(&self, peer: SocketAddr) {
        let known = self.lock().remove(&peer);
        known.into_iter().flatten().for_each(|(key, _)| self.changed.enqueue(key));
    }

    fn lock(&self) -> MutexGuard<'_, ByPeer> {
        self.by_peer.lock()
    }
}

/// While it lives a stream is connected; with it goes what the stream said, also when the task is aborted.
struct Connected<'a> {
    decisions: &'a Decisions,
    peer: SocketAddr,
}

// === impl Heard ===

impl ReceivedDecision {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= FRESH_FOR
    }

    /// Whether a decision tells those who still know this one nothing new.
    fn is_repeated_by(&self, decision: &Decision, at: Instant) -> bool {
        self.is_fresh(at) && self.decision.is_like(decision)
    }
}

// === impl Connected ===

impl<'a> Connected<'a> {
    fn new(decisions: &'a Decisions, peer: SocketAddr) -> Self {
        decisions.metrics.decision_streams.inc();
        Self { decisions, peer }
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.decisions.metrics.decision_streams.dec();
        self.decisions.forget(self.peer);
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use prometheus::Registry;

    use super::*;

    fn decision(name: &str, desired: u32, decided_at: i64) -> Decision {
        Decision {
            key: Key::new("shop", name),
            desired,
            panicking: false,
            held: false,
            excess_burst_capacity: 0,
            stable: 0.0,
            panic: 0.0,
            ready: 1,
            idle_since: None,
            decided_at,
        }
    }

    fn peer(n: u8) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, n], 8080))
    }

    fn decisions() -> (Decisions, Arc<WorkQueue>) {
        let queue = Arc::new(WorkQueue::default());
        let metrics = Metrics::register(&Registry::new()).unwrap();
        (Decisions::new(queue.clone(), metrics, ProjectedToken::default()), queue)
    }

    fn desired(decisions: &Decisions, name: &str) -> Option<u32> {
        decisions.newest(&Key::new("shop", name), now()).map(|heard| heard.decision.desired)
    }

    #[test]
    fn the_newest_word_counts_and_goes_with_its_connection() {
        let (decisions, _) = decisions();
        decisions.receive(
            peer(1),
            DecisionEvent::Snapshot(vec![decision("web", 3, 10), decision("api", 1, 10)]),
            now(),
        );
        decisions.receive(peer(2), DecisionEvent::Snapshot(vec![decision("web", 5, 20)]), now());
        assert_eq!((desired(&decisions, "web"), desired(&decisions, "api")), (Some(5), Some(1)));
        decisions.forget(peer(2));
        assert_eq!(desired(&decisions, "web"), Some(3));
        decisions.receive(peer(1), DecisionEvent::Removed(Key::new("shop", "web")), now());
        assert_eq!(desired(&decisions, "web"), None);
        decisions.forget(peer(1));
        assert_eq!(desired(&decisions, "api"), None);
    }

    #[test]
    fn a_snapshot_replaces_and_asks_for_a_look_at_what_it_no_longer_names() {
        let (decisions, queue) = decisions();
        decisions.receive(peer(1), DecisionEvent::Snapshot(vec![decision("old", 1, 1)]), now());
        decisions.receive(peer(1), DecisionEvent::Snapshot(vec![decision("new", 1, 1)]), now());
        assert_eq!(desired(&decisions, "old"), None);
        let fired: Vec<_> = queue.stream().take(2).collect::<Vec<_>>().now_or_never().unwrap();
        assert_eq!(fired, [Key::new("shop", "new"), Key::new("shop", "old")]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_repeated_is_forgotten() {
        let (decisions, _) = decisions();
        decisions.receive(peer(1), DecisionEvent::Decided(decision("web", 3, 10)), now());
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(desired(&decisions, "web"), Some(3));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(desired(&decisions, "web"), None);
        decisions.receive(peer(1), DecisionEvent::Decided(decision("web", 3, 10)), now());
        assert_eq!(desired(&decisions, "web"), Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_workload_of_which_nothing_is_known_any_more_is_looked_at() {
        let (decisions, queue) = decisions();
        let decisions = Arc::new(decisions);
        let (_adapters, none) = watch::channel(BTreeSet::new());
        tokio::spawn(decisions.clone().follow(none));
        let mut looks = Box::pin(queue.stream());
        decisions.receive(peer(1), DecisionEvent::Decided(decision("web", 3, 10)), now());
        looks.next().await.unwrap();
        let heard = now();
        assert_eq!(looks.next().await, Some(Key::new("shop", "web")));
        assert!(now() - heard > FRESH_FOR, "{:?}", now() - heard);
        assert_eq!(desired(&decisions, "web"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_news_asks_for_a_look() {
        let (decisions, queue) = decisions();
        let stream = queue.stream();
        futures::pin_mut!(stream);
        let mut say = |desired, decided_at| {
            decisions.receive(peer(1), DecisionEvent::Decided(decision("web", desired, decided_at)), now());
            stream.next().now_or_never().is_some()
        };
        assert!(say(3, 10));
        assert!(!say(3, 20));
        assert!(say(4, 30));
        tokio::time::advance(FRESH_FOR + Duration::from_millis(1)).await;
        assert!(say(4, 40), "it was forgotten meanwhile");
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let (decisions, _) = decisions();
        decisions.take(peer(1), "{\"event\":\"nonsense\"}");
        assert_eq!(decisions.metrics.decisions_dropped.get(), 1);
    }
}
