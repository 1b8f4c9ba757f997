//! LearningReport: a learned target with its evidence in words, for the decision of its workload.
//!
//! The zero-scaler writes it to the status of the PodAutoscaler, and `why` shows it.

use autoscaler::learning_report::{Checkpoint, FreezeReason, LearningReport, Phase};
use autoscaler::scaling::readable::CompactNumber;
use autoscaler::stats::collection::WindowAverages;
use learning::{LearnedTarget, LearnerState, TargetBasis, TargetBound, WorkloadLearning};

use crate::learning::resources::resource_readings::{ResourceStatus, ResourceUsage};

/// The report of a decision with these averages.
pub(crate) fn report(
    learning: &WorkloadLearning,
    learned: &LearnedTarget,
    averages: Option<WindowAverages>,
    resources: ResourceStatus,
    state: &LearnerState,
) -> LearningReport {
    let load = averages.unwrap_or_default().stable;
    LearningReport {
        mode: learning.mode,
        user_target: learning.spec.user_target,
        target: learned.target,
        backlog: learned.backlog,
        temporary_limit: learned.temporary_limit,
        phase: learned.phase,
        long_requests: learned.long_requests,
        confidence: learned.confidence,
        evidence: evidence(learned, learning, resources, &state.basis(&learning.spec)),
        pods_with_user_target: pods(load, learning.spec.user_target),
        pods_with_target: pods(load, learned.target),
        changes: learned.changes,
        reverts: learned.reverts,
        checkpoint: Checkpoint::of(state),
    }
}

/// Pods that a load needs. 0 where the load is not a number or there is no target.
fn pods(load: f64, target: f64) -> u32 {
    // `as` saturates, and is 0 for NaN.
    if target > 0.0 { (load / target).ceil() as u32 } else { 0 }
}

fn evidence(
    learned: &LearnedTarget,
    learning: &WorkloadLearning,
    resources: ResourceStatus,
    basis: &TargetBasis,
) -> String {
    let reason = reason(learned.phase).map(|reason| format!("{reason}; ")).unwrap_or_default();
    let limited = |limit| format!("a pod gets {limit} requests at a time after a kill for its memory; ");
    let limit = learned.temporary_limit.map(limited).unwrap_or_default();
    let long = if learned.long_requests { "requests take too long to show what a pod carries; " } else { "" };
    let requests = requests(learned, learning.spec.objective.is_some());
    format!("{reason}{limit}{long}{requests}; {}; {}", bounds(basis), usage(resources))
}

/// What the target rests on, in short: `why` has the rest.
fn bounds(basis: &TargetBasis) -> String {
    let known = match (basis.unloaded_time, basis.throughput, basis.room()) {
        (Some(time), Some(throughput), Some(room)) => format!(
            "a request without load takes {:.0} ms and a full pod ends {} a second: room for {} at a time",
            time * 1000.0,
            CompactNumber(throughput),
            CompactNumber(room)
        ),
        (Some(_), ..) => "no requests have waited for each other yet".to_owned(),
        (None, ..) => "the time of a request without load is not known yet".to_owned(),
    };
    let bound = basis.binding.map(|bound| match bound {
        TargetBound::Room => "that room",
        TargetBound::Memory => "the memory",
        TargetBound::Cpu => "the CPU limit",
        TargetBound::TooMuch => "a larger target that was too much",
        TargetBound::ContainerConcurrency => "the container concurrency",
        TargetBound::Factor => "learn-target-factor",
    });
    known + &bound.map(|bound| format!(", bound by {bound}")).unwrap_or_default()
}

/// What the fullest pod uses of its limits, and which rules are off without that.
fn usage(resources: ResourceStatus) -> String {
    let percent = |share: f64| (share * 100.0).round();
    match resources {
        ResourceStatus::Unavailable => {
            "CPU and memory are not available, because metrics.k8s.io (metrics-server) \
                                        is absent or fails: the rules for them are off"
                .to_owned()
        }
        ResourceStatus::Available(ResourceUsage { memory, cpu }) => {
            let memory = memory.map_or_else(
                || "no memory reading of a pod with a memory limit: the memory rule is off".to_owned(),
                |share| format!("memory is at {} % of its limit", percent(share)),
            );
            let cpu = cpu.map(|share| format!(", CPU at {} %", percent(share))).unwrap_or_default();
            memory + &cpu
        }
    }
}

fn requests(learned: &LearnedTarget, has_objective: bool) -> String {
    let LearnedTarget { load, time, misses, requests, .. } = learned;
    if *requests < 1.0 {
        return "no requests at this target yet".to_owned();
    }
    let (milliseconds, percent) = (time * 1000.0, misses * 100.0);
    let missed = if has_objective { "missed the objective" } else { "failed" };
    format!("{requests:.0} requests at {load:.2} a pod took {milliseconds:.0} ms, {percent:.2} % {missed}")
}

