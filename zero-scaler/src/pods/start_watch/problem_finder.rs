//! StartProblemFinder: why no pod of one workload gets requests, from the events of its pods.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::ScaleTargetRef;
use autoscaler::contract::selector::Selector;
use autoscaler::findings::pod_status::{PodReadiness, pod_readiness};
use autoscaler::scaling::pod_start::{PodStartFailure, StartPatience, StartingPod, find_start_failure};
use autoscaler::settings::SidecarMode;
use component_base::kubernetes::Decoded;
use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::runtime::watcher::Event;
use tokio::time::{Instant, MissedTickBehavior};

use crate::pods::node_acknowledgements::NodeAcknowledgements;

/// Pause between two checks of why there is no pod.
const REFUSAL_CHECK: Duration = Duration::from_secs(10);

/// The pods to watch, and what they should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedPods {
    /// What makes them.
    pub target: ScaleTargetRef,
    /// The label selector of the target.
    pub selector: String,
    /// Selects those that get requests; `None` if it is invalid.
    pub selected: Option<Selector>,
    /// Time until a pod that does not start is given up.
    pub patience: StartPatience,
    /// Whether they need a sidecar.
    pub sidecar: SidecarMode,
    /// Why the API server refuses them, if it does.
    pub refused: Option<String>,
}

/// Why a workload has no ready endpoint.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StartProblem {
    /// The pods cannot start.
    Failure(PodStartFailure),
    /// Pods are ready and get no requests.
    Unusable(UnusablePod),
}

/// The name of a ready pod that gets no requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusablePod {
    /// It has no sidecar.
    WithoutSidecar(String),
    /// The Service does not select it.
    NotSelected(String),
}

/// Finds the start problem of one workload from the events of its pods.
pub(super) struct StartProblemFinder {
    pods: BTreeMap<String, PodReadiness>,
    /// When each pod was first seen without an acknowledgement of its node.
    unacknowledged: HashMap<String, Instant>,
    nodes: Arc<NodeAcknowledgements>,
    listed: bool,
    problem: Option<StartProblem>,
    expected: WatchedPods,
    /// The need for pods on both clocks, so that changes of the wall clock do not change the
    /// patience.
    began: Moment,
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) unix_millis: i64,
    pub(super) instant: Instant,
}

// === impl Moment ===

impl Moment {
    /// The wall-clock time at `now`, in Unix milliseconds.
    fn unix_millis_at(self, now: Instant) -> i64 {
        let passed = now.saturating_duration_since(self.instant).as_millis();
        self.unix_millis.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
    }
}

// === impl StartProblem ===

impl StartProblem {
    pub(super) fn failure(&self) -> Option<&PodStartFailure> {
        match self {
            Self::Failure(failure) => Some(failure),
            Self::Unusable(_) => None,
        }
    }
}

// === impl StartProblemFinder ===

impl StartProblemFinder {
    pub(super) fn new(
        expected: WatchedPods,
        problem: Option<StartProblem>,
        nodes: Arc<NodeAcknowledgements>,
        began: Moment,
    ) -> Self {
        let (pods, unacknowledged) = (BTreeMap::new(), HashMap::new());
        Self { pods, unacknowledged, nodes, listed: false, problem, expected, began }
    }

