//! Advice on the `behavior` of an HPA that is accepted but scales late or not at all. Pure.

use k8s_openapi::api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerSpec,
};

use crate::contract::quantity::parse_milli;
use crate::findings::Problem;
use crate::findings::reasons::Reason;

/// Pods from which on the HPA's defaults matter. A tolerance of 10 % keeps no whole pod of fewer,
/// and what it adds to the load of each is within the target utilization; five minutes before a
/// scale-down cost little more than a stable window.
const DEFAULTS_MATTER_FROM: i32 = 10;

/// All advice on the behavior of an HPA whose workload may go to zero or not, the most important
/// first.
pub(super) fn behavior_advice(hpa: &HorizontalPodAutoscaler, scale_to_zero: bool) -> Vec<Problem> {
    let spec = &hpa.spec;
    let disabled = disabled_direction(spec, scale_to_zero);
    let delays = delays(spec).filter(|_| size(hpa) >= DEFAULTS_MATTER_FROM);
    only_percent_policies(spec).into_iter().chain(disabled).chain(delays).collect()
}

/// The largest size that the HPA has at present, wants, or never leaves.
fn size(hpa: &HorizontalPodAutoscaler) -> i32 {
    let seen = hpa.status.as_ref().map(|it| it.desired_replicas.max(it.current_replicas.unwrap_or(0)));
    seen.unwrap_or(0).max(hpa.spec.min_replicas.unwrap_or(1))
}

/// Down matters for zero alone: the HPA has to reach minReplicas first.
fn disabled_direction(spec: &HorizontalPodAutoscalerSpec, scale_to_zero: bool) -> Option<Problem> {
    let behavior = spec.behavior.as_ref()?;
    let is_disabled = |rules: &Option<HPAScalingRules>| {
        rules.as_ref().is_some_and(|rules| rules.select_policy.as_deref() == Some("Disabled"))
    };
    let problem = |direction: &str, effect: &str| {
        let problem = format!("behavior.{direction} has selectPolicy: Disabled, so {effect}");
        Problem::new(Reason::ScalingDisabled, problem, format!("remove selectPolicy of behavior.{direction}"))
    };
    if is_disabled(&behavior.scale_up) {
        return Some(problem("scaleUp", "pods are added in a panic alone"));
    }
    (is_disabled(&behavior.scale_down) && scale_to_zero).then(|| {
        problem("scaleDown", "the workload never gets back to minReplicas, from which it goes to zero")
    })
}

/// A percentage of 0 pods is 0, so such an HPA never leaves zero.
fn only_percent_policies(spec: &HorizontalPodAutoscalerSpec) -> Option<Problem> {
    let rules = spec.behavior.as_ref()?.scale_up.as_ref()?;
    let policies = rules.policies.as_ref()?;
    let is_stuck = spec.min_replicas == Some(0)
        && !policies.is_empty()
        && policies.iter().all(|policy| policy.type_ == "Percent");
    is_stuck.then(|| {
        Problem::new(
            Reason::OnlyPercentPolicies,
            "minReplicas is 0 and spec.behavior.scaleUp has only Percent policies, so the HPA cannot leave zero",
            "add a policy of type: Pods, or set minReplicas: 1 and the annotation scale-to-zero",
        )
    })
}

fn delays(spec: &HorizontalPodAutoscalerSpec) -> Option<Problem> {
    let Some(behavior) = &spec.behavior else {
        return Some(Problem::new(
            Reason::BehaviorMissing,
            "without spec.behavior the HPA waits 5 minutes before it scales down and ignores changes up to \
             10 %",
            "set behavior.scaleUp and behavior.scaleDown with stabilizationWindowSeconds: 0 and tolerance: \
             \"0\"",
        ));
    };
    let is_zero = |rules: &Option<HPAScalingRules>| {
        let tolerance = rules.as_ref().and_then(|rules| rules.tolerance.as_ref());
        tolerance.is_some_and(|tolerance| parse_milli(&tolerance.0) == Ok(0))
    };
    let directions = [("scaleUp", &behavior.scale_up), ("scaleDown", &behavior.scale_down)];
    let without: Vec<&str> =
        directions.into_iter().filter(|(_, rules)| !is_zero(rules)).map(|(direction, _)| direction).collect();
    (!without.is_empty()).then(|| {
        Problem::new(
            Reason::ToleranceNotZero,
            format!(
                "spec.behavior.{} has no tolerance: \"0\", so the HPA ignores changes up to the cluster's \
                 tolerance (10 % by default)",
                without.join(" and spec.behavior.")
            ),
            "set it (Kubernetes 1.35 and later keep the field)",
        )
    })
}
