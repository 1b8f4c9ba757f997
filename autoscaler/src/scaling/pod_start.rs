//! Start failures: why the pods of a waking workload do not start, and when requests stop waiting
//! for them.
//!
//! Input: the Kubernetes status of each pod ([`StartingPod`]), from the zero-scaler. Output: a
//! [`PodStartFailure`] for the ServerlessService's status. Once it is given up, activators reject
//! requests of the workload at once. Before that they name it in the response when a request times
//! out.
//!
//! A cause counts for the workload only while every pod has one: any other pod may still become
//! ready. Most causes are transient, so each has to last for its patience:
//!
//! | cause | Kubernetes reason | patience |
//! |---|---|---|
//! | `ImagePull` | ErrImagePull, ImagePullBackOff | start |
//! | `CrashLoop` | CrashLoopBackOff, set from the second crash on | start |
//! | `ContainerConfig` | CreateContainerConfigError | start |
//! | `ContainerStart` | CreateContainerError, RunContainerError | start |
//! | `InvalidImage` | InvalidImageName, ErrImageNeverPull | 0 |
//! | `Unschedulable` | PodScheduled is False: Unschedulable | unschedulable |
//! | `NodeUnresponsive` | none: the kubelet of the pod's node reports nothing | unschedulable |
//! | `PodsNotCreated` | ReplicaFailure, a refused size, or a dry run | unschedulable |
//!
//! A registry fails now and then, and the kubelet retries after 10 s; a late database costs a crash
//! or two; a ConfigMap may be applied a moment later; a runtime or a kubelet may be busy; a new
//! node may be starting; a pod that ends gives its quota back. Only a retry of an invalid image
//! changes nothing.
//!
//! What surprises: `CrashLoop` also holds while the container runs again, so that the cause does
//! not change with each restart.

use std::time::Duration;

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Kind of failure that keeps pods from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum StartCause {
    /// The image cannot be pulled.
    ImagePull,
    /// The image's name is invalid, or the image is not on the node and may not be pulled.
    InvalidImage,
    /// The container exits again and again.
    CrashLoop,
    /// An object that the container refers to (a ConfigMap, a Secret, a key) does not exist.
    ContainerConfig,
    /// The container runtime cannot create or run the container.
    ContainerStart,
    /// The pod fits on no node.
    Unschedulable,
    /// The pod is on a node that reports nothing about it.
    NodeUnresponsive,
    /// The API server refuses the pod, or the size: a quota, a LimitRange or an admission policy.
    PodsNotCreated,
}

/// A pod that is not ready, with the fields that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartingPod {
    /// Its name.
    pub name: String,
    /// Why the scheduler finds no node for it; `None` if it is scheduled.
    pub unschedulable: Option<String>,
    /// What its node does not report; `None` if it reports the pod's state.
    pub unresponsive_node: Option<String>,
    /// Why the API server refuses it; then it stands for the pods that do not exist.
    pub refused: Option<String>,
    /// Its containers, the init ones first.
    pub containers: Vec<StartingContainer>,
}

/// A container of a pod that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartingContainer {
    /// Its name.
    pub name: String,
    /// Reason and message of the state `waiting`, if it has that state.
    pub waiting: Option<(String, String)>,
    /// Restart count; 0 for a container that has completed.
    pub restarts: u32,
    /// Description of its last termination.
    pub last_end: Option<String>,
    /// Whether it is ready, or has completed.
    pub done: bool,
}

/// A start failure of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStartFailure {
    /// Kind of failure.
    pub cause: StartCause,
    /// Kubernetes' reason.
    pub reason: String,
    /// Kubernetes' message.
    pub message: String,
    /// The pod with this failure.
    pub pod: String,
    /// Number of pods that have a failure.
    pub pods: u32,
    /// When it was first seen, in Unix milliseconds.
    pub since: i64,
    /// Whether the failure has outlasted its patience, so that requests are not held any more.
    pub given_up: bool,
}

/// How long a failure has to last until it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPatience {
    /// Patience for all causes but the next.
    pub start: Duration,
    /// Causes that [await capacity](StartCause::awaits_capacity).
    pub unschedulable: Duration,
}

