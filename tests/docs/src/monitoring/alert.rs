//! The alerts, from a PrometheusRule.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_yaml_ng::Value;

const MANIFEST: &str = "deploy/monitoring/alerts.yaml";

#[derive(Clone, Debug, Deserialize)]
pub struct Alert {
    /// Name, also of its section in the reference.
    #[serde(rename = "alert")]
    pub name: String,
    /// Condition, in PromQL.
    pub expr: String,
    /// Labels in addition to the expression's.
    pub labels: BTreeMap<String, String>,
    /// Texts; templates with the alert's labels.
    pub annotations: BTreeMap<String, String>,
}

/// The alerts, in their order.
///
/// # Errors
/// When the manifest cannot be read.
pub fn alerts(root: &Path) -> Result<Vec<Alert>> {
    let spec = spec(root)?;
    let groups = list(&spec, "groups").context("no groups")?;
    let rules = groups.iter().filter_map(|group| list(group, "rules")).flatten();
    rules.map(|rule| Ok(serde_yaml_ng::from_value(rule.clone())?)).collect()
}

/// The text of a rule file of Prometheus with all alerts.
///
/// # Errors
/// When the manifest cannot be read.
pub fn rule_file(root: &Path) -> Result<String> {
    Ok(serde_yaml_ng::to_string(&spec(root)?)?)
}

fn spec(root: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(root.join(MANIFEST)).context(MANIFEST)?;
    let manifest: Value = serde_yaml_ng::from_str(&text)?;
    manifest.get("spec").cloned().context("no spec")
}

fn list<'a>(value: &'a Value, key: &str) -> Option<&'a Vec<Value>> {
    value.get(key)?.as_sequence()
}
