//! PodDisruptionBudgets that let no pod of the workload be evicted at its smallest size above zero.
//!
//! The drain of a node then waits until the workload is larger, or at zero.

use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::service::text_of;
use crate::check::finding::Finding;
use crate::check::selection::matches;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let labels = workload.pod_labels()?;
    let smallest = smallest_size(workload);
    let budgets = workload.namespace.disruption_budgets.iter().filter(|budget| {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| matches(selector, labels))
    });
    let (budget, bound) = budgets.filter_map(|budget| Some((budget, blocking(budget, smallest)?))).next()?;
    let pods = if smallest == 1 { "one pod" } else { "its smallest size" };
    let problem = format!(
        "with {bound} no pod can be evicted while {} has {pods}, so the drain of a node waits for another size",
        workload.target_name()
    );
    let object = format!("PodDisruptionBudget {}/{}", workload.key.namespace, budget.name_any());
    Some(Finding::warning(object, CheckReason::EvictionBlocked, problem))
}

/// Without an own bound an HPA has one replica.
fn smallest_size(workload: &WorkloadObjects) -> i32 {
    let of_autoscaler = workload.autoscaler.as_ref().and_then(|it| it.spec.min_replicas);
    let of_hpa = workload.hpa.as_ref().and_then(|hpa| hpa.spec.min_replicas);
    of_hpa.or(of_autoscaler).unwrap_or(1).max(1)
}

/// The bound that allows no eviction at this size, as written.
fn blocking(budget: &PodDisruptionBudget, size: i32) -> Option<String> {
    let spec = budget.spec.as_ref()?;
    let (field, bound, is_blocking) = match (&spec.min_available, &spec.max_unavailable) {
        (Some(least), _) => ("minAvailable", least, pods_of(least, size)? >= i64::from(size)),
        (None, Some(most)) => ("maxUnavailable", most, pods_of(most, size)? <= 0),
        (None, None) => return None,
    };
    is_blocking.then(|| format!("{field}: {}", text_of(bound)))
}

/// The disruption controller rounds both percentages up.
fn pods_of(bound: &IntOrString, size: i32) -> Option<i64> {
    match bound {
        IntOrString::Int(pods) => Some(i64::from(*pods)),
        IntOrString::String(text) => {
            let percent: u16 = text.strip_suffix('%')?.parse().ok()?;
            Some((i64::from(percent) * i64::from(size) + 99) / 100)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_bounds_that_allow_no_eviction_at_a_size() {
        let blocking = |spec: serde_json::Value, size| {
            blocking(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap(), size)
        };
        let found = |text: &str| Some(text.to_owned());
        assert_eq!(blocking(json!({"minAvailable": 1}), 1), found("minAvailable: 1"));
        assert_eq!(blocking(json!({"minAvailable": 1}), 2), None);
        assert_eq!(blocking(json!({"minAvailable": "50%"}), 1), found("minAvailable: 50%"), "rounded up");
        assert_eq!(blocking(json!({"minAvailable": "50%"}), 2), None);
        assert_eq!(blocking(json!({"maxUnavailable": 0}), 5), found("maxUnavailable: 0"));
        assert_eq!(blocking(json!({"maxUnavailable": "1%"}), 5), None, "rounded up");
        assert_eq!(blocking(json!({"maxUnavailable": 1}), 1), None);
        assert_eq!(blocking(json!({"minAvailable": "many"}), 1), None, "the API server refuses it");
    }
}
