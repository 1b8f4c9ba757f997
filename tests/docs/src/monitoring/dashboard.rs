//! Dashboards of Grafana: their panels, and the queries of these.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::page::files;

const FOLDER: &str = "deploy/monitoring/dashboards";
/// Functions of Grafana in the queries of variables, with the metric as the first argument.
const LABEL_VALUES: &str = "label_values(";

/// A dashboard, as far as the tests read it.
#[derive(Clone, Debug, Deserialize)]
pub struct Dashboard {
    /// Identifier in URLs.
    pub uid: String,
    /// Title, as lists of dashboards show it.
    pub title: String,
    /// Panels, in their order.
    pub panels: Vec<Panel>,
    templating: Templating,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Panel {
    /// Number, unique in the dashboard.
    pub id: u32,
    pub title: String,
    /// What the values are.
    #[serde(default)]
    pub description: String,
    /// Queries.
    pub targets: Vec<Target>,
}

/// A query of a panel.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// PromQL, with variables of the dashboard.
    pub expr: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Templating {
    list: Vec<Variable>,
}

#[derive(Clone, Debug, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    definition: String,
}

/// The dashboards, by file name.
///
/// # Errors
/// When one cannot be read.
pub fn dashboards(root: &Path) -> Result<Vec<Dashboard>> {
    let mut paths = files(root, Path::new(FOLDER))?;
    paths.sort();
    let read = |path: &Path| -> Result<Dashboard> {
        let text = std::fs::read_to_string(root.join(path))?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    };
    paths.iter().map(|path| read(path)).collect()
}

// === impl Dashboard ===

impl Dashboard {
    /// The names of its variables.
    pub fn variables(&self) -> Vec<&str> {
        self.templating.list.iter().map(|variable| variable.name.as_str()).collect()
    }

    /// The selectors and labels from which its variables get their values: `metric{...}`, `label`.
    pub fn variable_sources(&self) -> Vec<(&str, &str)> {
        let definitions = self.templating.list.iter().map(|variable| variable.definition.as_str());
        let arguments = definitions.filter_map(|definition| definition.strip_prefix(LABEL_VALUES));
        arguments.filter_map(|arguments| arguments.trim_end_matches(')').rsplit_once(", ")).collect()
    }
}
