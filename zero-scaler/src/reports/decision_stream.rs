//! Receives the decisions of the metrics-adapters over websockets.
//!
//! Input: the addresses of ready metrics-adapters. One connection per adapter starts with a
//! snapshot.
//! Output: the newest decision of each workload, read by the PodAutoscaler reconciler.
//!
//! - What cannot be decoded is skipped and counted. It may have been about any workload, so no idle
//!   time continues after it.
//! - The decisions of a connection are removed when it closes. A missing decision does not mean
//!   zero.
//! - An adapter repeats each valid decision every 10 s. A decision that is not repeated expires.
//! - Age counts from arrival, so clock skew between nodes has no effect.
//! - During a leader change several adapters send decisions for one workload; the newest one
//!   counts.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use autoscaler::contract::DECISIONS_PATH;
use autoscaler::contract::version_skew::{DECISIONS, HELLO_HEADER, KnownItems};
use autoscaler::stats::reporters::{BEAT, LOST_AFTER, MissingReports};
use autoscaler::{Decision, DecisionEvent, Key};
use component_base::auth::ProjectedToken;
use component_base::websocket::{ClientSocket, Connector, PeerError, PeerLimits, split};
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_tungstenite::tungstenite::Message;

use crate::cache::work_queue::WorkQueue;
use crate::clock::now;
use crate::metrics::Metrics;

/// A snapshot of 50,000 workloads has about 15 MiB.
const MAX_MESSAGE_BYTES: usize = 32 << 20;
/// Bounds memory against a faulty adapter.
const MAX_WORKLOADS_PER_ADAPTER: usize = 100_000;
/// Milliseconds by which two adapters may differ on the start of one idle time.
const IDLE_SLACK_MS: i64 = 3000;
/// Three repetitions are missing after this time.
const FRESH_FOR: Duration = Duration::from_secs(35);
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);
const LIMITS: PeerLimits =
    PeerLimits { ping_interval: BEAT, silence_timeout: LOST_AFTER, send_timeout: Duration::from_secs(5) };
/// First and longest delay between connection attempts.
const RECONNECT_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// The newest decision of each workload.
#[derive(Debug)]
pub struct Decisions {
    by_peer: Mutex<ByPeer>,
    missing: Mutex<HashMap<SocketAddr, MissingReports>>,
    /// The workloads without requests: since when by the adapter, and since when by this process.
    idle: Mutex<HashMap<Key, (i64, Instant)>>,
    /// Of the adapter that sent the most, at the last expiry.
    learning_workloads: AtomicU32,
    changed: Arc<WorkQueue>,
    metrics: Metrics,
    token: ProjectedToken,
}

type ByPeer = HashMap<SocketAddr, HashMap<Key, ReceivedDecision>>;

/// A decision and its time of arrival.
#[derive(Clone, Debug)]
pub struct ReceivedDecision {
    /// The decision as the adapter sent it.
    pub decision: Decision,
    /// When it last arrived, also as a repetition.
    pub received_at: Instant,
}

// === impl Decisions ===

impl Decisions {
    /// Starts empty. Workloads whose decision changes in more than its averages are put into
    /// `changed`. `token` authenticates the zero-scaler to the adapters.
    pub fn new(changed: Arc<WorkQueue>, metrics: Metrics, token: ProjectedToken) -> Self {
        let (by_peer, missing, idle, learning_workloads) = Default::default();
        Self { by_peer, missing, idle, learning_workloads, changed, metrics, token }
    }

    /// Since when this process receives decisions that the workload has no requests.
    pub fn idle_since(&self, key: &Key) -> Option<Instant> {
        self.idle.lock().get(key).map(|(_, seen)| *seen)
    }