/// Why the target does not change.
fn reason(phase: Phase) -> Option<&'static str> {
    Some(match phase {
        Phase::Observing | Phase::Exploring | Phase::Settled => return None,
        Phase::Frozen(FreezeReason::Gap) => "data of the pods are missing",
        Phase::Frozen(FreezeReason::ClockJump) => "the clock was set",
        Phase::Frozen(FreezeReason::OldSidecars) => "sidecars do not report the times of requests",
        Phase::Frozen(FreezeReason::FailedRequests) => "more than 2 % of the requests fail",
        Phase::Frozen(FreezeReason::ServiceTimeChanged) => {
            "requests take longer at the same load: a slow dependency, or other requests"
        }
        Phase::Frozen(FreezeReason::NotConcurrency) => "a lower target made responses no faster",
        Phase::Reverted => "the learned target cost more pods, or missed the objective more",
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use autoscaler::settings::LearnTarget;
    use learning::Learner;

    use super::*;

    fn learned() -> LearnedTarget {
        LearnedTarget {
            target: 8.0,
            backlog: 1.0,
            temporary_limit: None,
            phase: Phase::Settled,
            long_requests: false,
            confidence: 1.0,
            changes: 3,
            reverts: 1,
            load: 7.9,
            time: 0.1204,
            misses: 0.0321,
            requests: 5000.4,
        }
    }

    fn report_of(learned: &LearnedTarget, stable: f64) -> LearningReport {
        let workload = crate::watches::workloads::Workload::learning("web", LearnTarget::Apply, 20.0);
        let learning = workload.learning.unwrap();
        let averages = Some(WindowAverages { stable, panic: 0.0 });
        let state = Learner::new(learning.spec, 0).state(Duration::ZERO);
        let resources = ResourceStatus::Available(ResourceUsage { memory: Some(0.612), cpu: None });
        report(&learning, learned, averages, resources, &state)
    }

    #[test]
    fn report_has_pods_of_both_targets_and_the_evidence() {
        let report = report_of(&learned(), 160.0);
        assert_eq!((report.pods_with_user_target, report.pods_with_target), (8, 20));
        assert_eq!(
            report.evidence,
            "5000 requests at 7.90 a pod took 120 ms, 3.21 % missed the objective; the time of a request without load \
             is not known yet, bound by learn-target-factor; memory is at 61 % of its limit"
        );
        assert_eq!(report_of(&learned(), f64::NAN).pods_with_target, 0);
        assert_eq!(report_of(&learned(), f64::INFINITY).pods_with_target, u32::MAX);
    }

    #[test]
    fn evidence_of_an_unchanged_target_begins_with_the_reason() {
        for (phase, reason) in [
            (Phase::Frozen(FreezeReason::Gap), "data of the pods are missing"),
            (Phase::Frozen(FreezeReason::ClockJump), "the clock was set"),
            (Phase::Frozen(FreezeReason::OldSidecars), "sidecars do not report the times of requests"),
            (Phase::Frozen(FreezeReason::FailedRequests), "more than 2 % of the requests fail"),
            (Phase::Frozen(FreezeReason::NotConcurrency), "a lower target made responses no faster"),
            (Phase::Reverted, "the learned target cost more pods, or missed the objective more"),
        ] {
            let evidence = report_of(&LearnedTarget { phase, requests: 0.0, ..learned() }, 1.0).evidence;
            assert!(
                evidence.starts_with(&format!("{reason}; no requests at this target yet; ")),
                "{evidence}"
            );
        }
    }

    #[test]
    fn evidence_states_the_limit_after_a_kill() {
        let evidence = report_of(&LearnedTarget { temporary_limit: Some(4), ..learned() }, 1.0).evidence;
        let limit =
            "a pod gets 4 requests at a time after a kill for its memory; 5000 requests at 7.90 a pod";
        assert!(evidence.starts_with(limit), "{evidence}");
    }

    #[test]
    fn evidence_states_that_requests_are_too_long() {
        let report = report_of(&LearnedTarget { long_requests: true, requests: 0.0, ..learned() }, 1.0);
        assert!(report.long_requests);
        let long = "requests take too long to show what a pod carries; no requests at this target yet; ";
        assert!(report.evidence.starts_with(long), "{}", report.evidence);
    }

    #[test]
    fn usage_states_which_rules_are_off() {
        let unavailable = usage(ResourceStatus::Unavailable);
        assert!(unavailable.contains("(metrics-server) is absent or fails: the rules for them are off"));
        let available = |memory, cpu| usage(ResourceStatus::Available(ResourceUsage { memory, cpu }));
        assert_eq!(available(Some(0.0), Some(1.204)), "memory is at 0 % of its limit, CPU at 120 %");
        let off = "no memory reading of a pod with a memory limit: the memory rule is off";
        assert_eq!(available(None, None), off);
        assert_eq!(available(None, Some(0.35)), format!("{off}, CPU at 35 %"));
    }
}
