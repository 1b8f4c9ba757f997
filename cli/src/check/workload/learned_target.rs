//! A learned target that does not change any more.

use autoscaler::findings::reasons::CheckReason;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let learning = workload.autoscaler.as_ref()?.status.as_ref()?.learning.as_ref()?;
    let phase = learning.phase.as_deref()?;
    let reason = phase.strip_prefix("Frozen(")?.trim_end_matches(')');
    let fix = fix(reason)?;
    let evidence = learning.message.as_deref().unwrap_or("no evidence yet");
    let problem = format!("the learned target is {phase}: {evidence}");
    let object = format!("PodAutoscaler {}", workload.key);
    Some(Finding::warning(object, CheckReason::TargetFrozen, problem).with_fix(fix))
}

/// `None` where nothing is wrong: without a sidecar nothing is learned, as documented.
fn fix(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "NoSidecar" => return None,
        "Gap" => {
            "let the metrics-adapters reach ports 9090/TCP and 9090/UDP of the pods; it continues a minute \
             after the last gap"
        }
        "ClockJump" => "keep the nodes' clocks in step; it continues a minute after the last step",
        "OldSidecars" => "restart the pods, so that their sidecars have this version of Rouse",
        "FailedRequests" => {
            "correct the app's errors, or annotate a latency-objective, which counts them as misses"
        }
        "ServiceTimeChanged" => {
            "see what slows the app: a dependency, or another mix of requests; after ten minutes old \
             evidence is discarded"
        }
        "NotConcurrency" => {
            "fewer requests at a time do not make responses faster; raise the target, or set learn-target: \
             \"Off\""
        }
        _ => CheckReason::TargetFrozen.fix(),
    })
}
