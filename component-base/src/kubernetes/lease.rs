//! Leader election by a Lease of coordination.k8s.io, which the leader renews.
//!
//! ```text
//!             watch ─► free, or not renewed for its duration ─► write ─► leader
//!  follower ◄──────────────────────────────────── conflict ◄──────┘       │
//!     ▲                                                                   ├─ renews each 2 s
//!     └───────── not renewed for 6 s, or held by another ◄────────────────┘
//! ```
//!
//! Follows client-go's rules: the validity of a lease is counted from the moment its last renewal
//! was *observed*, by the local monotonic clock. So clocks that differ between nodes do not matter,
//! and a leader stops before another may begin. Writes carry a resource version: of two concurrent
//! ones a single one succeeds.
//!
//! Used for work that must not be done twice. Check the [`Leadership`] at the moment of the work.
//!
//! Unlike client-go, a follower sends no requests: it watches. So a handover takes milliseconds,
//! and the holder's identity, which contains its address, reaches all replicas. Existing crates
//! poll, read the wall clock or need other versions of kube.

pub mod election;
mod leadership;

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use election::DURATION;
pub use leadership::Leadership;

use election::{Election, Step};
use leadership::Publisher;

use super::object_watch::watch_object;

use crate::clock;

/// Timeout of a request.
const REQUEST: Duration = Duration::from_secs(3);
/// Writes per attempt: one, and one more after a conflict.
const ATTEMPTS: u32 = 2;

/// A candidate in the election.
#[derive(Clone)]
pub struct Lease {
    api: Api<Object>,
    name: String,
    identity: String,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no response within {0:?}")]
    Timeout(Duration),
}

// === impl Lease ===

impl Lease {
    /// A candidate for the Lease `name`. `identity` must differ between replicas.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), identity: identity.to_owned() }
    }

    /// Starts the election: its result, and the future that runs it; spawn it. After `stop` this
    /// replica releases the lease and does not lead; the future continues to report the leader.
    pub fn elect(self, stop: CancellationToken) -> (Leadership, impl Future<Output = ()> + Send + use<>) {
        let (publisher, leadership) = leadership::channel();
        (leadership, self.run(publisher, stop))
    }

    async fn run(self, publisher: Publisher, stop: CancellationToken) {
        let events = watch_object(self.api.clone(), &self.name);
        pin_mut!(events);
        let mut election = Election::new(&self.identity);
        let mut is_candidate = true;
        loop {
            publisher.publish(&election, Instant::now());
            let due = election.due(Instant::now()).filter(|_| is_candidate);
            tokio::select! {
                () = stop.cancelled(), if is_candidate => {
                    is_candidate = false;
                    self.release(&mut election, &publisher).await;
                }
                event = events.next() => match event {
                    Some(object) => election.observe(object, Instant::now()),
                    None => return,
                },
                () = clock::sleep_until(due) => self.attempt(&mut election, &publisher).await,
            }
        }
    }

    /// Writes the lease if a write is due. Errors are retried later.
    async fn attempt(&self, election: &mut Election, publisher: &Publisher) {
        // Publishes a lapse before the lease may be acquired again.
        publisher.publish(election, Instant::now());
        let led = election.leads(Instant::now());
        for _ in 0..ATTEMPTS {
            let began = Instant::now();
            let Some(step) = election.step(began, clock::since_epoch()) else { break };
            match self.write(step, request_timeout(election, began)).await {
                Ok(object) => {
                    election.written(object, began);
                    break;
                }
                Err(LeaseError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    self.read(election).await;
                }
                Err(error) => {
                    election.failed(Instant::now());
                    tracing::warn!(lease = self.name, %error, "lease not written, retrying");
                    break;
                }
            }
        }
        let leads = election.leads(Instant::now());
        if led != leads {
            tracing::info!(lease = self.name, identity = self.identity, leads, "leadership changed");
        }
        publisher.publish(election, Instant::now());
    }

    /// Reads the lease after a conflict.
    async fn read(&self, election: &mut Election) {
        let request_timeout = request_timeout(election, Instant::now());
        match bounded(self.api.get_opt(&self.name), request_timeout).await {
            Ok(object) => election.read(object, Instant::now()),
            Err(error) => {
                election.failed(Instant::now());
                tracing::warn!(lease = self.name, %error, "lease not read, retrying");
            }
        }
    }

    async fn write(&self, step: Step, request_timeout: Duration) -> Result<Object, LeaseError> {
        let parameters = PostParams::default();
        match step {
            Step::Create(spec) => {
                let mut object = Object { spec: Some(spec), ..Object::default() };
                object.metadata.name = Some(self.name.clone());
                bounded(self.api.create(&parameters, &object), request_timeout).await
            }
            Step::Replace(object) => {
                bounded(self.api.replace(&self.name, &parameters, &object), request_timeout).await
            }
        }
    }

    /// Releases the lease, so that no replica waits for its end.
    async fn release(&self, election: &mut Election, publisher: &Publisher) {
        for _ in 0..ATTEMPTS {
            let step = election.resign(clock::since_epoch());
            // This replica stops acting as leader before another can begin.
            publisher.publish(election, Instant::now());
            let Some(step) = step else { break };
            match self.write(step, REQUEST).await {
                Ok(object) => {
                    tracing::info!(lease = self.name, "lease released");
                    election.observe(Some(object), Instant::now());
                    break;
                }
                Err(LeaseError::Api(kube::Error::Api(status))) if status.code == 409 => {
                    self.read(election).await;
                }
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "lease not released; other replicas wait until it expires");
                    break;
                }
            }
        }
        publisher.end();
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, identity, .. } = self;
        f.debug_struct("Lease").field("name", name).field("identity", identity).finish_non_exhaustive()
    }
}

/// The timeout of a request: no longer than the leadership lasts, so that its end is published in
/// time.
fn request_timeout(election: &Election, now: Instant) -> Duration {
    let left = election.leads_until().map(|until| until.saturating_duration_since(now));
    left.filter(|left| !left.is_zero()).map_or(REQUEST, |left| left.min(REQUEST))
}

async fn bounded<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    request_timeout: Duration,
) -> Result<T, LeaseError> {
    Ok(tokio::time::timeout(request_timeout, request)
        .await
        .map_err(|_| LeaseError::Timeout(request_timeout))??)
}

#[cfg(test)]
mod tests;