    fn update_idle(&self, decision: &Decision, at: Instant) {
        let mut idle = self.idle.lock();
        let Some(since) = decision.idle_since else {
            idle.remove(&decision.key);
            return;
        };
        let known = idle.get(&decision.key).map(|(since, _)| *since);
        // The next leader of the adapters has another clock. A later time means a request.
        let continues = known.is_some_and(|known| since <= known.saturating_add(IDLE_SLACK_MS));
        if !continues && (known.is_some() || idle.len() < MAX_WORKLOADS_PER_ADAPTER) {
            idle.insert(decision.key.clone(), (since, at));
        }
    }

    /// The activators whose reports one of the connected adapters misses.
    pub fn missing_reports(&self) -> MissingReports {
        let missing = self.missing.lock();
        let of = |names: fn(&MissingReports) -> &Vec<String>| {
            missing.values().flat_map(names).cloned().collect::<BTreeSet<_>>().into_iter().collect()
        };
        MissingReports { silent: of(|missing| &missing.silent), cut_off: of(|missing| &missing.cut_off) }
    }

    /// The newest decision for a workload; `None` while no connected adapter has a fresh one.
    pub fn newest(&self, key: &Key, now: Instant) -> Option<ReceivedDecision> {
        let by_peer = self.by_peer.lock();
        let received = by_peer.values().filter_map(|decisions| decisions.get(key));
        let fresh = received.filter(|received| received.is_fresh(now));
        fresh.max_by_key(|received| received.decision.decided_at).cloned()
    }