/// What keeps one pod from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodCause<'a> {
    /// Kind of failure.
    pub cause: StartCause,
    /// Kubernetes' reason.
    pub reason: &'a str,
    /// Kubernetes' message.
    pub message: &'a str,
    /// The pod.
    pub pod: &'a str,
    /// The container with the cause, if it is one's.
    pub container: Option<&'a str>,
}

/// The failure of a workload with these pods, none of which is ready, at `now` (Unix milliseconds).
/// `before` is the previous result.
pub fn find_start_failure(
    pods: &[StartingPod],
    before: Option<&PodStartFailure>,
    patience: StartPatience,
    now: i64,
) -> Option<PodStartFailure> {
    let crashing = before.is_some_and(|b| b.cause == StartCause::CrashLoop);
    let causes: Option<Vec<PodCause<'_>>> = pods.iter().map(|pod| pod.cause(crashing)).collect();
    let causes = causes?;
    // The same cause as before while any pod has it, so that the report does not depend on the
    // order of pods.
    let same = |c: &&PodCause<'_>| before.is_some_and(|b| b.cause == c.cause);
    let reported = causes.iter().find(same).or(causes.first())?;
    let before = before.filter(|b| b.cause == reported.cause);
    let since = before.map_or(now, |b| b.since.min(now));
    let lasted = Duration::from_millis(now.saturating_sub(since).unsigned_abs());
    let given_up = lasted >= patience.of(reported.cause);
    let count = u32::try_from(causes.len()).unwrap_or(u32::MAX);
    // The first message describes the failure itself. Later ones describe back-offs and change with
    // each retry.
    Some(match before.filter(|b| causes.iter().any(|c| c.pod == b.pod)) {
        Some(before) => PodStartFailure { since, given_up, pods: count, ..before.clone() },
        None => reported.failure(count, since, given_up),
    })
}

// === impl PodCause ===

impl PodCause<'_> {
    fn failure(&self, pods: u32, since: i64, given_up: bool) -> PodStartFailure {
        PodStartFailure {
            cause: self.cause,
            reason: self.reason.to_owned(),
            message: self.message.to_owned(),
            pod: self.pod.to_owned(),
            pods,
            since,
            given_up,
        }
    }
}

// === impl StartCause ===

impl StartCause {
    /// The name in objects and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImagePull => "ImagePull",
            Self::InvalidImage => "InvalidImage",
            Self::CrashLoop => "CrashLoop",
            Self::ContainerConfig => "ContainerConfig",
            Self::ContainerStart => "ContainerStart",
            Self::Unschedulable => "Unschedulable",
            Self::NodeUnresponsive => "NodeUnresponsive",
            Self::PodsNotCreated => "PodsNotCreated",
        }
    }

    /// Whether the pods wait for a node or a quota, which may come without a change of the
    /// workload.
    pub fn awaits_capacity(self) -> bool {
        matches!(self, Self::Unschedulable | Self::NodeUnresponsive | Self::PodsNotCreated)
    }

    /// The cause for the kubelet's reason of a waiting container; most reasons are not failures.
    pub fn of_waiting(reason: &str) -> Option<Self> {
        Some(match reason {
            "ErrImagePull"
            | "ImagePullBackOff"
            | "RegistryUnavailable"
            | "ImageInspectError"
            | "SignatureValidationFailed" => Self::ImagePull,
            "InvalidImageName" | "ErrImageNeverPull" => Self::InvalidImage,
            "CrashLoopBackOff" => Self::CrashLoop,
            "CreateContainerConfigError" => Self::ContainerConfig,
            "CreateContainerError" | "RunContainerError" | "PreCreateHookError" | "PostStartHookError" => {
                Self::ContainerStart
            }
            _ => return None,
        })
    }
}

// === impl StartPatience ===

impl StartPatience {
    /// The patience that the settings of a workload give.
    pub fn of_settings(settings: &Settings) -> Self {
        Self { start: settings.wake.start_patience, unschedulable: settings.wake.unschedulable_patience }
    }

    /// How long this cause has to last until it is given up.
    pub fn of(self, cause: StartCause) -> Duration {
        match cause {
            StartCause::InvalidImage => Duration::ZERO,
            cause if cause.awaits_capacity() => self.unschedulable,
            _ => self.start,
        }
    }
}

// === impl StartingPod ===

