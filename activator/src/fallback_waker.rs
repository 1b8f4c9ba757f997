//! FallbackWaker: scales workloads from zero to one while no zero-scaler can be reached.
//!
//! A held request is reported to the zero-scalers, and one of them wakes its workload. While none
//! has been connected for 30 s (their Deployment was deleted, they crash, their image cannot be
//! pulled), this queries the [`Throttler`](crate::throttler::Throttler) once a second for workloads
//! at zero with held requests, and writes `/scale` from 0 to 1. The HPA, which is no longer
//! disabled then, does the rest; without an HPA the workload stays at one pod.
//!
//! This is the only write of an activator outside of its namespace. It needs the ClusterRole
//! `rouse-activator-fallback-waker`, is limited to workloads with a `wakeTarget` in their
//! ServerlessService, is conditional on the resource version that was read, and is not repeated
//! within a minute. Several activators may try at once: one write succeeds. An HPA with
//! `minReplicas: 0` would have scaled up as well, a little later, and agrees.

use std::collections::HashMap;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use component_base::kubernetes::{self, ApiResources, KindError, ObjectScale, ScaleFromZeroResult};
use futures::StreamExt;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::fallback_waker::FallbackWakerMetrics;

/// How often to check for zero-scalers and for stranded workloads.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time until a workload that was scaled may be scaled again.
const AFTER_WAKE: Duration = Duration::from_secs(60);
/// Delay before a retry for a workload that could not be scaled, or that is above zero without
/// pods.
const AFTER_FAILURE: Duration = Duration::from_secs(5);
/// Time for the API server to answer: an admission webhook may take 30 s of it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(35);
/// Workloads scaled concurrently.
const MAX_CONCURRENT_WAKES: usize = 16;
/// Our name in managed fields.
const FIELD_MANAGER: &str = "activator";

/// A workload without a pod for which requests are held.
#[derive(Clone, Debug, PartialEq)]
pub struct StrandedWorkload {
    pub key: Key,
    /// The object that has its `/scale`.
    pub target: ScaleTargetRef,
}

/// Requests all stranded workloads from the throttler.
pub type StrandedQuery = oneshot::Sender<Vec<StrandedWorkload>>;

/// Scales stranded workloads from zero to one.
#[derive(Debug)]
pub struct FallbackWaker {
    resources: ApiResources,
    schedule: WakeSchedule,
    metrics: FallbackWakerMetrics,
    /// Whether the missing permission was logged.
    forbidden_logged: bool,
}

/// When to act, and for which workloads.
#[derive(Debug)]
struct WakeSchedule {
    /// Time without a connected zero-scaler after which to act.
    after: Duration,
    unreachable_since: Option<Instant>,
    /// Workloads that are left alone, and until when.
    deferred: HashMap<Key, Instant>,
}

/// Why a target could not be read or scaled.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error("the API server did not answer within {REQUEST_TIMEOUT:?}")]
    Timeout,
    #[error(
        "the activator's service account may not get and update the scale of the object; \
         bind it to the ClusterRole rouse-activator-fallback-waker"
    )]
    Forbidden,
    #[error("the target's kind has no scale subresource")]
    NotScalable,
    #[error(transparent)]
    Api(Box<kube::Error>),
}

// === impl FallbackWaker ===

impl FallbackWaker {
    /// Acts when no zero-scaler was connected for `after`.
    pub fn new(resources: ApiResources, after: Duration, metrics: FallbackWakerMetrics) -> Self {
        let schedule = WakeSchedule { after, unreachable_since: None, deferred: HashMap::new() };
        Self { resources, schedule, metrics, forbidden_logged: false }
    }

    /// Runs until dropped; `is_reached` returns whether a zero-scaler is connected now.
    pub async fn run(mut self, is_reached: impl Fn() -> bool, queries: mpsc::Sender<StrandedQuery>) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            if self.schedule.is_active(is_reached(), Instant::now()) {
                self.wake_stranded(&queries).await;
            }
        }
    }

    async fn wake_stranded(&mut self, queries: &mpsc::Sender<StrandedQuery>) {
        let due = self.schedule.due(stranded(queries).await, Instant::now());
        let resources = &self.resources;
        let results: Vec<_> = futures::stream::iter(due)
            .map(|stranded| async move {
                let result =
                    tokio::time::timeout(REQUEST_TIMEOUT, scale_from_zero(resources, &stranded)).await;
                (stranded.key, result.unwrap_or(Err(WakeError::Timeout)))
            })
            .buffer_unordered(MAX_CONCURRENT_WAKES)
            .collect()
            .await;
        for (key, result) in results {
            self.record(key, result);
        }
    }

    fn record(&mut self, key: Key, result: Result<ScaleFromZeroResult, WakeError>) {
        let pause = match result {
            Ok(ScaleFromZeroResult::Scaled) => {
                self.metrics.scaled();
                tracing::warn!(
                    workload = %key,
                    unreachable_for = ?self.schedule.after,
                    "scaled from 0 to 1 for held requests, as no zero-scaler is reachable"
                );
                AFTER_WAKE
            }
            Ok(ScaleFromZeroResult::AboveZero) => AFTER_FAILURE,
            // Perhaps another activator has scaled it.
            Ok(ScaleFromZeroResult::Conflict) => return,
            Err(error) => {
                self.metrics.failed();
                self.log_failure(&key, &error);
                AFTER_FAILURE
            }
        };
        self.schedule.defer(key, Instant::now() + pause);
    }

    /// A missing permission is logged once, since it does not go away by itself.
    fn log_failure(&mut self, key: &Key, error: &WakeError) {
        let is_repeated =
            matches!(error, WakeError::Forbidden) && std::mem::replace(&mut self.forbidden_logged, true);
        if !is_repeated {
            tracing::error!(workload = %key, %error, "fallback wake failed");
        }
    }
}

async fn stranded(queries: &mpsc::Sender<StrandedQuery>) -> Vec<StrandedWorkload> {
    let (query, response) = oneshot::channel();
    // A throttler that has ended holds no requests.
    let _ = queries.send(query).await;
    response.await.unwrap_or_default()
}

async fn scale_from_zero(
    resources: &ApiResources,
    StrandedWorkload { key, target }: &StrandedWorkload,
) -> Result<ScaleFromZeroResult, WakeError> {
    let objects = resources.api(&key.namespace, &target.api_version, &target.kind).await?;
    let scale = ObjectScale { objects, name: &target.name, field_manager: FIELD_MANAGER };
    Ok(kubernetes::scale_from_zero(&scale, None, 1).await?)
}

// === impl WakeSchedule ===

impl WakeSchedule {
    /// Whether no zero-scaler was reachable for long enough.
    fn is_active(&mut self, is_reached: bool, now: Instant) -> bool {
        if is_reached {
            self.unreachable_since = None;
            return false;
        }
        let since = *self.unreachable_since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.after
    }

    /// Those of `stranded` that are not deferred.
    fn due(&mut self, stranded: Vec<StrandedWorkload>, now: Instant) -> Vec<StrandedWorkload> {
        self.deferred.retain(|_, until| *until > now);
        stranded.into_iter().filter(|stranded| !self.deferred.contains_key(&stranded.key)).collect()
    }

    fn defer(&mut self, key: Key, until: Instant) {
        self.deferred.insert(key, until);
    }
}

// === impl WakeError ===

impl From<KindError> for WakeError {
    fn from(error: KindError) -> Self {
        match error {
            KindError::Discovery(error) => error.into(),
            KindError::NotScalable => Self::NotScalable,
        }
    }
}

impl From<kube::Error> for WakeError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden,
            error => Self::Api(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests;