    /// Keeps one connection to each adapter until the sender of `adapters` is dropped.
    pub async fn follow(self: Arc<Self>, mut adapters: watch::Receiver<BTreeSet<SocketAddr>>) {
        let mut connections: HashMap<SocketAddr, AbortHandle> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let current = adapters.borrow_and_update().clone();
            connections.retain(|peer, task| {
                let keep = current.contains(peer);
                if !keep {
                    task.abort();
                    self.remove_peer(*peer);
                }
                keep
            });
            for peer in current {
                connections.entry(peer).or_insert_with(|| tasks.spawn(self.clone().keep_connected(peer)));
            }
            // Tasks end only when aborted above; joining them frees their memory.
            while tasks.try_join_next().is_some() {}
            tokio::select! {
                changed = adapters.changed() => if changed.is_err() {
                    return;
                },
                () = tokio::time::sleep(EXPIRY_INTERVAL) => self.expire(now()),
            }
        }
    }

    async fn keep_connected(self: Arc<Self>, peer: SocketAddr) {
        let mut connector = Connector::new(peer, DECISIONS_PATH, self.token.clone(), RECONNECT_DELAYS)
            .with_max_message(MAX_MESSAGE_BYTES)
            .with_check(|headers| {
                let hello = headers.get(HELLO_HEADER).map(HeaderValue::as_bytes);
                DECISIONS.check(hello).map_err(|refusal| refusal.to_string())
            });
        loop {
            let socket = connector.connect().await;
            let _connected = ConnectedAdapter::new(&self, peer);
            let error = self.receive_until_error(peer, socket).await;
            tracing::info!(%peer, %error, "decision stream disconnected, reconnecting");
        }
    }

    async fn receive_until_error(&self, peer: SocketAddr, socket: ClientSocket) -> PeerError {
        let (mut sender, mut receiver) = split(socket, LIMITS);
        tokio::select! {
            Err(error) = sender.ping_until(std::future::pending::<Infallible>()) => error,
            error = async {
                loop {
                    match receiver.next().await {
                        Ok(Message::Text(text)) => self.parse(peer, text.as_str()),
                        Ok(_) => {}
                        Err(error) => return error,
                    }
                }
            } => error,
        }
    }

    fn parse(&self, peer: SocketAddr, text: &str) {
        match serde_json::from_str(text) {
            Ok(event) => self.receive(peer, event, now()),
            Err(error) => {
                self.unreadable(1);
                tracing::warn!(%peer, %error, "malformed decision message dropped");
            }
        }
    }

    /// Counts messages and decisions that cannot be decoded. Any of them may have ended an idle
    /// time, so all idle times begin again.
    fn unreadable(&self, number: usize) {
        if number > 0 {
            self.metrics.decisions_dropped.inc_by(number as u64);
            self.idle.lock().clear();
        }
    }

    /// Stores a message of an adapter that arrived at `at`.
    pub fn receive(&self, peer: SocketAddr, event: DecisionEvent, at: Instant) {
        let mut by_peer = self.by_peer.lock();
        let decisions = by_peer.entry(peer).or_default();
        let changed: Vec<Key> = match event {
            DecisionEvent::Snapshot(KnownItems { items: snapshot, skipped }) => {
                self.unreadable(skipped);
                let before = std::mem::take(decisions);
                snapshot.iter().for_each(|decision| self.update_idle(decision, at));
                decisions.extend(
                    snapshot
                        .into_iter()
                        .take(MAX_WORKLOADS_PER_ADAPTER)
                        .map(|d| (d.key.clone(), ReceivedDecision { decision: d, received_at: at })),
                );
                before.into_keys().chain(decisions.keys().cloned()).collect()
            }
            DecisionEvent::Decided(decision) => {
                if decisions.len() >= MAX_WORKLOADS_PER_ADAPTER && !decisions.contains_key(&decision.key) {
                    self.metrics.decisions_dropped.inc();
                    return;
                }
                self.update_idle(&decision, at);
                let key = decision.key.clone();
                let repeated =
                    decisions.get(&key).is_some_and(|received| received.is_repeated_by(&decision, at));
                decisions.insert(key.clone(), ReceivedDecision { decision, received_at: at });
                if repeated { Vec::new() } else { vec![key] }
            }
            DecisionEvent::Removed(key) => {
                decisions.remove(&key);
                self.idle.lock().remove(&key);
                vec![key]
            }
            DecisionEvent::Missing(missing) => {
                self.missing.lock().insert(peer, missing);
                Vec::new()
            }
        };
        drop(by_peer);
        changed.into_iter().for_each(|key| self.changed.enqueue(key));
    }

    /// Number of workloads with pods that learn their target, some seconds ago.
    pub fn learning_workloads(&self) -> u32 {
        self.learning_workloads.load(Ordering::Relaxed)
    }

    /// Removes expired decisions and enqueues their workloads; no event reports an expiry.
    fn expire(&self, now: Instant) {
        let mut by_peer = self.by_peer.lock();
        let expired = by_peer
            .values_mut()
            .flat_map(|decisions| decisions.extract_if(|_, received| !received.is_fresh(now)));
        let expired: Vec<Key> = expired.map(|(key, _)| key).collect();
        let learns = |received: &&ReceivedDecision| {
            received.decision.learning.is_some() && received.decision.ready > 0
        };
        let learning = by_peer.values().map(|decisions| decisions.values().filter(learns).count());
        let learning = u32::try_from(learning.max().unwrap_or_default()).unwrap_or(u32::MAX);
        drop(by_peer);
        self.learning_workloads.store(learning, Ordering::Relaxed);
        expired.into_iter().for_each(|key| self.changed.enqueue(key));
    }

    fn remove_peer(&self, peer: SocketAddr) {
        self.missing.lock().remove(&peer);
        let removed = self.by_peer.lock().remove(&peer);
        removed.into_iter().flatten().for_each(|(key, _)| self.changed.enqueue(key));
    }
}

/// Counts an open stream. Drop removes the decisions of the stream, also when its task is aborted.
struct ConnectedAdapter<'a> {
    decisions: &'a Decisions,
    peer: SocketAddr,
}

// === impl ReceivedDecision ===

impl ReceivedDecision {
    fn is_fresh(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.received_at) <= FRESH_FOR
    }

    /// Whether `decision` repeats this one while it is fresh, so that no reconcile is needed.
    fn is_repeated_by(&self, decision: &Decision, at: Instant) -> bool {
        self.is_fresh(at) && self.decision.is_like(decision)
    }
}

// === impl ConnectedAdapter ===