impl StartingPod {
    /// Its first cause. `crashing`: the workload's previous failure was a crash loop.
    pub fn cause(&self, crashing: bool) -> Option<PodCause<'_>> {
        let pod = self.name.as_str();
        let of_pod = [
            (StartCause::Unschedulable, &self.unschedulable),
            (StartCause::NodeUnresponsive, &self.unresponsive_node),
            (StartCause::PodsNotCreated, &self.refused),
        ];
        if let Some((cause, message)) = of_pod.into_iter().find_map(|(cause, it)| Some((cause, it.as_ref()?)))
        {
            return Some(PodCause { cause, reason: cause.as_str(), message, pod, container: None });
        }
        let mut unready = self.containers.iter().filter(|container| !container.done);
        unready.find_map(|container| container.cause(pod, crashing))
    }
}

// === impl StartingContainer ===

impl StartingContainer {
    fn cause<'a>(&'a self, pod: &'a str, crashing: bool) -> Option<PodCause<'a>> {
        let container = Some(self.name.as_str());
        let (reason, message) = self.waiting.as_ref().map_or(("", ""), |(reason, message)| (reason, message));
        match StartCause::of_waiting(reason) {
            Some(StartCause::CrashLoop) => Some(self.crash_loop(pod, reason)),
            Some(cause) => Some(PodCause { cause, reason, message, pod, container }),
            // The container runs again, or is about to.
            None if crashing && self.restarts > 0 => Some(self.crash_loop(pod, "Restarted")),
            None => None,
        }
    }

