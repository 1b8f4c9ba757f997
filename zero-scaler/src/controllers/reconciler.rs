//! One reconciler: a trigger's objects, looked at one at a time each, several at once.
//!
//! kube's applier is the machine inside of its Controller: it never looks at one object twice at a time, keeps
//! requests that come meanwhile, and repeats after the time that a look asks for. The watches are our own, because
//! several reconcilers share them.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryFutureExt};
use kube::Resource;
use kube::runtime::applier;
use kube::runtime::controller::{Action, Config, Error as ApplierError};
use kube::runtime::reflector::{ObjectRef, Store};
use tokio_util::task::AbortOnDropHandle;

use crate::cache::work_queue::WorkQueue;
use crate::clock::now;
use crate::controllers::context::Context;
use crate::kubernetes::errors::is_being_deleted;
use crate::scaling::scale_targets::ScaleError;

/// Looks that may run at once, for each kind.
const CONCURRENCY: u16 = 16;
/// Until a look that failed is tried again. What it waits for usually fires a trigger earlier.
const RETRY: Duration = Duration::from_secs(2);
/// Until everything is looked at again although nothing changed, in case that a change was missed. Nothing waits for it.
pub const RESYNC: Duration = Duration::from_secs(1800);

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The API server refused or was not there.
    #[error(transparent)]
    Api(#[from] Box<kube::Error>),
    /// The target could not be read or written.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// An object could not be turned into JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

// === impl ReconcileError ===

impl From<kube::Error> for ReconcileError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// Looks at all objects, and then at those that the trigger names, until it is dropped; looks that run then are cut.
pub async fn run<K, Look>(
    kind: &'static str,
    store: Store<K>,
    queue: Arc<WorkQueue>,
    context: Arc<Context>,
    reconcile: fn(Arc<K>, Arc<Context>) -> Look,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    Look: Future<Output = Result<Action, ReconcileError>> + Send + 'static,
{
    queue.enqueue_all(&store);
    let queue =
        queue.stream().map(|key| Ok::<_, Infallible>(ObjectRef::<K>::new(&key.name).within(&key.namespace)));
    let timed = move |object: Arc<K>, context: Arc<Context>| {
        let seconds = context.metrics.reconcile_seconds.with_label_values(&[kind]);
        let started = now();
        let reconciled = reconcile(object, context)
            .inspect_ok(move |_| seconds.observe(now().saturating_duration_since(started).as_secs_f64()));
        // In a task of its own: a look that computes for long holds up none of the others.
        Box::pin(async move {
            AbortOnDropHandle::new(tokio::spawn(reconciled))
                .await
                .unwrap_or_else(|_| Ok(Action::requeue(RETRY)))
        })
    };
    let retry = |_: Arc<K>, _: &ReconcileError, _: Arc<Context>| Action::requeue(RETRY);
    let config = Config::default().concurrency(CONCURRENCY);
    applier(timed, retry, context.clone(), store, queue, config)
        .for_each(|end| {
            match end {
                // Deleted since it was asked for.
                Ok(_) | Err(ApplierError::ObjectNotFound(_)) => {}
                Err(ApplierError::ReconcilerFailed(ReconcileError::Api(error), _))
                    if is_being_deleted(&error) =>
                {
                    tracing::debug!(kind, %error, "look at something that goes");
                }
                Err(error) => {
                    context.metrics.reconcile_errors.with_label_values(&[kind]).inc();
                    tracing::warn!(kind, %error, "look failed; it is tried again");
                }
            }
            std::future::ready(())
        })
        .await;
}
