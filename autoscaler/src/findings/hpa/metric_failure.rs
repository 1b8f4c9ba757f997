//! A metric that the HPA controller cannot read: it keeps the HPA from scaling down. Pure.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition};

use crate::findings::Problem;
use crate::findings::reasons::Reason;

/// Seconds for which the HPA controller may fail: new pods have no resource metrics yet.
const TRANSIENT: u64 = 60;
/// The condition of an HPA that is at zero. It reads no metric then.
const SCALING_DISABLED: &str = "ScalingDisabled";

/// Whether a condition of an HPA reports a metric that cannot be read.
pub fn is_metric_failure(condition: &HorizontalPodAutoscalerCondition) -> bool {
    condition.type_ == "ScalingActive"
        && condition.status == "False"
        && condition.reason.as_deref() != Some(SCALING_DISABLED)
}

/// The problem of an HPA with a metric that its controller could not read for a minute, at `now` in
/// Unix seconds; or the time until the minute is over.
pub fn metric_failure(hpa: &HorizontalPodAutoscaler, now: i64) -> Option<Result<Problem, Duration>> {
    let condition = hpa.status.as_ref()?.conditions.iter().flatten().find(|it| is_metric_failure(it))?;
    let since = condition.last_transition_time.as_ref().map_or(0, |time| time.0.as_second());
    let lasted = u64::try_from(now.saturating_sub(since)).unwrap_or(0);
    if let Some(rest) = TRANSIENT.checked_sub(lasted).filter(|rest| *rest > 0) {
        return Some(Err(Duration::from_secs(rest)));
    }
    let usual = [Reason::FailedGetExternalMetric, Reason::FailedGetResourceMetric];
    let reason = usual.into_iter().find(|reason| condition.reason.as_deref() == Some(reason.as_str()));
    let cause = condition.message.as_deref().unwrap_or("no message");
    let own = condition.reason.as_deref().unwrap_or_default();
    let problem = format!("a metric of the HPA cannot be read, so it does not scale down: {own}: {cause}");
    Some(Ok(Problem::with_usual_fix(reason.unwrap_or(Reason::FailedGetMetric), problem)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failure(status: &str, reason: &str, seconds_ago: i64) -> Option<Result<Problem, Duration>> {
        let now = 1_800_000_000;
        let since = jiff::Timestamp::from_second(now - seconds_ago).unwrap();
        let hpa = json!({"spec": {"maxReplicas": 1, "scaleTargetRef": {"kind": "a", "name": "b"}},
            "status": {"desiredReplicas": 1, "conditions": [{"type": "ScalingActive", "status": status,
                "reason": reason, "message": "no metrics for cpu", "lastTransitionTime": since.to_string()}]}});
        metric_failure(&serde_json::from_value(hpa).unwrap(), now)
    }

    #[test]
    fn names_the_metric_that_keeps_the_hpa_from_scaling_down() {
        for (reason, expected) in [
            ("FailedGetResourceMetric", Reason::FailedGetResourceMetric),
            ("FailedGetExternalMetric", Reason::FailedGetExternalMetric),
            ("FailedGetPodsMetric", Reason::FailedGetMetric),
        ] {
            let problem = failure("False", reason, 60).unwrap().unwrap();
            assert_eq!(problem.reason, expected);
            assert!(problem.problem.ends_with(&format!("{reason}: no metrics for cpu")), "{problem:?}");
        }
        let young = Some(Err(Duration::from_secs(1)));
        assert_eq!(failure("False", "FailedGetResourceMetric", 59), young, "pods may be new");
        assert_eq!(failure("False", "ScalingDisabled", 61), None, "it is at zero");
        assert_eq!(failure("True", "ValidMetricFound", 61), None);
    }
}
