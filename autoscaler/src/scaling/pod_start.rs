//! Why the pods of a workload that is waking do not start, and when that is reason enough to stop waiting.
//!
//! Input: what Kubernetes says of each pod ([`StartingPod`]), seen by the zero-scaler. Output: a [`PodStartFailure`], which goes into the
//! ServerlessService's status: activators refuse requests for it once it is given up, and name it when the wait is over
//! anyhow.
//!
//! A cause speaks for the workload only while every pod has one: another pod may be just what was missing. And most causes
//! pass, so each has to last:
//!
//! | cause | Kubernetes says | lasts | because |
//! |---|---|---|---|
//! | `ImagePull` | ErrImagePull, ImagePullBackOff | start patience | registries fail now and then, and the kubelet tries again after 10 s |
//! | `CrashLoop` | CrashLoopBackOff, which comes with the second crash | start patience | a database that is late costs a crash or two |
//! | `ContainerConfig` | CreateContainerConfigError | start patience | the ConfigMap may be applied a moment later |
//! | `ContainerStart` | CreateContainerError, RunContainerError | start patience | a runtime may be busy |
//! | `InvalidImage` | InvalidImageName, ErrImageNeverPull | 0 | no repetition changes it |
//! | `Unschedulable` | PodScheduled is False: Unschedulable | its own patience | a new node may be on its way |
//!
//! What surprises: a crash loop is a crash loop also while its container runs once more, so a cause does not come and go with
//! each try.

use std::time::Duration;

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// What keeps pods from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum StartCause {
    /// The image cannot be pulled.
    ImagePull,
    /// The image's name makes no sense, or it is not there and may not be pulled.
    InvalidImage,
    /// The container ends again and again.
    CrashLoop,
    /// What the container refers to (a ConfigMap, a Secret, a key) is not there.
    ContainerConfig,
    /// The runtime cannot make or run the container.
    ContainerStart,
    /// The pod fits on no node.
    Unschedulable,
}

/// A pod that is not ready, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartingPod {
    /// Its name.
    pub name: String,
    /// Why the scheduler finds no node for it.
    pub unschedulable: Option<String>,
    /// Its containers, the init ones first.
    pub containers: Vec<StartingContainer>,
}

/// A container of a pod that is not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartingContainer {
    /// Reason and message of its state, if it waits.
    pub waiting: Option<(String, String)>,
    /// How often it was started anew, 0 for what has ended well.
    pub restarts: u32,
    /// What is known of its last end.
    pub last_end: Option<String>,
    /// Whether it is ready, or has done its work.
    pub done: bool,
}

/// A cause that speaks for a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodStartFailure {
    /// What kind of cause.
    pub cause: StartCause,
    /// Kubernetes' own word for it.
    pub reason: String,
    /// Kubernetes' own sentence.
    pub message: String,
    /// The pod that it was seen on.
    pub pod: String,
    /// When it was first seen, in Unix milliseconds.
    pub since: i64,
    /// Whether it has lasted long enough for requests not to be held any more.
    pub given_up: bool,
}

/// How long causes have to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPatience {
    /// Any but the next.
    pub start: Duration,
    /// [`StartCause::Unschedulable`].
    pub unschedulable: Duration,
}

/// What keeps one pod from starting.
struct Found<'a> {
    cause: StartCause,
    reason: &'a str,
    message: &'a str,
    pod: &'a str,
}

/// The cause that speaks for a workload with these pods, none of which is ready, at `now` (Unix milliseconds); `before` is
/// what this said last.
pub fn find_start_failure(
    pods: &[StartingPod],
    before: Option<&PodStartFailure>,
    patience: StartPatience,
    now: i64,
) -> Option<PodStartFailure> {
    let crashing = before.is_some_and(|b| b.cause == StartCause::CrashLoop);
    let found: Option<Vec<Found<'_>>> = pods.iter().map(|pod| pod.found(crashing)).collect();
    let found = found?;
    // The same cause as long as there is one: what is told should not change with the order of pods.
    let same = |f: &&Found<'_>| before.is_some_and(|b| b.cause == f.cause);
    let told = found.iter().find(same).or(found.first())?;
    let before = before.filter(|b| b.cause == told.cause);
    let since = before.map_or(now, |b| b.since.min(now));
    let lasted = Duration::from_millis(now.saturating_sub(since).unsigned_abs());
    let given_up = lasted >= patience.of(told.cause);
    // The first words are the ones that say what happened; those that follow speak of repetitions, and change with each.
    Some(match before.filter(|b| found.iter().any(|f| f.pod == b.pod)) {
        Some(before) => PodStartFailure { since, given_up, ..before.clone() },
        None => told.failure(since, given_up),
    })
}

// === impl Found ===

impl Found<'_> {
    fn failure(&self, since: i64, given_up: bool) -> PodStartFailure {
        PodStartFailure {
            cause: self.cause,
            reason: self.reason.to_owned(),
            message: self.message.to_owned(),
            pod: self.pod.to_owned(),
            since,
            given_up,
        }
    }
}

// === impl StartCause ===

