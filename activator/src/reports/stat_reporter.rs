//! StatReporter: keeps a connection to every metrics-adapter and zero-scaler, and pushes reports to
//! all of them.
//!
//! Input: the [`ActivatorReport`]s of the
//! [`ConcurrencyReporter`](crate::reports::concurrency_reporter::ConcurrencyReporter), and the
//! addresses of both Services. Every receiver gets every push, since any of them may be the one
//! that acts.
//!
//! Nothing here waits for a receiver: each has a bounded outbox. A poke is never dropped for a
//! periodic report. While a receiver is disconnected, only its newest report is kept, since older
//! ones have no use. Frames are numbered, so that a receiver detects dropped ones. Connections do
//! not affect the activator's readiness: it forwards requests without them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use autoscaler::stats::ActivatorReport;
use component_base::auth::ProjectedToken;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::task::AbortOnDropHandle;

use crate::reports::poke::PokeSent;
use crate::reports::push_metrics::PushMetrics;
use crate::reports::receiver_connection;
use crate::reports::report_outbox::{QueuedReport, ReportOutbox};

/// The addresses of the ready pods of one Service.
pub type Addresses = watch::Receiver<BTreeSet<SocketAddr>>;

/// Sends pushes to all receivers. Clones share the receivers.
#[derive(Clone, Debug)]
pub struct StatReporter {
    /// Name of this activator's pod.
    activator: Arc<str>,
    outboxes: Arc<Mutex<BTreeMap<SocketAddr, Arc<ReportOutbox>>>>,
    numbers: Arc<FrameNumbers>,
    metrics: PushMetrics,
    token: ProjectedToken,
}

/// The last numbers. Each is locked until its frame is in all outboxes, so that each receiver gets
/// its frames in the order of their numbers.
#[derive(Debug, Default)]
struct FrameNumbers {
    pokes: Mutex<u64>,
    others: Mutex<u64>,
}

// === impl StatReporter ===

impl StatReporter {
    /// A reporter of the pod `activator`, without receivers.
    pub fn new(activator: &str, metrics: PushMetrics) -> Self {
        Self {
            activator: activator.into(),
            outboxes: Arc::default(),
            numbers: Arc::default(),
            metrics,
            token: ProjectedToken::default(),
        }
    }

    /// Authenticates to receivers with this token.
    #[must_use]
    pub fn with_token(mut self, token: ProjectedToken) -> Self {
        self.token = token;
        self
    }

    /// Sends a poke; `sent` is set when the first connection has sent it.
    pub fn poke(&self, push: ActivatorReport, sent: PokeSent) {
        self.send(ActivatorReport { is_poke: true, ..push }, Some(sent));
    }

    /// Sends a report.
    pub fn report(&self, push: ActivatorReport) {
        self.send(push, None);
    }

    /// Whether one of these receivers is connected.
    pub fn reaches_any(&self, receivers: &BTreeSet<SocketAddr>) -> bool {
        receivers.iter().any(|address| self.reaches(address))
    }

    /// Whether all of these receivers are connected.
    pub fn reaches_all(&self, receivers: &BTreeSet<SocketAddr>) -> bool {
        receivers.iter().all(|address| self.reaches(address))
    }

    fn reaches(&self, receiver: &SocketAddr) -> bool {
        self.lock().get(receiver).is_some_and(|outbox| outbox.is_connected())
    }

    /// Keeps a connection to every address of both Services, until dropped.
    pub async fn run(&self, mut adapters: Addresses, mut zero_scalers: Addresses) {
        let mut connections = BTreeMap::new();
        loop {
            let wanted: BTreeSet<_> =
                adapters.borrow_and_update().union(&zero_scalers.borrow_and_update()).copied().collect();
            self.connect(&wanted, &mut connections);
            tokio::select! {
                () = changed(&mut adapters) => {}
                () = changed(&mut zero_scalers) => {}
            }
        }
    }

    fn send(&self, push: ActivatorReport, poke: Option<PokeSent>) {
        push.into_frames().into_iter().for_each(|frame| self.send_frame(frame, poke.clone()));
    }

    fn send_frame(&self, push: ActivatorReport, poke: Option<PokeSent>) {
        let FrameNumbers { pokes, others } = self.numbers.as_ref();
        let mut last = if poke.is_some() { pokes.lock() } else { others.lock() };
        *last += 1;
        let activator = self.activator.to_string();
        let text = match serde_json::to_string(&ActivatorReport { activator, sequence: *last, ..push }) {
            Ok(text) => Utf8Bytes::from(text),
            Err(error) => return tracing::error!(%error, "report could not be serialized"),
        };
        for outbox in self.lock().values() {
            let report = QueuedReport { text: text.clone(), poke: poke.clone(), queued: Instant::now() };
            self.metrics.dropped(outbox.put(report));
        }
    }

    fn connect(
        &self,
        wanted: &BTreeSet<SocketAddr>,
        connections: &mut BTreeMap<SocketAddr, AbortOnDropHandle<()>>,
    ) {
        connections.retain(|address, _| wanted.contains(address));
        let mut outboxes = self.lock();
        outboxes.retain(|address, _| wanted.contains(address));
        for address in wanted {
            connections.entry(*address).or_insert_with(|| {
                let outbox = Arc::new(ReportOutbox::default());
                outboxes.insert(*address, outbox.clone());
                let (metrics, token) = (self.metrics.clone(), self.token.clone());
                let activator = self.activator.clone();
                let connection = receiver_connection::keep(*address, activator, outbox, metrics, token);
                AbortOnDropHandle::new(tokio::spawn(connection))
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Arc<ReportOutbox>>> {
        self.outboxes.lock()
    }
}

/// Completes when the addresses change; never, once their sender is dropped.
pub(crate) async fn changed(addresses: &mut Addresses) {
    if addresses.changed().await.is_err() {
        std::future::pending().await
    }
}
