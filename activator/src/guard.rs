//! Guard: wakes who would sleep for ever, when no zero-scaler is left.
//!
//! A held request is a word to the zero-scalers, and one of them wakes its workload. If none could be reached for a while (their
//! Deployment was deleted, they crash, their image is lost), the guard asks the [`Throttler`](crate::throttler::Throttler)
//! each second for whom requests are held without a pod, and takes those workloads from zero to one pod. The HPA,
//! which is parked no longer, does the rest; where there is none it stays at that.
//!
//! That is all that an activator ever writes: `/scale`, from 0 to 1, on the condition that nothing has changed since it was read,
//! of who may sleep by its ServerlessService, and not again for a minute. Several activators may try: one of them succeeds.
//! An HPA that goes to zero by itself would have woken as well, a little later, and agrees.

use std::collections::HashMap;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use futures::StreamExt;
use runtime::kubernetes;
use runtime::kubernetes::ApiResources;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::metrics::GuardMetrics;

/// How often to look whether a zero-scaler is there, and who needs one.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long who was woken is left alone.
const REST: Duration = Duration::from_secs(60);
/// How long who could not be woken, or has pods on their way, is left alone.
const PAUSE: Duration = Duration::from_secs(5);
/// Time for the API server to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Workloads at a time.
const AT_ONCE: usize = 16;
/// Our name in managed fields.
const FIELD_MANAGER: &str = "activator";

/// A workload of which requests are held while it has no pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Stranded {
    /// Its name.
    pub key: Key,
    /// What holds its size.
    pub target: ScaleTargetRef,
}

/// Who is stranded? To be answered by the throttler.
pub type Question = oneshot::Sender<Vec<Stranded>>;

/// Wakes who is stranded.
#[derive(Debug)]
pub struct Guard {
    kinds: ApiResources,
    duty: Duty,
    metrics: GuardMetrics,
    /// Whether it was said that the guard may not do its work.
    told: bool,
}

/// When the guard acts, and for whom.
#[derive(Debug)]
struct Duty {
    /// How long no zero-scaler may be reached.
    after: Duration,
    alone_since: Option<Instant>,
    /// Who is left alone until when.
    resting: HashMap<Key, Instant>,
}

/// What came of a look at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Woken,
    AwakeAlready,
    /// Another was faster, or something else of it changed.
    Changed,
}

/// Why a target could not be looked at, or not be woken.
#[derive(Debug, thiserror::Error)]
enum WakeError {
    #[error("no answer from the API server within {PATIENCE:?}")]
    Silence,
    #[error("the activators' service account may not get and update the scale of such objects")]
    Forbidden,
    #[error(transparent)]
    Api(Box<kube::Error>),
}

// === impl Guard ===

impl Guard {
    /// A guard that acts when no zero-scaler was reached for so long.
    pub fn new(kinds: ApiResources, after: Duration, metrics: GuardMetrics) -> Self {
        let duty = Duty { after, alone_since: None, resting: HashMap::new() };
        Self { kinds, duty, metrics, told: false }
    }

    /// Looks after sleepers until dropped; `is_reached` says whether a zero-scaler is connected now.
    pub async fn run(mut self, is_reached: impl Fn() -> bool, questions: mpsc::Sender<Question>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.duty.is_on(is_reached(), Instant::now()) {
                self.look(&questions).await;
            }
        }
    }

    async fn look(&mut self, questions: &mpsc::Sender<Question>) {
        let due = self.duty.due(stranded(questions).await, Instant::now());
        let kinds = &self.kinds;
        let outcomes: Vec<_> = futures::stream::iter(due)
            .map(|stranded| async move {
                let outcome = tokio::time::timeout(PATIENCE, wake(kinds, &stranded)).await;
                (stranded.key, outcome.unwrap_or(Err(WakeError::Silence)))
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        for (key, outcome) in outcomes {
            self.take_in(key, outcome);
        }
    }

    fn take_in(&mut self, key: Key, outcome: Result<Outcome, WakeError>) {
        let rest = match outcome {
            Ok(Outcome::Woken) => {
                self.metrics.woken();
                tracing::warn!(workload = %key, after = ?self.duty.after, "woken from here, as no zero-scaler can be reached");
                REST
            }
            Ok(Outcome::AwakeAlready) => PAUSE,
            Ok(Outcome::Changed) => return,
            Err(error) => {
                self.metrics.failed();
                self.complain(&key, &error);
                PAUSE
            }
        };
        self.duty.let_be(key, Instant::now() + rest);
    }

    /// What is forbidden stays so, and is said once.
    fn complain(&mut self, key: &Key, error: &WakeError) {
        let is_known = matches!(error, WakeError::Forbidden) && std::mem::replace(&mut self.told, true);
        if !is_known {
            tracing::error!(workload = %key, %error, "requests are held, no zero-scaler can be reached, and it cannot be woken from here");
        }
    }
}

async fn stranded(questions: &mpsc::Sender<Question>) -> Vec<Stranded> {
    let (question, answer) = oneshot::channel();
    // Whoever is not there any more holds nothing.
    let _ = questions.send(question).await;
    answer.await.unwrap_or_default()
}

async fn wake(kinds: &ApiResources, Stranded { key, target }: &Stranded) -> Result<Outcome, WakeError> {
    let objects = kinds.api(&key.namespace, &target.api_version, &target.kind).await?;
    let scale = objects.get_scale(&target.name).await?;
    if scale.spec.and_then(|spec| spec.replicas).unwrap_or(0) > 0 {
        return Ok(Outcome::AwakeAlready);
    }
    let Some(version) = scale.metadata.resource_version else { return Ok(Outcome::Changed) };
    match kubernetes::write_scale(&objects, &target.name, 1, Some(&version), FIELD_MANAGER).await {
        Ok(_) => Ok(Outcome::Woken),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Outcome::Changed),
        Err(error) => Err(error.into()),
    }
}

// === impl Duty ===

impl Duty {
    /// Whether the guard acts now.
    fn is_on(&mut self, is_reached: bool, now: Instant) -> bool {
        if is_reached {
            self.alone_since = None;
            return false;
        }
        let since = *self.alone_since.get_or_insert(now);
        now.saturating_duration_since(since) >= self.after
    }

    /// Those who are not left alone.
    fn due(&mut self, stranded: Vec<Stranded>, now: Instant) -> Vec<Stranded> {
        self.resting.retain(|_, until| *until > now);
        stranded.into_iter().filter(|stranded| !self.resting.contains_key(&stranded.key)).collect()
    }

    fn let_be(&mut self, key: Key, until: Instant) {
        self.resting.insert(key, until);
    }
}

// === impl WakeError ===

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