impl StartCause {
    /// As in objects and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ImagePull => "ImagePull",
            Self::InvalidImage => "InvalidImage",
            Self::CrashLoop => "CrashLoop",
            Self::ContainerConfig => "ContainerConfig",
            Self::ContainerStart => "ContainerStart",
            Self::Unschedulable => "Unschedulable",
        }
    }

    /// What the kubelet's reason for a waiting container stands for; most reasons are no failure.
    fn of_waiting(reason: &str) -> Option<Self> {
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
    /// What the settings of a workload say.
    pub fn of_settings(settings: &Settings) -> Self {
        Self { start: settings.start_patience, unschedulable: settings.unschedulable_patience }
    }

    /// How long this cause has to last.
    pub fn of(self, cause: StartCause) -> Duration {
        match cause {
            StartCause::InvalidImage => Duration::ZERO,
            StartCause::Unschedulable => self.unschedulable,
            _ => self.start,
        }
    }
}

// === impl StartingPod ===

impl StartingPod {
    /// `crashing`: its workload was last seen in a crash loop.
    fn found(&self, crashing: bool) -> Option<Found<'_>> {
        let pod = self.name.as_str();
        if let Some(message) = &self.unschedulable {
            return Some(Found { cause: StartCause::Unschedulable, reason: "Unschedulable", message, pod });
        }
        let mut awaited = self.containers.iter().filter(|container| !container.done);
        awaited.find_map(|container| container.found(pod, crashing))
    }
}

// === impl StartingContainer ===

impl StartingContainer {
    fn found<'a>(&'a self, pod: &'a str, crashing: bool) -> Option<Found<'a>> {
        let (reason, message) = self.waiting.as_ref().map_or(("", ""), |(reason, message)| (reason, message));
        match StartCause::of_waiting(reason) {
            Some(StartCause::CrashLoop) => Some(self.crash_loop(pod, reason)),
            Some(cause) => Some(Found { cause, reason, message, pod }),
            // It runs once more, or is about to.
            None if crashing && self.restarts > 0 => Some(self.crash_loop(pod, "Restarted")),
            None => None,
        }
    }

    /// How it ended says more than for how long it waits.
    fn crash_loop<'a>(&'a self, pod: &'a str, reason: &'a str) -> Found<'a> {
        let waiting = self.waiting.as_ref().map(|(_, message)| message.as_str());
        let message = self.last_end.as_deref().or(waiting).unwrap_or_default();
        Found { cause: StartCause::CrashLoop, reason, message, pod }
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

    /// A container that ended and runs again.
    fn restarted(times: u32) -> StartingPod {
        let last_end = Some("exit code 1".into());
        let container = StartingContainer { restarts: times, last_end, ..StartingContainer::default() };
        StartingPod { name: "a".to_owned(), containers: vec![container], ..StartingPod::default() }
    }

    fn unschedulable() -> StartingPod {
        StartingPod { name: "a".into(), unschedulable: Some("0/3 nodes".into()), ..StartingPod::default() }
    }

    fn cause(pods: &[StartingPod]) -> Option<StartCause> {
        find_start_failure(pods, None, PATIENCE, 0).map(|failure| failure.cause)
    }

    #[test]
    fn what_kubernetes_says_is_a_cause_or_none() {
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
        assert_eq!(cause(&[StartingPod::default()]), None);
        assert_eq!(cause(&[]), None);
    }

    #[test]
    fn a_crash_loop_goes_on_while_its_container_runs_once_more_and_no_restart_alone_is_one() {
        assert_eq!(cause(&[restarted(7)]), None, "it may have run for weeks since");
        let crashed = find_start_failure(&[waiting("a", "CrashLoopBackOff")], None, PATIENCE, 0).unwrap();
        let again = find_start_failure(&[restarted(2)], Some(&crashed), PATIENCE, 10_000).unwrap();
        assert_eq!((again.cause, again.since, again.given_up), (StartCause::CrashLoop, 0, true));
        assert_eq!(
            find_start_failure(&[restarted(0)], Some(&crashed), PATIENCE, 0),
            None,
            "a new pod, that has not crashed"
        );
        let mut init = restarted(5);
        init.containers[0].done = true;
        assert_eq!(
            find_start_failure(&[init], Some(&crashed), PATIENCE, 0),
            None,
            "it came through in the end"
        );
    }

    #[test]
    fn a_pod_that_may_still_come_speaks_against_the_others() {
        let pods = [waiting("a", "ImagePullBackOff"), waiting("b", "ContainerCreating")];
        assert_eq!(cause(&pods), None);
        assert_eq!(cause(&[waiting("a", "ImagePullBackOff"), unschedulable()]), Some(StartCause::ImagePull));
    }

    #[test]
    fn a_cause_is_given_up_when_it_has_lasted() {
        for (pod, lasts) in [
            (waiting("a", "ErrImagePull"), 10_000),
            (waiting("a", "CrashLoopBackOff"), 10_000),
            (unschedulable(), 60_000),
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
    fn another_word_for_the_same_cause_does_not_start_anew_and_another_cause_does() {
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
    fn a_clock_that_goes_back_gives_nothing_up() {
        let first = find_start_failure(&[unschedulable()], None, PATIENCE, 100_000).unwrap();
        let back = find_start_failure(&[unschedulable()], Some(&first), PATIENCE, 0).unwrap();
        assert_eq!((back.since, back.given_up), (0, false));
    }
}
