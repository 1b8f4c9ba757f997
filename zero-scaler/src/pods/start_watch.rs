//! Watches the pods of waking workloads and finds the cause when none becomes ready.
//!
//! Input: the PodAutoscaler reconciler starts and stops the watch of a workload.
//! Output: the cause (`autoscaler::scaling::pod_start`) for the statuses of PodAutoscaler and
//! ServerlessService. A change of the cause enqueues both objects.
//!
//! - Ready pods without a sidecar are reported as well, where the workload needs one, and ready
//!   pods that the Service does not select: they are not endpoints, and no condition of the pod
//!   shows it.
//! - A node that stops without a word keeps what is scheduled there for five minutes. While all
//!   pods of the workload are on such nodes, the reconciler writes one more, which starts
//!   elsewhere.
//! - Where no pod exists and no status says why, a dry run of the template does.
//! - The watch starts after a delay that is longer than most starts, so an ordinary wake costs the
//!   API server nothing.

mod problem_finder;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::StartFailure;
use autoscaler::scaling::pod_start::{PodStartFailure, StartCause};
use component_base::kubernetes::{DecodeErrors, Decoded, logged, watch_objects};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::problem_finder::{Moment, StartProblem, StartProblemFinder};
pub use self::problem_finder::{UnusablePod, WatchedPods};
use crate::cache::work_queue::WorkQueues;
use crate::pods::next_pod::refusal;
use crate::pods::node_acknowledgements::NodeAcknowledgements;

/// Longer than most pods take to start.
const WATCH_DELAY: Duration = Duration::from_millis(1800);
/// Bounds the number of concurrent pod watches. Further workloads get no cause; their requests are
/// held until they time out.
const MAX_WATCHES: usize = 256;

/// Watches of the pods of waking workloads, by workload.
pub struct StartWatches {
    client: Client,
    queues: Arc<WorkQueues>,
    errors: DecodeErrors,
    nodes: Arc<NodeAcknowledgements>,
    workloads: Mutex<HashMap<Key, WatchedWorkload>>,
}

/// Whether the pods of a workload are watched. A workload without an entry was not reconciled by
/// this process yet.
enum WatchedWorkload {
    /// The workload has the pods that it needs.
    Started,
    /// Pods are needed and not ready.
    Starting { pods: WatchedPods, problem: ObservedProblem, _watch: AbortOnDropHandle<()> },
}

/// Written by the watch, read by the reconcilers. The outer `None` means that the pods were not
/// listed yet, the inner one that no problem was found.
type ObservedProblem = Arc<Mutex<Option<Option<StartProblem>>>>;

// === impl StartWatches ===

impl fmt::Debug for StartWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartWatches").finish_non_exhaustive()
    }
}

impl StartWatches {
    /// Starts without watches.
    pub fn new(client: Client, queues: Arc<WorkQueues>, errors: &DecodeErrors) -> Self {
        let (errors, nodes) = (errors.clone(), Arc::default());
        Self { client, queues, errors, nodes, workloads: Mutex::default() }
    }

    /// Watches the pods of a workload from `now` on. `reported` is the failure in its status, which
    /// keeps its start time across a restart of this process.
    pub fn watch(&self, key: &Key, pods: WatchedPods, reported: Option<&StartFailure>, now: jiff::Timestamp) {
        let mut workloads = self.lock();
        let is_watched = |workload: &WatchedWorkload| matches!(workload, WatchedWorkload::Starting { pods: watched, .. } if *watched == pods);
        if workloads.get(key).is_some_and(is_watched) {
            return;
        }
        let watches = workloads
            .values()
            .filter(|workload| matches!(workload, WatchedWorkload::Starting { .. }))
            .count();
        if watches >= MAX_WATCHES {
            tracing::debug!(workload = %key, limit = MAX_WATCHES, "pods of waking workload not watched, limit reached");
            return;
        }
        let problem = ObservedProblem::default();
        let reported = reported.map(from_status).map(StartProblem::Failure);
        let began = Moment { unix_millis: now.as_millisecond(), instant: Instant::now() };
        let finder = StartProblemFinder::new(pods.clone(), reported, self.nodes.clone(), began);
        let watch = self.watch_pods(key.clone(), &pods, finder, problem.clone());
        let watch = AbortOnDropHandle::new(tokio::spawn(watch));
        workloads.insert(key.clone(), WatchedWorkload::Starting { pods, problem, _watch: watch });
    }

