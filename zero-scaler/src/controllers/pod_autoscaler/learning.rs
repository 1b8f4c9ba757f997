//! The learned target in the status: which report of the decision stream is written, and when.
//! Pure.
//!
//! Each report differs from the one before, because its evidence grows. A change of the mode, the
//! phase or the target is written at once, anything else at most each five minutes: a new leader of
//! the metrics-adapters then loses at most as much of what was learned. Where more than 3,000
//! workloads learn, it is written more rarely: these writes take a tenth of the rate limit.

use std::time::Duration;

use autoscaler::api::LearningStatus;
use autoscaler::contract::pod_limit::MAX_CONTAINER_CONCURRENCY;
use autoscaler::contract::quantity::{format_milli, milli_from_f64};
use autoscaler::learning_report::LearningReport;
use autoscaler::settings::LearnTarget;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::observe::ObservedWorkload;

/// Shortest time between two writes of which only the evidence differs.
const EVIDENCE_INTERVAL: Duration = Duration::from_secs(300);
/// Time between two such writes of all workloads. The default rate limit is ten times that.
const EVIDENCE_WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// Fields of a checkpoint that differ although no request showed anything: its time, the readings
/// of idle pods and their costs.
const WITHOUT_EVIDENCE: [&str; 3] = ["savedAt", "memory", "costs"];

/// The learned target, as the status should have it. Without a report the last one stays, because
/// it has the checkpoint. A report of a snapshot has none, and the next one comes within ten
/// seconds.
pub(super) fn status(observed: &ObservedWorkload) -> Option<LearningStatus> {
    if !observed.autoscaler.spec.learns(&observed.settings) {
        return None;
    }
    let before = before(observed);
    match report(observed).filter(|report| report.checkpoint.is_some()) {
        Some(report) => {
            Some(status_after(before, report, observed.now, evidence_interval(observed.learning_workloads)))
        }
        None => before.cloned(),
    }
}

/// When newer evidence may be written.
pub(super) fn recheck(observed: &ObservedWorkload) -> Option<Duration> {
    report(observed).filter(|_| observed.autoscaler.spec.learns(&observed.settings))?;
    let age = before(observed).and_then(|before| age(before, observed.now));
    let interval = evidence_interval(observed.learning_workloads);
    // Old evidence that is still in the status equals the newest one.
    let left = age.and_then(|age| interval.checked_sub(age)).filter(|left| !left.is_zero());
    Some(left.unwrap_or(interval))
}

/// Time between two writes of the newer evidence of one workload, if so many learn.
fn evidence_interval(learning: u32) -> Duration {
    EVIDENCE_INTERVAL.max(EVIDENCE_WRITE_INTERVAL * learning)
}

/// The target that users know without any event: the one of the status, or else their own.
pub(super) fn known_target(observed: &ObservedWorkload) -> f64 {
    let user_target = report(observed).map(|report| report.user_target);
    before(observed).and_then(LearningStatus::target).or(user_target).unwrap_or_default()
}

/// The learned target that the pods are scaled by; `None` where it is the user's. Without a
/// decision it is the target of the status.
pub(super) fn target_in_force(observed: &ObservedWorkload) -> Option<f64> {
    let ObservedWorkload { autoscaler, settings, .. } = observed;
    if !autoscaler.spec.learns(settings) || settings.learning.mode != LearnTarget::Apply {
        return None;
    }
    let (mode, target) = match &observed.decision {
        Some(decision) => decision.learning.as_ref().map(|report| (report.mode, report.target))?,
        None => before(observed).and_then(|status| Some((status.mode, status.target()?)))?,
    };
    (mode == LearnTarget::Apply && target.is_finite() && target > 0.0).then_some(target)
}

/// Requests that a pod may have at a time for now, by what is learned. Only activators enforce it.
pub(super) fn temporary_limit(observed: &ObservedWorkload) -> Option<u32> {
    target_in_force(observed)?;
    report(observed)?.temporary_limit.filter(|limit| *limit <= MAX_CONTAINER_CONCURRENCY)
}

/// The note of the event about a target that is far from the last reported one.
pub(super) fn note(learned: &LearningStatus, last: f64, target: f64) -> String {
    let quantity = |target| milli_from_f64(target).map(format_milli).unwrap_or_default();
    let (last, target) = (quantity(last), quantity(target));
    let evidence = learned.message.as_deref().unwrap_or_default();
    format!("the learned target, which is in force, changed from {last} to {target}: {evidence}")
}

fn before(observed: &ObservedWorkload) -> Option<&LearningStatus> {
    observed.autoscaler.status.as_ref()?.learning.as_ref()
}

fn report(observed: &ObservedWorkload) -> Option<&LearningReport> {
    observed.decision.as_ref()?.learning.as_deref()
}

