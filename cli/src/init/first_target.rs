//! The first target of a workload: a number to begin with, until its load was seen.

use autoscaler::contract::CONTAINER_CONCURRENCY;
use autoscaler::contract::quantity::parse_milli;
use serde_json::Value;

use super::object::{items, text};

/// Target without any request for CPU time: 70 % of 100, Rouse's default.
const DEFAULT: i64 = 70;
/// Thousandths of a core for each concurrent request: a core begins with 100.
const MILLICORES_PER_REQUEST: i64 = 10;
/// Bounds of a target from requests.
const BOUNDS: (i64, i64) = (5, 500);

/// A target, and its source as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FirstTarget {
    pub(super) target: i64,
    pub(super) source: String,
    /// The pods' own limit of concurrent requests, for an HPA that has to state it.
    pub(super) limit: Option<i64>,
}

/// From the pods' limit of concurrent requests, else from their requests for CPU time, else the
/// default.
pub(super) fn first_target(template: &Value) -> FirstTarget {
    if let Some(limit) = limit(template) {
        let target = (limit * 7 / 10).max(1);
        let source = format!("target {target}: 70 % of the pods' container-concurrency {limit}");
        return FirstTarget { target, source, limit: Some(limit) };
    }
    let requests = items(template, "/spec/containers")
        .iter()
        .filter_map(|container| parse_milli(text(container, "/resources/requests/cpu")?).ok());
    let millicores: i64 = requests.sum();
    let (target, source) = if millicores > 0 {
        let target = (millicores / MILLICORES_PER_REQUEST).clamp(BOUNDS.0, BOUNDS.1);
        (
            target,
            format!("target {target}: from CPU requests of {millicores}m, 100 concurrent requests to a core"),
        )
    } else {
        (DEFAULT, format!("target {DEFAULT}: the default, because the pods have no CPU requests"))
    };
    let source = format!("{source}; change averageValue to what a pod of yours serves well");
    FirstTarget { target, source, limit: None }
}

fn limit(template: &Value) -> Option<i64> {
    let annotations = template.pointer("/metadata/annotations")?;
    let limit = annotations.get(CONTAINER_CONCURRENCY)?.as_str()?.parse().ok()?;
    (1..=1000).contains(&limit).then_some(limit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn follows_limit_then_requests_then_default() {
        let template = |cpu: &[&str]| {
            let containers: Vec<Value> =
                cpu.iter().map(|cpu| json!({"resources": {"requests": {"cpu": cpu}}})).collect();
            json!({"spec": {"containers": containers}})
        };
        for (cpu, target) in
            [(&["250m"] as &[_], 25), (&["1", "500m"], 150), (&["1m"], 5), (&["64"], 500), (&[], 70)]
        {
            assert_eq!(first_target(&template(cpu)).target, target, "{cpu:?}");
        }
        let mut limited = template(&["1"]);
        limited["metadata"] = json!({"annotations": {"autoscaling.rouse.dev/container-concurrency": "10"}});
        assert_eq!((first_target(&limited).target, first_target(&limited).limit), (7, Some(10)));
    }
}
