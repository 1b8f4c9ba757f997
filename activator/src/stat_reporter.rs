//! StatReporter: keeps a connection to every metrics-adapter and zero-scaler, and pushes reports to all of them.
//!
//! Input are [`Push`]es of the [`ConcurrencyReporter`](crate::concurrency_reporter::ConcurrencyReporter), and the
//! addresses of both Services. Every receiver gets every push, for any of them may be the one that acts.
//!
//! Nothing here waits for a receiver: each has a bounded outbox. A poke is never given up for a periodic report, and while
//! a receiver is away only its newest report is kept, for the older ones would say what nobody can use any more. Whether
//! anybody listens does not matter to the activator's readiness: it forwards without them.

mod connection;
mod outbox;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use autoscaler::stats::Push;
use parking_lot::{Mutex, MutexGuard};
use runtime::auth::ProjectedToken;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;
use tokio_util::task::AbortOnDropHandle;

use crate::concurrency_reporter::PokeSent;
use crate::metrics::PushMetrics;
use outbox::{Letter, Outbox};

/// Addresses of one Service's ready pods.
pub type Addresses = watch::Receiver<BTreeSet<SocketAddr>>;

/// Hands pushes to all receivers. Clones share the receivers.
#[derive(Clone, Debug)]
pub struct StatReporter {
    outboxes: Arc<Mutex<BTreeMap<SocketAddr, Arc<Outbox>>>>,
    metrics: PushMetrics,
    token: ProjectedToken,
}

// === impl StatReporter ===

impl StatReporter {
    /// Nobody receives anything yet.
    pub fn new(metrics: PushMetrics) -> Self {
        Self { outboxes: Arc::default(), metrics, token: ProjectedToken::default() }
    }

    /// Says to receivers who we are.
    #[must_use]
    pub fn with_token(mut self, token: ProjectedToken) -> Self {
        self.token = token;
        self
    }

    /// A workload waits that did not before; `sent` is set when the word is out.
    pub fn poke(&self, push: &Push, sent: PokeSent) {
        self.send(push, Some(sent));
    }

    /// The report of a period.
    pub fn report(&self, push: &Push) {
        self.send(push, None);
    }

    /// Whether one of these is connected.
    pub fn reaches_any(&self, receivers: &BTreeSet<SocketAddr>) -> bool {
        let outboxes = self.lock();
        receivers.iter().any(|address| outboxes.get(address).is_some_and(|outbox| outbox.is_connected()))
    }

    /// Keeps connections to the addresses of both Services, until dropped.
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

    fn send(&self, push: &Push, poke: Option<PokeSent>) {
        let text = match serde_json::to_string(push) {
            Ok(text) => Utf8Bytes::from(text),
            Err(error) => return tracing::error!(%error, "a report cannot be written as JSON"),
        };
        for outbox in self.lock().values() {
            let letter = Letter { text: text.clone(), poke: poke.clone(), written: Instant::now() };
            self.metrics.dropped(outbox.put(letter));
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
                let outbox = Arc::new(Outbox::default());
                outboxes.insert(*address, outbox.clone());
                let connection = connection::keep(*address, outbox, self.metrics.clone(), self.token.clone());
                AbortOnDropHandle::new(tokio::spawn(connection))
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Arc<Outbox>>> {
        self.outboxes.lock()
    }
}

/// Ends when the addresses change; never, once nobody follows them any more.
pub(crate) async fn changed(addresses: &mut Addresses) {
    if addresses.changed().await.is_err() {
        std::future::pending().await
    }
}
