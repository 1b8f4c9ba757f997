//! PodMonitors, as far as they are scrape configurations of Prometheus.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

const MANIFEST: &str = "deploy/monitoring/pod-monitors.yaml";

#[derive(Clone, Debug, Deserialize)]
pub struct PodMonitor {
    /// Name and namespace.
    pub metadata: Metadata,
    /// What is scraped.
    pub spec: PodMonitorSpec,
}

/// Name and namespace of an object.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    pub name: String,
    /// Namespace; the pods are in it too, unless all namespaces are selected.
    pub namespace: String,
}

/// What is scraped.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodMonitorSpec {
    #[serde(default)]
    pub namespace_selector: NamespaceSelector,
    /// Labels of the pods.
    pub selector: Selector,
    /// Ports of the pods.
    pub pod_metrics_endpoints: Vec<Endpoint>,
}

/// Namespaces of the pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSelector {
    /// All namespaces, and not the PodMonitor's alone.
    #[serde(default)]
    pub any: bool,
}

/// Labels of the pods.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selector {
    /// Labels with one value.
    #[serde(default)]
    pub match_labels: BTreeMap<String, String>,
    /// Labels with one of several values.
    #[serde(default)]
    pub match_expressions: Vec<MatchExpression>,
}

/// A label with one of several values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchExpression {
    /// The label.
    pub key: String,
    /// `In`.
    pub operator: String,
    pub values: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Endpoint {
    /// Name of the container port.
    pub port: String,
    /// Time between scrapes.
    pub interval: String,
    /// Whether labels of a metric replace the target's.
    #[serde(default)]
    pub honor_labels: bool,
    /// Rules for labels of the target, as of Prometheus, with names in camel case.
    #[serde(default)]
    pub relabelings: Vec<BTreeMap<String, Value>>,
}

/// The PodMonitors, in their order.
///
/// # Errors
/// When the manifest cannot be read, or has a field that these types do not have.
pub fn pod_monitors(root: &Path) -> Result<Vec<PodMonitor>> {
    let text = std::fs::read_to_string(root.join(MANIFEST)).context(MANIFEST)?;
    let documents = serde_yaml_ng::Deserializer::from_str(&text);
    documents.map(|document| Ok(PodMonitor::deserialize(document)?)).collect()
}