    /// Prefers the last termination as message: it shows the error, unlike the duration of the
    /// back-off.
    fn crash_loop<'a>(&'a self, pod: &'a str, reason: &'a str) -> PodCause<'a> {
        let waiting = self.waiting.as_ref().map(|(_, message)| message.as_str());
        let message = self.last_end.as_deref().or(waiting).unwrap_or_default();
        PodCause { cause: StartCause::CrashLoop, reason, message, pod, container: Some(&self.name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: StartPatience =
        StartPatience { start: Duration::from_secs(10), unschedulable: Duration::from_secs(60) };

    fn waiting(name: &str, reason: &str) -> StartingPod {
        let waiting = Some((reason.to_owned(), format!("{reason} it is")));
        let container = StartingContainer { waiting, ..StartingContainer::default() };
        StartingPod { name: name.to_owned(), containers: vec![container], ..StartingPod::default() }
    }

    /// A container that terminated and runs again.
    fn restarted(times: u32) -> StartingPod {
        let last_end = Some("exit code 1".into());
        let container = StartingContainer { restarts: times, last_end, ..StartingContainer::default() };
        StartingPod { name: "a".to_owned(), containers: vec![container], ..StartingPod::default() }
    }

    fn unschedulable() -> StartingPod {
        StartingPod { name: "a".into(), unschedulable: Some("0/3 nodes".into()), ..StartingPod::default() }
    }

    fn on_lost_node(name: &str) -> StartingPod {
        StartingPod { name: name.into(), unresponsive_node: Some("node1".into()), ..StartingPod::default() }
    }

    fn cause(pods: &[StartingPod]) -> Option<StartCause> {
        find_start_failure(pods, None, PATIENCE, 0).map(|failure| failure.cause)
    }

    #[test]
    fn maps_kubernetes_reasons_to_causes() {
        for (reason, expected) in [
            ("ErrImagePull", Some(StartCause::ImagePull)),
            ("ImagePullBackOff", Some(StartCause::ImagePull)),
            ("InvalidImageName", Some(StartCause::InvalidImage)),
            ("CrashLoopBackOff", Some(StartCause::CrashLoop)),
            ("CreateContainerConfigError", Some(StartCause::ContainerConfig)),
            ("RunContainerError", Some(StartCause::ContainerStart)),
            ("ContainerCreating", None),
            ("PodInitializing", None),
            ("", None),
        ] {
            assert_eq!(cause(&[waiting("a", reason)]), expected, "{reason}");
        }
        assert_eq!(cause(&[unschedulable()]), Some(StartCause::Unschedulable));
        assert_eq!(cause(&[on_lost_node("a")]), Some(StartCause::NodeUnresponsive));
        assert_eq!(cause(&[StartingPod::default()]), None);
        assert_eq!(cause(&[]), None);
    }

    #[test]
    fn crash_loop_lasts_while_container_runs_and_needs_back_off_first() {
        assert_eq!(cause(&[restarted(7)]), None, "restarts alone may be weeks old");
        let crashed = find_start_failure(&[waiting("a", "CrashLoopBackOff")], None, PATIENCE, 0).unwrap();
        let again = find_start_failure(&[restarted(2)], Some(&crashed), PATIENCE, 10_000).unwrap();
        assert_eq!((again.cause, again.since, again.given_up), (StartCause::CrashLoop, 0, true));
        assert_eq!(
            find_start_failure(&[restarted(0)], Some(&crashed), PATIENCE, 0),
            None,
            "a new pod that has not crashed"
        );
        let mut init = restarted(5);
        init.containers[0].done = true;
        assert_eq!(find_start_failure(&[init], Some(&crashed), PATIENCE, 0), None, "it has completed");
    }

    #[test]
    fn reports_no_failure_while_any_pod_may_become_ready() {
        let pods = [waiting("a", "ImagePullBackOff"), waiting("b", "ContainerCreating")];
        assert_eq!(cause(&pods), None);
        assert_eq!(cause(&[waiting("a", "ImagePullBackOff"), unschedulable()]), Some(StartCause::ImagePull));
    }

    #[test]
    fn counts_pods_with_a_failure() {
        let one = [on_lost_node("a")];
        let first = find_start_failure(&one, None, PATIENCE, 0).unwrap();
        let two = [on_lost_node("a"), on_lost_node("b")];
        let second = find_start_failure(&two, Some(&first), PATIENCE, 0).unwrap();
        assert_eq!((first.pods, second.pods), (1, 2));
        assert_eq!(cause(&[on_lost_node("a"), waiting("b", "ContainerCreating")]), None);
    }

    #[test]
    fn gives_up_cause_after_its_patience() {
        for (pod, lasts) in [
            (waiting("a", "ErrImagePull"), 10_000),
            (waiting("a", "CrashLoopBackOff"), 10_000),
            (unschedulable(), 60_000),
            (on_lost_node("a"), 60_000),
            (waiting("a", "InvalidImageName"), 0),
        ] {
            let pods = [pod];
            let first = find_start_failure(&pods, None, PATIENCE, 1_000).unwrap();
            assert_eq!((first.since, first.given_up), (1_000, lasts == 0), "{pods:?}");
            let early = find_start_failure(&pods, Some(&first), PATIENCE, 1_000 + lasts - 1).unwrap();
            assert_eq!(early.given_up, lasts == 0, "{pods:?}");
            let late = find_start_failure(&pods, Some(&first), PATIENCE, 1_000 + lasts).unwrap();
            assert_eq!((late.since, late.given_up), (1_000, true), "{pods:?}");
        }
    }

    #[test]
    fn new_cause_restarts_the_time_and_new_reason_does_not() {
        let first = find_start_failure(&[waiting("a", "ErrImagePull")], None, PATIENCE, 0).unwrap();
        let same =
            find_start_failure(&[waiting("a", "ImagePullBackOff")], Some(&first), PATIENCE, 9_000).unwrap();
        assert_eq!((same.since, same.reason.as_str()), (0, "ErrImagePull"));
        let successor =
            find_start_failure(&[waiting("b", "ImagePullBackOff")], Some(&first), PATIENCE, 9_000).unwrap();
        assert_eq!(
            (successor.since, successor.reason.as_str(), successor.pod.as_str()),
            (0, "ImagePullBackOff", "b")
        );
        let pods = [waiting("a", "CreateContainerError"), waiting("b", "ImagePullBackOff")];
        assert_eq!(find_start_failure(&pods, Some(&first), PATIENCE, 9_000).unwrap().since, 0);
        let other =
            find_start_failure(&[waiting("a", "CrashLoopBackOff")], Some(&same), PATIENCE, 11_000).unwrap();
        assert_eq!((other.since, other.given_up), (11_000, false));
    }

    #[test]
    fn clock_step_back_does_not_give_up() {
        let first = find_start_failure(&[unschedulable()], None, PATIENCE, 100_000).unwrap();
        let back = find_start_failure(&[unschedulable()], Some(&first), PATIENCE, 0).unwrap();
        assert_eq!((back.since, back.given_up), (0, false));
    }
}
