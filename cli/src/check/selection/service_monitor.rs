//! ServiceMonitor: the Services that Prometheus scrapes by an object of prometheus-operator.
//!
//! Input: objects of `monitoring.coreos.com`, which many clusters do not have, from
//! `read_namespace`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::{DynamicObject, GroupVersionKind};
use serde_json::Value;

use super::{Labels, matches};

const KIND: &str = "ServiceMonitor";

#[derive(Clone, Debug, PartialEq)]
pub struct ServiceMonitor {
    /// Its kind and name.
    pub object: String,
    selector: LabelSelector,
    /// The namespaces that it names, or its own; `None` for all.
    namespaces: Option<Vec<String>>,
}

/// The kind of the objects.
pub fn kind() -> GroupVersionKind {
    GroupVersionKind::gvk("monitoring.coreos.com", "v1", KIND)
}

// === impl ServiceMonitor ===

impl ServiceMonitor {
    /// `None` if it has no valid selector.
    pub fn new(object: &DynamicObject) -> Option<Self> {
        let own = object.namespace().unwrap_or_default();
        let selector = serde_json::from_value(object.data.pointer("/spec/selector")?.clone()).ok()?;
        let of_any = object.data.pointer("/spec/namespaceSelector/any").and_then(Value::as_bool);
        let names = object.data.pointer("/spec/namespaceSelector/matchNames").and_then(Value::as_array);
        let names = names.map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        let names = names.filter(|names: &Vec<String>| !names.is_empty());
        Some(Self {
            object: format!("{KIND} {own}/{}", object.name_any()),
            selector,
            namespaces: (of_any != Some(true)).then(|| names.unwrap_or_else(|| vec![own])),
        })
    }

    /// Whether it selects Services of this namespace.
    pub fn is_for(&self, namespace: &str) -> bool {
        self.namespaces.as_ref().is_none_or(|names| names.iter().any(|name| name == namespace))
    }

    /// Whether it selects a Service with these labels, in a namespace that it is for.
    pub fn selects(&self, labels: &Labels) -> bool {
        matches(&self.selector, labels)
    }
}
