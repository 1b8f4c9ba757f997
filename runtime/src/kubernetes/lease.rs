//! Lease: which replica leads, by an object of coordination.k8s.io that the leader renews.
//!
//! ```text
//!             watch ─► seen to be free, or not renewed for its duration ─► write ─► leads
//!  follows ◄──────────────────────────────────────────── conflict ◄────────┘  │
//!     ▲                                                                       ├─ renewed each 2 s
//!     └───────── not renewed for 6 s, or seen in other hands ◄────────────────┘
//! ```
//!
//! By client-go's rules: how long a lease still holds is counted from when its last renewal was *seen*, by our own monotonic
//! clock, so clocks that differ between nodes do not matter; and a leader stops before the others may begin. Writes carry the version
//! that they are based on, so of two that try one wins. Used by what must not be done twice; the [`Leadership`] that
//! comes out is asked at the moment of doing it.
//!
//! What surprises: a follower makes no requests, it watches. So a leader that goes hands over within milliseconds, and its
//! name (with an address in it, by our use) is known to everybody. Crates that do the same read the wall clock, or are bound to other versions of kube.

mod election;
mod leadership;

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::api::PostParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use leadership::Leadership;

use election::{Election, Step};
use leadership::Publisher;

use crate::clock;

/// How long a lease holds after a renewal was seen: how long nobody leads after a leader was lost without a word. A whole
/// number of seconds, as the object has it.
pub const DURATION: Duration = Duration::from_secs(9);
/// How long a leader goes on without having renewed. The rest of [`DURATION`] is for what it is just doing.
const RENEW_DEADLINE: Duration = Duration::from_secs(6);
/// Time between renewals, and between tries after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Time for one request.
const REQUEST: Duration = Duration::from_secs(3);
/// Requests that one try may take: a write, a read after a conflict, and the write again.
const ATTEMPTS: u32 = 2;

/// One replica's part in the election.
#[derive(Clone)]
pub struct Lease {
    api: Api<Object>,
    name: String,
    identity: String,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
}

// === impl Lease ===

impl Lease {
    /// Takes part in the election by the Lease `name` as `identity`, which must differ between replicas.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), identity: identity.to_owned() }
    }

    /// Who leads, and the future that keeps that true; spawn it. From `stop` on this replica does not lead, and gives away
    /// what it has; the future goes on to say who does.
    pub fn elect(self, stop: CancellationToken) -> (Leadership, impl Future<Output = ()> + Send + use<>) {
        let (publisher, leadership) = leadership::channel();
        (leadership, self.run(publisher, stop))
    }

    async fn run(self, publisher: Publisher, stop: CancellationToken) {
        let events = watch_object(self.api.clone(), &self.name).default_backoff();
        pin_mut!(events);
        let mut election = Election::new(&self.identity);
        let mut stands = true;
        loop {
            publisher.publish(&election, Instant::now());
            let due = election.due(Instant::now()).filter(|_| stands);
            tokio::select! {
                () = stop.cancelled(), if stands => {
                    stands = false;
                    self.give_away(&mut election, &publisher).await;
                }
                event = events.next() => match event {
                    Some(Ok(object)) => election.observe(object, Instant::now()),
                    Some(Err(error)) => tracing::warn!(lease = self.name, %error, "watch failed; it is tried again"),
                    None => return,
                },
                () = clock::sleep_until(due) => self.attempt(&mut election, &publisher).await,
            }
        }
    }

    /// Writes the lease, if it is to be written. What fails is tried again later.
    async fn attempt(&self, election: &mut Election, publisher: &Publisher) {
        // One that has lapsed is told before it is won again.
        publisher.publish(election, Instant::now());
        let led = election.leads(Instant::now());
        for _ in 0..ATTEMPTS {
            let began = Instant::now();
            let Some(step) = election.step(began, clock::since_epoch()) else { break };
            match self.write(step, patience(election, began)).await {
                Ok(object) => {
                    election.written(object, began);
                    break;
                }
                Err(LeaseError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    self.read(election).await;
                }
                Err(error) => {
                    election.failed(Instant::now());
                    tracing::warn!(lease = self.name, %error, "the lease could not be written; it is tried again");
                    break;
                }
            }
        }
        let leads = election.leads(Instant::now());
        if led != leads {
            tracing::info!(lease = self.name, identity = self.identity, leads, "election");
        }
        publisher.publish(election, Instant::now());
    }

    /// Somebody else wrote: what?
    async fn read(&self, election: &mut Election) {
        let patience = patience(election, Instant::now());
        match bounded(self.api.get_opt(&self.name), patience).await {
            Ok(object) => election.observe(object, Instant::now()),
            Err(error) => {
                election.failed(Instant::now());
                tracing::warn!(lease = self.name, %error, "the lease could not be read; it is tried again");
            }
        }
    }

    async fn write(&self, step: Step, patience: Duration) -> Result<Object, LeaseError> {
        let parameters = PostParams::default();
        match step {
            Step::Create(spec) => {
                let mut object = Object { spec: Some(spec), ..Object::default() };
                object.metadata.name = Some(self.name.clone());
                bounded(self.api.create(&parameters, &object), patience).await
            }
            Step::Replace(object) => {
                bounded(self.api.replace(&self.name, &parameters, &object), patience).await
            }
        }
    }

    /// Gives the lease away, so that nobody has to wait for its end.
    async fn give_away(&self, election: &mut Election, publisher: &Publisher) {
        for _ in 0..ATTEMPTS {
            let step = election.resign(clock::since_epoch());
            // Nothing is done as the leader any more when the next one begins.
            publisher.publish(election, Instant::now());
            let Some(step) = step else { break };
            match self.write(step, REQUEST).await {
                Ok(object) => {
                    tracing::info!(lease = self.name, "given away");
                    election.observe(Some(object), Instant::now());
                    break;
                }
                Err(LeaseError::Api(kube::Error::Api(status))) if status.code == 409 => {
                    self.read(election).await;
                }
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "not given away; the others wait for its end");
                    break;
                }
            }
        }
        publisher.conclude();
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, identity, .. } = self;
        f.debug_struct("Lease").field("name", name).field("identity", identity).finish_non_exhaustive()
    }
}

/// A leader waits for an answer no longer than it leads, so that its end is told in time.
fn patience(election: &Election, now: Instant) -> Duration {
    let left = election.leads_until().map(|until| until.saturating_duration_since(now));
    left.filter(|left| !left.is_zero()).map_or(REQUEST, |left| left.min(REQUEST))
}

async fn bounded<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    patience: Duration,
) -> Result<T, LeaseError> {
    Ok(tokio::time::timeout(patience, request).await.map_err(|_| LeaseError::Timeout(patience))??)
}

#[cfg(test)]
mod tests;
