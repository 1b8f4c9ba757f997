//! Why workloads that are waking get no pod.
//!
//! Input: the reconcile of a PodAutoscaler, which says whose pods are wanted and not ready, and a watch of the pods of each
//! of those. Output: the cause, if there is one (the brain's `pod_start`), for the statuses; a change of it asks for a look at
//! both objects. Pods that are ready and no endpoints, because they have no sidecar, are found here as well: Kubernetes has
//! nothing to say against them.
//!
//! A workload is watched only while it waits, and not before it has waited longer than most starts take: an ordinary wake
//! costs the API server nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::StartFailure;
use autoscaler::scaling::pod_start::{PodStartFailure, StartPatience, find_start_failure};
use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cache::work_queue::WorkQueues;
use crate::pods::starting_pod::{PodStart, pod_start};

/// How long pods may take before they are looked at.
const UNSUSPICIOUS: Duration = Duration::from_secs(2);
/// Workloads watched at a time; the callers of more just wait.
const MOST: usize = 256;

/// The workloads that wait for pods.
pub struct StartWatches {
    client: Client,
    queues: Arc<WorkQueues>,
    workloads: Mutex<HashMap<Key, Standing>>,
}

/// What is known of a workload. One that is not there has not been looked at by this process.
enum Standing {
    /// It does not wait for pods.
    Resting,
    /// It does.
    Waiting { selector: String, patience: StartPatience, found: Found, _watch: AbortOnDropHandle<()> },
}

/// What was found; `None` until the pods were listed.
type Found = Arc<Mutex<Option<HpaAcceptance>>>;
/// What is wrong, if anything is.
type HpaAcceptance = Option<Wrong>;

/// What is wrong with pods that are waited for.
#[derive(Clone, Debug, PartialEq)]
enum Wrong {
    /// They cannot start.
    PodStart(PodStartFailure),
    /// They did, and this one among them has no sidecar.
    Bare(String),
}

/// The pods of one workload, and what was last said of them.
struct Judge {
    pods: BTreeMap<String, PodStart>,
    listed: bool,
    verdict: HpaAcceptance,
    patience: StartPatience,
    /// A moment on both clocks: patience must not depend on who sets the time.
    epoch: (i64, Instant),
}

// === impl StartWatches ===

impl fmt::Debug for StartWatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartWatches").finish_non_exhaustive()
    }
}

impl StartWatches {
    /// Nobody waits yet.
    pub fn new(client: Client, queues: Arc<WorkQueues>) -> Self {
        Self { client, queues, workloads: Mutex::default() }
    }

    /// The workload waits for pods that `selector` selects; `known` is what its status says already.
    pub fn watch(&self, key: &Key, selector: &str, patience: StartPatience, known: Option<&StartFailure>) {
        let mut workloads = self.lock();
        let same = |standing: &Standing| matches!(standing, Standing::Waiting { selector: s, patience: p, .. } if s == selector && *p == patience);
        if workloads.get(key).is_some_and(same) {
            return;
        }
        let waiting =
            workloads.values().filter(|standing| matches!(standing, Standing::Waiting { .. })).count();
        if waiting >= MOST {
            tracing::debug!(workload = %key, most = MOST, "its pods are not watched: too many workloads wait");
            return;
        }
        let found = Found::default();
        let judge = Judge::new(patience, known.map(failure_of).map(Wrong::PodStart));
        let watch = self.watch_pods(key.clone(), selector.to_owned(), judge, found.clone());
        let watch = AbortOnDropHandle::new(tokio::spawn(watch));
        let waiting = Standing::Waiting { selector: selector.to_owned(), patience, found, _watch: watch };
        workloads.insert(key.clone(), waiting);
    }

    /// The workload has the pods that it wants.
    pub fn stop(&self, key: &Key) {
        let mut workloads = self.lock();
        if matches!(workloads.get(key), Some(Standing::Resting)) {
            return;
        }
        let before = workloads.insert(key.clone(), Standing::Resting);
        if before.as_ref().is_some_and(|standing| standing.verdict().is_some_and(|v| v.is_some())) {
            self.queues.serverless_services.enqueue(key.clone());
        }
    }

    /// Why it gets none; what `known`, its status, says, until that is found out.
    pub fn failure(&self, key: &Key, known: Option<&StartFailure>) -> Option<StartFailure> {
        match self.lock().get(key).map(Standing::verdict) {
            None | Some(None) => known.cloned(),
            Some(Some(verdict)) => verdict.as_ref().and_then(Wrong::start).map(status_of),
        }
    }

