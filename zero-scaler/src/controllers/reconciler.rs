//! Runs one reconciler: several objects at a time, and never one object twice at a time.
//!
//! Input: a [`WorkQueue`] of keys. It is built on kube's `applier`, the core of its `Controller`,
//! which keeps requests that arrive during a reconcile, and requeues after the time that a
//! reconcile returns. `Controller` itself would open watches of its own, and the reconcilers share
//! theirs.
//!
//! What surprises: a reconcile that returns [`Action::await_change`] attempted nothing, so it does
//! not end the failures before it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::key_of;
use autoscaler::findings::Problem;
use component_base::retry;
use futures::{StreamExt, TryFutureExt};
use kube::Resource;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config, Error as ApplierError};
use kube::runtime::reflector::{ObjectRef, Store};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use crate::cache::work_queue::WorkQueue;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::kubernetes::errors::{is_being_deleted, is_outage, is_webhook_failure, refusal};
use crate::kubernetes::event_deduplicator::EventDeduplicator;
use crate::kubernetes::reasons::Reason;
use crate::scaling::scale_targets::ScaleError;
use crate::uninstall::error::UninstallError;

/// Concurrent reconciles of one kind. When an activator stops, the slices of all workloads have to
/// be written while it still accepts connections: 5,000 in two seconds, at ten milliseconds a
/// write.
const CONCURRENCY: u16 = 64;
/// First delay before a failed reconcile is retried. Usually a watch event triggers it earlier.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// Longest delay after the API server shed load or did not respond, or after a failed size.
const LONGEST_URGENT_RETRY: Duration = Duration::from_secs(5);
/// Longest delay after other errors, and behind a webhook that cannot be called, which thousands of
/// objects may be: these retries are not in the rate limit.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// Longest delay after a refusal, which is an answer about the object: by a quota, an admission
/// policy, a webhook, or validation.
const LONGEST_REFUSED_RETRY: Duration = Duration::from_secs(300);
/// Interval at which the event of a write that is still refused is repeated.
const REPEAT_EVENT: Duration = Duration::from_secs(1800);
/// Interval between reconciles without a trigger, a safety net for missed events.
pub const RESYNC: Duration = Duration::from_secs(1800);

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server rejected a request, or was not reachable.
    #[error(transparent)]
    Api(#[from] Box<kube::Error>),
    /// The target could not be read or written.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// A Service could not be returned to Kubernetes.
    #[error(transparent)]
    Restoration(#[from] UninstallError),
    /// An object could not be serialized.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Not attempted: the last attempt failed, and nothing but the status has changed since.
    #[error("the retry is not due for {0:?}")]
    NotDue(Duration),
}

// === impl ReconcileError ===

impl ReconcileError {
    /// The API server's reason against a write of an object of Rouse. A refused size has a
    /// condition of its own, and its retry is not delayed: requests may wait for it.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Api(error) => refusal(error),
            Self::Scale(_) | Self::Restoration(_) | Self::Json(_) | Self::NotDue(_) => None,
        }
    }

    /// The delay before the next attempt, after this many failures before. Random, but after an
    /// answer about the object: objects are not refused all at one moment.
    fn retry_delay(&self, failures: u32) -> Duration {
        let is_answer = matches!(self, Self::Api(error) if !is_webhook_failure(error));
        if self.is_urgent() {
            return retry::jittered_delay_after(failures, RETRY_DELAY, LONGEST_URGENT_RETRY);
        }
        if self.refusal().is_some() && is_answer {
            return retry::delay_after(failures, RETRY_DELAY, LONGEST_REFUSED_RETRY);
        }
        retry::jittered_delay_after(failures, RETRY_DELAY, LONGEST_RETRY)
    }

    /// Whether the next attempt may succeed at any moment, or requests may wait for it.
    fn is_urgent(&self) -> bool {
        match self {
            Self::Api(error) => is_outage(error),
            Self::Scale(_) | Self::Restoration(_) => true,
            Self::Json(_) | Self::NotDue(_) => false,
        }
    }
}

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// Consecutive failures of each object. Bounded by the objects that exist.
#[derive(Default)]
struct Failures(Mutex<HashMap<Key, Backoff>>);

#[derive(Clone, Copy)]
struct Backoff {
    failures: u32,
    until: Instant,
}

// === impl Failures ===

impl Failures {
    /// Counts a failure. `delay` is the backoff after this many before it.
    fn add(&self, key: &Key, delay: impl FnOnce(u32) -> Duration) -> Duration {
        let mut failures = self.0.lock();
        let before = failures.get(key).map_or(0, |backoff| backoff.failures);
        let delay = delay(before);
        failures.insert(key.clone(), Backoff { failures: before.saturating_add(1), until: now() + delay });
        delay
    }