    /// Calls `report` once when all pods are listed, and on each change of the problem. While there
    /// is no pod, `refusal` finds why the API server refuses one.
    pub(super) async fn run<F: Future<Output = Option<String>>>(
        mut self,
        events: impl Stream<Item = Event<Decoded<Pod>>>,
        refusal: impl Fn() -> F,
        report: impl Fn(&Option<StartProblem>),
    ) {
        pin_mut!(events);
        let mut reported = false;
        let reported_refusal = self.expected.refused.clone();
        let mut checks = tokio::time::interval(REFUSAL_CHECK);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_missing = self.listed && self.pods.is_empty() && reported_refusal.is_none();
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.apply(event, Instant::now()),
                    None => return,
                },
                () = component_base::clock::sleep_until(self.next_change(Instant::now())) => {}
                _ = checks.tick(), if is_missing => self.expected.refused = refusal().await,
            }
            if !self.listed {
                continue;
            }
            let problem = self.find_problem(Instant::now());
            if !reported || problem != self.problem {
                report(&problem);
                reported = true;
            }
            self.problem = problem;
        }
    }

    fn apply(&mut self, event: Event<Decoded<Pod>>, now: Instant) {
        match event {
            Event::Init => {
                self.pods.clear();
                self.listed = false;
            }
            Event::InitDone => self.listed = true,
            // An undecodable pod changes nothing: why it does not start is unknown.
            Event::InitApply(pod) | Event::Apply(pod) => {
                if let Some(readiness) = pod.0.as_ref().ok().map(|decoded| self.readiness(decoded)) {
                    self.insert(pod.name_any(), readiness, now);
                }
            }
            Event::Delete(pod) => {
                self.pods.remove(&pod.name_any());
                self.unacknowledged.remove(&pod.name_any());
            }
        }
    }

    fn insert(&mut self, name: String, readiness: PodReadiness, now: Instant) {
        // Those of the first list are as old as the need for them.
        let since = if self.listed { now } else { self.began.instant };
        match (&readiness, self.pods.get(&name)) {
            (PodReadiness::Unacknowledged { .. }, _) => {
                self.unacknowledged.entry(name.clone()).or_insert(since);
            }
            (_, Some(PodReadiness::Unacknowledged { node, .. })) => {
                self.nodes.record(node, now);
                self.unacknowledged.remove(&name);
            }
            _ => {}
        }
        self.pods.insert(name, readiness);
    }

    fn readiness(&self, pod: &Pod) -> PodReadiness {
        let readiness = pod_readiness(pod, self.expected.sidecar);
        let is_selected = self.expected.selected.as_ref().is_none_or(|it| it.matches(pod.labels()));
        match readiness {
            readiness if is_selected => readiness,
            PodReadiness::Ready | PodReadiness::ReadyWithoutSidecar => PodReadiness::ReadyNotSelected,
            // A version that gets no requests may fail to start.
            PodReadiness::Starting(_)
            | PodReadiness::Unacknowledged { .. }
            | PodReadiness::Ended
            | PodReadiness::ReadyNotSelected => PodReadiness::Ended,
        }
    }

    fn find_problem(&self, now: Instant) -> Option<StartProblem> {
        let (mut starting, mut unusable) = (Vec::new(), None);
        for (name, pod) in &self.pods {
            match pod {
                PodReadiness::Ready => return None,
                PodReadiness::ReadyWithoutSidecar => {
                    unusable = Some(UnusablePod::WithoutSidecar(name.clone()));
                }
                PodReadiness::ReadyNotSelected => {
                    unusable.get_or_insert_with(|| UnusablePod::NotSelected(name.clone()));
                }
                PodReadiness::Starting(pod) => starting.push(pod.clone()),
                PodReadiness::Unacknowledged { pod, node } => {
                    let is_due = self.unresponsive_from(name, node) <= now;
                    let message = is_due.then(|| format!("node {node} has not acknowledged the pod"));
                    starting.push(StartingPod { unresponsive_node: message, ..pod.clone() });
                }
                PodReadiness::Ended => {}
            }
        }
        if let Some(refused) = self.expected.refused.clone().filter(|_| starting.is_empty()) {
            starting.push(StartingPod { refused: Some(refused), ..StartingPod::default() });
        }
        // Starting pods may be replacements that have a sidecar.
        match unusable.filter(|_| starting.is_empty()) {
            Some(pod) => Some(StartProblem::Unusable(pod)),
            None => {
                let before = self.problem.as_ref().and_then(StartProblem::failure);
                let now = self.began.unix_millis_at(now);
                find_start_failure(&starting, before, self.expected.patience, now).map(StartProblem::Failure)
            }
        }
    }

    /// When time alone changes the problem.
    fn next_change(&self, now: Instant) -> Option<Instant> {
        let unacknowledged = self.pods.iter().filter_map(|(name, pod)| match pod {
            PodReadiness::Unacknowledged { node, .. } => Some(self.unresponsive_from(name, node)),
            _ => None,
        });
        let next = unacknowledged.filter(|at| self.listed && *at > now).min();
        next.into_iter().chain(self.patience_ends(now)).min()
    }

    fn unresponsive_from(&self, name: &str, node: &str) -> Instant {
        let since = self.unacknowledged.get(name).copied().unwrap_or(self.began.instant);
        self.nodes.unresponsive_from(node, since)
    }

    /// When the patience with the present cause ends.
    fn patience_ends(&self, now: Instant) -> Option<Instant> {
        let failure = self.problem.as_ref().and_then(StartProblem::failure);
        let failure = failure.filter(|failure| self.listed && !failure.given_up)?;
        let since = self.began.unix_millis_at(now).saturating_sub(failure.since);
        let lasted = Duration::from_millis(since.unsigned_abs());
        Some(now + self.expected.patience.of(failure.cause).saturating_sub(lasted))
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::scaling::pod_start::StartCause;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;

    /// When each test begins, in Unix milliseconds.
    const BEGIN: i64 = 1_790_000_000_000;
    const PATIENCE: StartPatience =
        StartPatience { start: Duration::from_secs(10), unschedulable: Duration::from_secs(60) };

    fn pod(name: &str, reason: &str) -> Decoded<Pod> {
        let ready = if reason == "Ready" { "True" } else { "False" };
        let spec = json!({"containers": [{"name": "app"}, {"name": "queue-proxy"}]});
        let labels =
            json!({"app": "web", "track": if name.starts_with("v2") { "preview" } else { "stable" }});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": reason, "message": "m"}}}],
        }}))
        .unwrap()
    }

    /// A running finder with its input and output channels.
    struct FinderTest {
        events: mpsc::UnboundedSender<Event<Decoded<Pod>>>,
        reports: mpsc::UnboundedReceiver<Option<StartProblem>>,
    }

    impl FinderTest {
        fn start(reported: Option<PodStartFailure>) -> Self {
            Self::refusing(reported, None)
        }

        fn refusing(reported: Option<PodStartFailure>, refused: Option<&'static str>) -> Self {
            let (events, mut arriving) = mpsc::unbounded_channel();
            let (report_sender, reports) = mpsc::unbounded_channel();
            let stream = futures::stream::poll_fn(move |cx| arriving.poll_recv(cx));
            let report = move |problem: &Option<StartProblem>| {
                let _ = report_sender.send(problem.clone());
            };
            let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"});
            let expected = WatchedPods {
                target: serde_json::from_value(target).unwrap(),
                selector: "app=web".into(),
                selected: Selector::parse_labels("app=web,track=stable"),
                patience: PATIENCE,
                sidecar: SidecarMode::Required,
                refused: None,
            };
            let began = Moment { unix_millis: BEGIN, instant: Instant::now() };
            let reported = reported.map(StartProblem::Failure);
            let finder = StartProblemFinder::new(expected, reported, Arc::default(), began);
            tokio::spawn(finder.run(stream, move || std::future::ready(refused.map(str::to_owned)), report));
            Self { events, reports }
        }

        fn list(&self, pods: &[Decoded<Pod>]) {
            self.send(Event::Init);
            pods.iter().for_each(|pod| self.send(Event::InitApply(pod.clone())));
            self.send(Event::InitDone);
        }

        fn send(&self, event: Event<Decoded<Pod>>) {
            self.events.send(event).unwrap();
        }

        async fn next_failure(&mut self) -> Option<(StartCause, bool)> {
            self.next_problem()
                .await
                .as_ref()
                .and_then(StartProblem::failure)
                .map(|failure| (failure.cause, failure.given_up))
        }

        async fn next_problem(&mut self) -> Option<StartProblem> {
            self.reports.recv().await.unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reports_why_there_is_no_pod() {
        let mut finder = FinderTest::refusing(None, Some("exceeded quota: small"));
        finder.list(&[]);
        while finder.next_failure().await != Some((StartCause::PodsNotCreated, false)) {}
        finder.send(Event::Apply(pod("stable-1", "Ready")));
        while finder.next_failure().await.is_some() {}
    }

    #[tokio::test(start_paused = true)]
    async fn reports_cause_at_once_and_again_when_patience_ends() {
        let mut test = FinderTest::start(None);
        test.list(&[pod("a", "ErrImagePull")]);
        assert_eq!(test.next_failure().await, Some((StartCause::ImagePull, false)));
        let first = Instant::now();
        assert_eq!(test.next_failure().await, Some((StartCause::ImagePull, true)));
        assert_eq!(first.elapsed().as_secs(), 10);
        test.send(Event::Apply(pod("a", "Ready")));
        assert_eq!(test.next_failure().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn withdraws_cause_while_another_pod_is_starting() {
        let mut test = FinderTest::start(None);
        test.list(&[pod("a", "InvalidImageName")]);
        assert_eq!(test.next_failure().await, Some((StartCause::InvalidImage, true)));
        test.send(Event::Apply(pod("b", "ContainerCreating")));
        assert_eq!(test.next_failure().await, None);
        test.send(Event::Delete(pod("b", "ContainerCreating")));
        assert_eq!(test.next_failure().await, Some((StartCause::InvalidImage, true)));
    }

    #[tokio::test(start_paused = true)]
    async fn reports_ready_pod_without_sidecar_unless_others_are_starting() {
        let mut test = FinderTest::start(None);
        let mut old = pod("a", "Ready");
        Arc::make_mut(old.0.as_mut().unwrap()).spec.as_mut().unwrap().containers.truncate(1);
        test.list(&[old]);
        assert_eq!(
            test.next_problem().await,
            Some(StartProblem::Unusable(UnusablePod::WithoutSidecar("a".into())))
        );
        test.send(Event::Apply(pod("b", "ContainerCreating")));
        assert_eq!(test.next_problem().await, None);
        test.send(Event::Apply(pod("b", "ErrImagePull")));
        assert_eq!(test.next_failure().await, Some((StartCause::ImagePull, false)));
        test.send(Event::Apply(pod("b", "Ready")));
        assert_eq!(test.next_problem().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn reports_ready_pod_that_the_service_does_not_select_and_not_its_failure() {
        let mut test = FinderTest::start(None);
        test.list(&[pod("v2", "ErrImagePull")]);
        assert_eq!(test.next_problem().await, None);
        test.send(Event::Apply(pod("v2", "Ready")));
        let not_selected = StartProblem::Unusable(UnusablePod::NotSelected("v2".into()));
        assert_eq!(test.next_problem().await, Some(not_selected));
        test.send(Event::Apply(pod("v1", "ErrImagePull")));
        assert_eq!(test.next_failure().await, Some((StartCause::ImagePull, false)));
        test.send(Event::Apply(pod("v1", "Ready")));
        assert_eq!(test.next_problem().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn continues_reported_failure_when_all_pods_are_listed() {
        let reported = PodStartFailure {
            cause: StartCause::ImagePull,
            reason: "ErrImagePull".into(),
            message: String::new(),
            pod: "a".into(),
            pods: 1,
            since: BEGIN - 60_000,
            given_up: true,
        };
        let mut test = FinderTest::start(Some(reported));
        test.send(Event::Init);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(test.reports.try_recv().is_err());
        test.list(&[pod("a", "ImagePullBackOff")]);
        assert_eq!(test.next_failure().await, Some((StartCause::ImagePull, true)));
    }

    fn unacknowledged(name: &str) -> Decoded<Pod> {
        let labels = json!({"app": "web", "track": "stable"});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": "node3", "containers": [{"name": "app"}, {"name": "queue-proxy"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]}}))
        .unwrap()
    }

    fn acknowledged(name: &str) -> Decoded<Pod> {
        let mut pod = unacknowledged(name);
        let status = Arc::make_mut(pod.0.as_mut().unwrap()).status.as_mut().unwrap();
        status.start_time = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        pod
    }

    #[tokio::test(start_paused = true)]
    async fn node_without_acknowledgement_is_unresponsive_after_a_while() {
        let mut test = FinderTest::start(None);
        let began = Instant::now();
        test.list(&[unacknowledged("a")]);
        assert_eq!(test.next_problem().await, None);
        assert_eq!(test.next_failure().await, Some((StartCause::NodeUnresponsive, false)));
        assert_eq!(began.elapsed().as_millis(), 1800);
        // A pod more gets the same time.
        test.send(Event::Apply(unacknowledged("b")));
        assert_eq!(test.next_problem().await, None);
        let problem = test.next_problem().await;
        assert_eq!(problem.as_ref().and_then(StartProblem::failure).map(|failure| failure.pods), Some(2));
        assert_eq!(began.elapsed().as_millis(), 3600);
        test.send(Event::Apply(acknowledged("b")));
        assert_eq!(test.next_problem().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn acknowledgement_of_another_pod_shows_that_the_node_is_busy() {
        let mut test = FinderTest::start(None);
        test.list(&[unacknowledged("a"), unacknowledged("b")]);
        assert_eq!(test.next_problem().await, None);
        let began = Instant::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        test.send(Event::Apply(acknowledged("b")));
        test.send(Event::Delete(acknowledged("b")));
        assert_eq!(test.next_failure().await, Some((StartCause::NodeUnresponsive, false)));
        assert_eq!(began.elapsed().as_millis(), 2800);
    }
}