    /// Ends the watch of a workload that has the pods that it needs.
    pub fn stop(&self, key: &Key) {
        let mut workloads = self.lock();
        if matches!(workloads.get(key), Some(WatchedWorkload::Started)) {
            return;
        }
        let before = workloads.insert(key.clone(), WatchedWorkload::Started);
        if before.and_then(|workload| workload.problem()).flatten().is_some() {
            self.queues.serverless_services.enqueue(key.clone());
        }
    }

    /// Why the workload has no ready pod; `reported`, from its status, until the pods were listed.
    pub fn failure(&self, key: &Key, reported: Option<&StartFailure>) -> Option<StartFailure> {
        match self.lock().get(key).and_then(WatchedWorkload::problem) {
            None => reported.cloned(),
            Some(problem) => problem.as_ref().and_then(StartProblem::failure).map(to_status),
        }
    }

    /// A ready pod that gets no requests, if that is why the workload has no endpoint.
    pub fn unusable_pod(&self, key: &Key) -> Option<UnusablePod> {
        match self.lock().get(key)?.problem()?? {
            StartProblem::Unusable(pod) => Some(pod),
            StartProblem::Failure(_) => None,
        }
    }

    /// Number of the workload's pods, if all are on nodes that do not respond; else 0.
    pub fn pods_on_unresponsive_nodes(&self, key: &Key) -> u32 {
        let problem = self.lock().get(key).and_then(WatchedWorkload::problem).flatten();
        let failure = problem.as_ref().and_then(StartProblem::failure);
        failure
            .filter(|failure| failure.cause == StartCause::NodeUnresponsive)
            .map_or(0, |failure| failure.pods)
    }

    /// Removes the entries of workloads other than `workloads`.
    pub fn prune(&self, workloads: &BTreeSet<Key>) {
        self.lock().retain(|key, _| workloads.contains(key));
    }

    fn watch_pods(
        &self,
        key: Key,
        watched: &WatchedPods,
        finder: StartProblemFinder,
        observed: ObservedProblem,
    ) -> impl Future<Output = ()> + Send + use<> {
        let pods = Api::<Decoded<Pod>>::namespaced(self.client.clone(), &key.namespace);
        let (client, target, selector) =
            (self.client.clone(), watched.target.clone(), watched.selector.clone());
        let (queues, errors) = (self.queues.clone(), self.errors.of("Pod"));
        async move {
            tokio::time::sleep(WATCH_DELAY).await;
            let events = watch_objects(pods, watcher::Config::default().labels(&selector), errors);
            let events = logged(events, format!("starting pods of {key}"));
            let report = |problem: &Option<StartProblem>| {
                *observed.lock() = Some(problem.clone());
                queues.autoscalers.enqueue(key.clone());
                queues.serverless_services.enqueue(key.clone());
            };
            let refusal = || refusal(&client, &key.namespace, &target);
            finder.run(events, refusal, report).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, WatchedWorkload>> {
        self.workloads.lock()
    }
}

// === impl WatchedWorkload ===

impl WatchedWorkload {
    /// `None` until the pods were listed.
    fn problem(&self) -> Option<Option<StartProblem>> {
        match self {
            Self::Started => Some(None),
            Self::Starting { problem, .. } => problem.lock().clone(),
        }
    }
}

fn to_status(failure: &PodStartFailure) -> StartFailure {
    // metav1.Time has seconds; a finer value would differ after the first round trip.
    let since = jiff::Timestamp::from_second(failure.since.div_euclid(1000)).unwrap_or_default();
    StartFailure {
        cause: failure.cause,
        reason: failure.reason.clone(),
        message: failure.message.clone(),
        pod: failure.pod.clone(),
        since: Time(since),
        given_up: failure.given_up,
    }
}

fn from_status(status: &StartFailure) -> PodStartFailure {
    PodStartFailure {
        cause: status.cause,
        reason: status.reason.clone(),
        message: status.message.clone(),
        pod: status.pod.clone(),
        // Unknown until they are listed.
        pods: 0,
        since: status.since.0.as_millisecond(),
        given_up: status.given_up,
    }
}