/// The status after a report: the one before, if nothing in it is urgent.
fn status_after(
    before: Option<&LearningStatus>,
    report: &LearningReport,
    now: Timestamp,
    interval: Duration,
) -> LearningStatus {
    let after = LearningStatus::new(report, Time(now));
    let unchanged = before.filter(|before| before.is_like(report));
    let kept =
        unchanged.filter(|before| is_recent(before, now, interval) || has_same_evidence(before, &after));
    kept.cloned().unwrap_or(after)
}

fn is_recent(learning: &LearningStatus, now: Timestamp, interval: Duration) -> bool {
    age(learning, now).is_some_and(|age| age < interval)
}

/// Age of a status; `None` if it has no time, or one in the future.
fn age(learning: &LearningStatus, now: Timestamp) -> Option<Duration> {
    let Time(updated) = learning.updated.as_ref()?;
    Duration::try_from(now.duration_since(*updated)).ok()
}

/// A workload without requests has the same evidence for hours, and should cost no writes.
fn has_same_evidence(before: &LearningStatus, after: &LearningStatus) -> bool {
    let evidence = |learning: &LearningStatus| {
        let mut state: Value = serde_json::from_str(learning.checkpoint.as_deref()?).ok()?;
        let fields = state.as_object_mut()?;
        fields.retain(|name, _| !WITHOUT_EVIDENCE.contains(&name.as_str()));
        Some(state)
    };
    before.message == after.message && evidence(before) == evidence(after)
}

#[cfg(test)]
mod tests {
    use autoscaler::learning_report::{Checkpoint, Phase};
    use learning::{AppSecond, Learner, LearningSpec, PodSecond};

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(NOW + seconds).unwrap()
    }

    /// The report of a learner after this many seconds of requests, with the state of `now`.
    fn report(seconds: u32, now: u64) -> LearningReport {
        let mut learner = Learner::new(LearningSpec { user_target: 20.0, ..LearningSpec::default() }, 1);
        let app = AppSecond { completions: 90.0, seconds: 9.0, ..AppSecond::default() };
        let pod = PodSecond {
            age: Duration::from_secs(60),
            concurrency: 9.0,
            arrivals: 90.0,
            app: Some(app),
            ..PodSecond::default()
        };
        for second in 0..seconds {
            learner.observe(Duration::from_secs(1_700_000_000 + u64::from(second)), &[pod, pod]);
        }
        LearningReport {
            mode: LearnTarget::Recommend,
            user_target: 20.0,
            target: 20.0,
            backlog: 1.0,
            temporary_limit: None,
            phase: Phase::Observing,
            long_requests: false,
            confidence: 0.0,
            evidence: format!("{seconds} seconds"),
            pods_with_user_target: 1,
            pods_with_target: 1,
            changes: 0,
            reverts: 0,
            checkpoint: Checkpoint::of(&learner.state(Duration::from_secs(now))),
        }
    }

    #[test]
    fn newer_evidence_is_written_after_five_minutes() {
        let before = status_after(None, &report(30, 0), at(0), EVIDENCE_INTERVAL);
        let after = |seconds| status_after(Some(&before), &report(60, 1), at(seconds), EVIDENCE_INTERVAL);
        assert_eq!(after(299), before);
        assert_ne!(after(300), before);
        assert_eq!(after(300).updated, Some(Time(at(300))));
        assert_ne!(after(-1), before, "the clock was set back");
    }

    #[test]
    fn newer_evidence_takes_ten_writes_a_second_of_any_number_of_workloads() {
        for (learning, seconds) in [(0, 300), (3000, 300), (10_000, 1000), (100_000, 10_000)] {
            assert_eq!(evidence_interval(learning), Duration::from_secs(seconds), "{learning}");
        }
    }

    #[test]
    fn unchanged_evidence_is_not_written_again() {
        let before = status_after(None, &report(30, 0), at(0), EVIDENCE_INTERVAL);
        let after = status_after(Some(&before), &report(30, 86_400), at(86_400), EVIDENCE_INTERVAL);
        assert_eq!(after, before);
    }

    #[test]
    fn change_of_mode_phase_or_target_is_written_at_once() {
        let before = status_after(None, &report(30, 0), at(0), EVIDENCE_INTERVAL);
        let after = |report| status_after(Some(&before), &report, at(1), evidence_interval(100_000));
        assert_eq!(after(LearningReport { target: 20.1, confidence: 0.9, ..report(31, 1) }), before);
        assert_ne!(after(LearningReport { target: 20.3, ..report(31, 1) }), before);
        assert_ne!(after(LearningReport { phase: Phase::Exploring, ..report(31, 1) }), before);
        assert_ne!(after(LearningReport { mode: LearnTarget::Apply, ..report(31, 1) }), before);
    }

    #[test]
    fn event_states_both_targets_and_the_evidence() {
        let learned = status_after(None, &report(30, 0), at(0), EVIDENCE_INTERVAL);
        let note = note(&learned, 20.0, 7.5);
        let expected = "the learned target, which is in force, changed from 20 to 7500m: 30 seconds; ";
        assert!(note.starts_with(expected), "{note}");
    }
}
