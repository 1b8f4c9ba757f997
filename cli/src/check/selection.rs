//! Selectors of objects: by labels, and [of NetworkPolicies](network_policy).

pub mod network_policy;
pub mod service_monitor;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::SelectorExt;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Whether a selector matches; without requirements it matches everything. An unknown operator
/// matches nothing.
pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    kube::core::Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
}

/// Whether all labels of a Service's selector are among the labels.
pub fn contains(labels: &Labels, selector: &Labels) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn matches_labels_and_expressions() {
        let labels: Labels = [("app".to_owned(), "web".to_owned())].into();
        let selector = |value| -> LabelSelector { serde_json::from_value(value).unwrap() };
        assert!(matches(&selector(json!({})), &labels));
        assert!(matches(&selector(json!({"matchLabels": {"app": "web"}})), &labels));
        assert!(!matches(&selector(json!({"matchLabels": {"app": "api"}})), &labels));
        let absent = json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]});
        assert!(matches(&selector(absent), &labels));
        let other = json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]});
        assert!(!matches(&selector(other), &labels));
    }
}