    /// A pod that was waited for, is ready, and has no sidecar.
    pub fn ready_pod_without_sidecar(&self, key: &Key) -> Option<String> {
        match self.lock().get(key)?.verdict()?? {
            Wrong::Bare(pod) => Some(pod),
            Wrong::PodStart(_) => None,
        }
    }

    /// Frees the memory of workloads that are gone.
    pub fn prune(&self, workloads: &BTreeSet<Key>) {
        self.lock().retain(|key, _| workloads.contains(key));
    }

    fn watch_pods(
        &self,
        key: Key,
        selector: String,
        judge: Judge,
        found: Found,
    ) -> impl Future<Output = ()> + Send + use<> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let queues = self.queues.clone();
        async move {
            tokio::time::sleep(UNSUSPICIOUS).await;
            let events = watch(pods, watcher::Config::default().labels(&selector)).default_backoff();
            let tell = |verdict: &HpaAcceptance| {
                *found.lock() = Some(verdict.clone());
                queues.autoscalers.enqueue(key.clone());
                queues.serverless_services.enqueue(key.clone());
            };
            judge.run(events, tell).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Standing>> {
        self.workloads.lock()
    }
}

// === impl Standing ===

impl Standing {
    /// `None` while nothing is known.
    fn verdict(&self) -> Option<HpaAcceptance> {
        match self {
            Self::Resting => Some(None),
            Self::Waiting { found, .. } => found.lock().clone(),
        }
    }
}

// === impl Wrong ===

impl Wrong {
    fn start(&self) -> Option<&PodStartFailure> {
        match self {
            Self::PodStart(failure) => Some(failure),
            Self::Bare(_) => None,
        }
    }
}

// === impl Judge ===

impl Judge {
    fn new(patience: StartPatience, verdict: HpaAcceptance) -> Self {
        let epoch = (runtime::clock::unix_millis(), Instant::now());
        Self { pods: BTreeMap::new(), listed: false, verdict, patience, epoch }
    }