    /// What is left of the backoff of an object.
    fn remaining(&self, key: &Key) -> Option<Duration> {
        let until = self.0.lock().get(key)?.until;
        until.checked_duration_since(now()).filter(|left| !left.is_zero())
    }

    /// Begins anew; returns whether an object had failures.
    fn reset(&self, key: &Key) -> bool {
        self.0.lock().remove(key).is_some()
    }
}

/// Reconciles all objects, and then those that `queue` names. Dropping it aborts reconciles that
/// run.
pub async fn run<K, R>(
    kind: &'static str,
    store: Store<K>,
    queue: Arc<WorkQueue>,
    context: Arc<Context>,
    reconcile: fn(Arc<K>, Arc<Context>) -> R,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    R: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    queue.enqueue_all(&store);
    let failures = Arc::new((Failures::default(), EventDeduplicator::default()));
    let (begun, backoffs) = (queue.clone(), failures.clone());
    let deleted = queue.clone();
    let queue =
        queue.stream().map(|key| Ok::<_, Infallible>(ObjectRef::<K>::new(&key.name).within(&key.namespace)));
    let timed = move |object: Arc<K>, context: Arc<Context>| {
        let seconds = context.metrics.reconcile_seconds.with_label_values(&[kind]);
        let started = now();
        let key = key_of(object.as_ref());
        let is_urgent = key.as_ref().is_some_and(|key| begun.begin(key));
        let postponed = key.as_ref().and_then(|key| backoffs.0.remaining(key)).filter(|_| !is_urgent);
        let workload = key.map(tracing::field::display);
        let span = tracing::info_span!("reconcile", kind, workload);
        let reconciled = reconcile(object, context)
            .inspect_ok(move |_| seconds.observe(now().saturating_duration_since(started).as_secs_f64()))
            .instrument(span);
        // In a task of its own, so that a long computation does not delay the others.
        Box::pin(async move {
            if let Some(left) = postponed {
                return Err(ReconcileError::NotDue(left));
            }
            AbortOnDropHandle::new(tokio::spawn(reconciled))
                .await
                .unwrap_or_else(|_| Ok(Action::requeue(RETRY_DELAY)))
        })
    };
    // Made before the first error, so that Prometheus sees its increase.
    let errors = context.metrics.reconcile_errors.with_label_values(&[kind]);
    let counted = failures.clone();
    let retry = move |object: Arc<K>, error: &ReconcileError, context: Arc<Context>| {
        let Some(key) = key_of(object.as_ref()) else { return Action::requeue(RETRY_DELAY) };
        if let ReconcileError::NotDue(left) = error {
            return Action::requeue(*left);
        }
        let (failures, refusals) = counted.as_ref();
        if let Some(message) = error.refusal()
            && refusals.is_due(&key, message, REPEAT_EVENT)
        {
            let problem = Problem::with_usual_fix(Reason::WriteRefused, message);
            context.reports.events.warning(object.as_ref(), problem.reason, problem.message());
        }
        Action::requeue(failures.add(&key, |before| error.retry_delay(before)))
    };
    let config = Config::default().concurrency(CONCURRENCY);
    applier(timed, retry, context.clone(), store, queue, config)
        .for_each(|end| {
            let (failures, refusals) = failures.as_ref();
            let key = |namespace: Option<&str>, name: &str| Key::new(namespace.unwrap_or_default(), name);
            match end {
                Ok((_, action)) if action == Action::await_change() => {}
                Ok((object, _)) => {
                    let key = key(object.namespace.as_deref(), &object.name);
                    if failures.reset(&key) {
                        refusals.is_new(&key, "");
                    }
                }
                // Deleted since it was enqueued.
                Err(ApplierError::ObjectNotFound(object)) => {
                    let key = key(object.namespace.as_deref(), &object.name);
                    failures.reset(&key);
                    deleted.begin(&key);
                }
                Err(ApplierError::ReconcilerFailed(ReconcileError::NotDue(_), _)) => {}
                Err(ApplierError::ReconcilerFailed(ReconcileError::Api(error), _))
                    if is_being_deleted(&error) =>
                {
                    tracing::debug!(kind, %error, "reconcile skipped, object is being deleted");
                }
                Err(error) => {
                    errors.inc();
                    tracing::warn!(kind, %error, "reconcile failed, retrying");
                }
            }
            std::future::ready(())
        })
        .await;
}