impl<'a> ConnectedAdapter<'a> {
    fn new(decisions: &'a Decisions, peer: SocketAddr) -> Self {
        decisions.metrics.decision_streams.inc();
        Self { decisions, peer }
    }
}

impl Drop for ConnectedAdapter<'_> {
    fn drop(&mut self) {
        self.decisions.metrics.decision_streams.dec();
        self.decisions.remove_peer(self.peer);
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::learning_report::{LearningReport, Phase};
    use autoscaler::settings::LearnTarget;
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
            learning: None,
            hpa_lag: None,
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
        decisions.newest(&Key::new("shop", name), now()).map(|received| received.decision.desired)
    }

    #[test]
    fn newest_decision_counts_until_its_connection_closes() {
        let (decisions, _) = decisions();
        decisions.receive(
            peer(1),
            DecisionEvent::Snapshot(vec![decision("web", 3, 10), decision("api", 1, 10)].into()),
            now(),
        );
        decisions.receive(peer(2), DecisionEvent::Snapshot(vec![decision("web", 5, 20)].into()), now());
        assert_eq!((desired(&decisions, "web"), desired(&decisions, "api")), (Some(5), Some(1)));
        decisions.remove_peer(peer(2));
        assert_eq!(desired(&decisions, "web"), Some(3));
        decisions.receive(peer(1), DecisionEvent::Removed(Key::new("shop", "web")), now());
        assert_eq!(desired(&decisions, "web"), None);
        decisions.remove_peer(peer(1));
        assert_eq!(desired(&decisions, "api"), None);
    }

    #[test]
    fn snapshot_replaces_decisions_and_enqueues_missing_workloads() {
        let (decisions, queue) = decisions();
        decisions.receive(peer(1), DecisionEvent::Snapshot(vec![decision("old", 1, 1)].into()), now());
        decisions.receive(peer(1), DecisionEvent::Snapshot(vec![decision("new", 1, 1)].into()), now());
        assert_eq!(desired(&decisions, "old"), None);
        let enqueued: Vec<_> = queue.stream().take(2).collect::<Vec<_>>().now_or_never().unwrap();
        assert_eq!(enqueued, [Key::new("shop", "new"), Key::new("shop", "old")]);
    }

    #[test]
    fn workloads_that_learn_and_have_pods_are_counted() {
        let (decisions, _) = decisions();
        let report = LearningReport {
            mode: LearnTarget::Apply,
            user_target: 20.0,
            target: 8.0,
            backlog: 1.0,
            temporary_limit: None,
            long_requests: false,
            phase: Phase::Settled,
            confidence: 1.0,
            evidence: String::new(),
            pods_with_user_target: 1,
            pods_with_target: 1,
            changes: 0,
            reverts: 0,
            checkpoint: None,
        };
        let learns = |name, ready| Decision {
            ready,
            learning: Some(Box::new(report.clone())),
            ..decision(name, 1, 10)
        };
        let snapshot = vec![learns("web", 1), learns("asleep", 0), decision("api", 1, 10)];
        decisions.receive(peer(1), DecisionEvent::Snapshot(snapshot.into()), now());
        decisions.receive(peer(2), DecisionEvent::Decided(learns("web", 1)), now());
        decisions.expire(now());
        assert_eq!(decisions.learning_workloads(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn decision_expires_when_it_is_not_repeated() {
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
    async fn enqueues_workload_when_its_decision_expires() {
        let (decisions, queue) = decisions();
        let decisions = Arc::new(decisions);
        let (_adapters, none) = watch::channel(BTreeSet::new());
        tokio::spawn(decisions.clone().follow(none));
        let mut enqueued = Box::pin(queue.stream());
        decisions.receive(peer(1), DecisionEvent::Decided(decision("web", 3, 10)), now());
        enqueued.next().await.unwrap();
        let received = now();
        assert_eq!(enqueued.next().await, Some(Key::new("shop", "web")));
        assert!(now() - received > FRESH_FOR, "{:?}", now() - received);
        assert_eq!(desired(&decisions, "web"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn enqueues_workload_only_when_its_decision_changes() {
        let (decisions, queue) = decisions();
        let stream = queue.stream();
        futures::pin_mut!(stream);
        let mut is_enqueued_by = |desired, decided_at| {
            decisions.receive(peer(1), DecisionEvent::Decided(decision("web", desired, decided_at)), now());
            stream.next().now_or_never().is_some()
        };
        assert!(is_enqueued_by(3, 10));
        assert!(!is_enqueued_by(3, 20));
        assert!(is_enqueued_by(4, 30));
        tokio::time::advance(FRESH_FOR + Duration::from_millis(1)).await;
        assert!(is_enqueued_by(4, 40), "the decision expired before");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_counts_from_the_first_idle_decision_also_of_the_next_leader() {
        let (decisions, _) = decisions();
        let receive = |peer_number, idle_since| {
            let decided = Decision { idle_since, ..decision("web", 0, 10) };
            decisions.receive(peer(peer_number), DecisionEvent::Decided(decided), now());
            decisions.idle_since(&Key::new("shop", "web")).map(|since| now() - since)
        };
        let second = Duration::from_secs(1);
        assert_eq!(receive(1, Some(5)), Some(Duration::ZERO), "whatever the adapter's clock says");
        tokio::time::advance(second).await;
        assert_eq!(receive(2, Some(900)), Some(second), "another leader");
        assert_eq!(receive(2, Some(90_000)), Some(Duration::ZERO), "a request in between");
        assert_eq!((receive(2, None), receive(2, Some(90_000))), (None, Some(Duration::ZERO)));
    }

    #[test]
    fn skips_and_counts_what_cannot_be_decoded_and_continues_no_idle_time() {
        let (decisions, _) = decisions();
        let web = Key::new("shop", "web");
        let idle = Decision { idle_since: Some(5), ..decision("web", 0, 10) };
        let decide = || decisions.receive(peer(1), DecisionEvent::Decided(idle.clone()), now());
        let snapshot = DecisionEvent::Snapshot(vec![idle.clone()].into());
        let snapshot = serde_json::to_string(&snapshot).unwrap().replace('[', "[{\"newer\":1},");
        for (text, desired_after) in [("{\"event\":\"nonsense\"}", Some(0)), (snapshot.as_str(), Some(0))] {
            let before = decisions.metrics.decisions_dropped.get();
            decide();
            let since = decisions.idle_since(&web).unwrap();
            decisions.parse(peer(1), text);
            assert_eq!(decisions.metrics.decisions_dropped.get(), before + 1);
            assert_eq!(desired(&decisions, "web"), desired_after, "{text}");
            assert_ne!(decisions.idle_since(&web), Some(since), "it may have been about web: {text}");
        }
    }

    #[tokio::test]
    async fn refuses_adapter_with_newer_decisions_by_name() {
        let (decisions, _) = decisions();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, decisions) = (listener.local_addr().unwrap(), Arc::new(decisions));
        let adapters = watch::Sender::new(BTreeSet::from([address]));
        let _following = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(
            decisions.clone().follow(adapters.subscribe()),
        ));
        for (version, is_used) in [(DECISIONS.version + 1, false), (DECISIONS.version, true)] {
            let hello = format!("{version} metrics-adapter-7").parse::<HeaderValue>().unwrap();
            #[expect(clippy::result_large_err, reason = "the type of the library")]
            let callback = |_: &http::Request<()>, mut response: http::Response<()>| {
                response.headers_mut().insert(HELLO_HEADER, hello.clone());
                Ok(response)
            };
            let stream = listener.accept().await.unwrap().0;
            let mut socket = tokio_tungstenite::accept_hdr_async(stream, callback).await.unwrap();
            // A ping of the client, or the end of its connection.
            let received = socket.next().await;
            assert_eq!(matches!(received, Some(Ok(_))), is_used, "{version}: {received:?}");
        }
    }
}