    /// Tells what it finds when all pods are listed, and each time it differs.
    async fn run(
        mut self,
        events: impl Stream<Item = Result<Event<Pod>, watcher::Error>>,
        tell: impl Fn(&HpaAcceptance),
    ) {
        pin_mut!(events);
        let mut told = false;
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => tracing::warn!(%error, "watch of starting pods failed; it is tried again"),
                    None => return,
                },
                () = runtime::clock::sleep_until(self.patience_ends()) => {}
            }
            if !self.listed {
                continue;
            }
            let verdict = self.judge();
            if !told || verdict != self.verdict {
                tell(&verdict);
                told = true;
            }
            self.verdict = verdict;
        }
    }

    fn take(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => {
                self.pods.clear();
                self.listed = false;
            }
            Event::InitDone => self.listed = true,
            Event::InitApply(pod) | Event::Apply(pod) => {
                let name = pod.metadata.name.clone().unwrap_or_default();
                self.pods.insert(name, pod_start(&pod));
            }
            Event::Delete(pod) => {
                self.pods.remove(pod.metadata.name.as_deref().unwrap_or_default());
            }
        }
    }

    fn judge(&self) -> HpaAcceptance {
        let (mut starting, mut bare) = (Vec::new(), None);
        for (name, pod) in &self.pods {
            match pod {
                PodStart::Ready => return None,
                PodStart::Bare => bare = Some(name),
                PodStart::Starting(pod) => starting.push(pod.clone()),
                PodStart::Over => {}
            }
        }
        // Those that start may be their successors, with a sidecar.
        match bare.filter(|_| starting.is_empty()) {
            Some(pod) => Some(Wrong::Bare(pod.clone())),
            None => {
                let before = self.verdict.as_ref().and_then(Wrong::start);
                find_start_failure(&starting, before, self.patience, self.now()).map(Wrong::PodStart)
            }
        }
    }

    /// When the cause, if it stays, is to be given up.
    fn patience_ends(&self) -> Option<Instant> {
        let failure = self.verdict.as_ref().and_then(Wrong::start);
        let failure = failure.filter(|failure| self.listed && !failure.given_up)?;
        let lasted = Duration::from_millis(self.now().saturating_sub(failure.since).unsigned_abs());
        Some(Instant::now() + self.patience.of(failure.cause).saturating_sub(lasted))
    }

    fn now(&self) -> i64 {
        let (then, instant) = self.epoch;
        then.saturating_add(i64::try_from(instant.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}

fn status_of(failure: &PodStartFailure) -> StartFailure {
    // The API's own resolution: anything finer would be lost in the first round trip.
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

fn failure_of(status: &StartFailure) -> PodStartFailure {
    PodStartFailure {
        cause: status.cause,
        reason: status.reason.clone(),
        message: status.message.clone(),
        pod: status.pod.clone(),
        since: status.since.0.as_millisecond(),
        given_up: status.given_up,
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::scaling::pod_start::StartCause;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    const PATIENCE: StartPatience =
        StartPatience { start: Duration::from_secs(10), unschedulable: Duration::from_secs(60) };

    fn pod(name: &str, reason: &str) -> Pod {
        let ready = if reason == "Ready" { "True" } else { "False" };
        let spec = json!({"containers": [{"name": "app"}, {"name": "queue-proxy"}]});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec, "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": "m"}}}],
        }}))
        .unwrap()
    }

    /// A judge at work, and what it tells.
    struct Bench {
        events: mpsc::UnboundedSender<Event<Pod>>,
        told: mpsc::UnboundedReceiver<HpaAcceptance>,
    }

    impl Bench {
        fn start(known: Option<PodStartFailure>) -> Self {
            let (events, mut arriving) = mpsc::unbounded_channel();
            let (teller, told) = mpsc::unbounded_channel();
            let stream = futures::stream::poll_fn(move |cx| arriving.poll_recv(cx)).map(Ok);
            let tell = move |verdict: &HpaAcceptance| {
                let _ = teller.send(verdict.clone());
            };
            tokio::spawn(Judge::new(PATIENCE, known.map(Wrong::PodStart)).run(stream, tell));
            Self { events, told }
        }

        fn list(&self, pods: &[Pod]) {
            self.say(Event::Init);
            pods.iter().for_each(|pod| self.say(Event::InitApply(pod.clone())));
            self.say(Event::InitDone);
        }

        fn say(&self, event: Event<Pod>) {
            self.events.send(event).unwrap();
        }

        async fn next(&mut self) -> Option<(StartCause, bool)> {
            self.verdict().await.as_ref().and_then(Wrong::start).map(|v| (v.cause, v.given_up))
        }

        async fn verdict(&mut self) -> HpaAcceptance {
            self.told.recv().await.unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cause_is_told_at_once_and_again_when_it_has_lasted() {
        let mut bench = Bench::start(None);
        bench.list(&[pod("a", "ErrImagePull")]);
        assert_eq!(bench.next().await, Some((StartCause::ImagePull, false)));
        let first = Instant::now();
        assert_eq!(bench.next().await, Some((StartCause::ImagePull, true)));
        assert_eq!(first.elapsed().as_secs(), 10);
        bench.say(Event::Apply(pod("a", "Ready")));
        assert_eq!(bench.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_pod_makes_hope() {
        let mut bench = Bench::start(None);
        bench.list(&[pod("a", "InvalidImageName")]);
        assert_eq!(bench.next().await, Some((StartCause::InvalidImage, true)));
        bench.say(Event::Apply(pod("b", "ContainerCreating")));
        assert_eq!(bench.next().await, None);
        bench.say(Event::Delete(pod("b", "ContainerCreating")));
        assert_eq!(bench.next().await, Some((StartCause::InvalidImage, true)));
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_are_ready_without_a_sidecar_are_named_unless_others_are_on_their_way() {
        let mut bench = Bench::start(None);
        let mut old = pod("a", "Ready");
        old.spec.as_mut().unwrap().containers.truncate(1);
        bench.list(&[old]);
        assert_eq!(bench.verdict().await, Some(Wrong::Bare("a".into())));
        bench.say(Event::Apply(pod("b", "ContainerCreating")));
        assert_eq!(bench.verdict().await, None);
        bench.say(Event::Apply(pod("b", "ErrImagePull")));
        assert_eq!(bench.next().await, Some((StartCause::ImagePull, false)));
        bench.say(Event::Apply(pod("b", "Ready")));
        assert_eq!(bench.verdict().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_status_knew_goes_on_and_is_judged_only_when_all_pods_are_listed() {
        let known = PodStartFailure {
            cause: StartCause::ImagePull,
            reason: "ErrImagePull".into(),
            message: String::new(),
            pod: "a".into(),
            since: runtime::clock::unix_millis() - 60_000,
            given_up: true,
        };
        let mut bench = Bench::start(Some(known));
        bench.say(Event::Init);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(bench.told.try_recv().is_err());
        bench.list(&[pod("a", "ImagePullBackOff")]);
        assert_eq!(bench.next().await, Some((StartCause::ImagePull, true)));
    }
}
