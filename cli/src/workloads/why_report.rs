//! WhyReport: the metrics-adapter's report on the decisions of one workload.

use autoscaler::Key;
use autoscaler::contract::quantity::parse_milli;
use serde::{Deserialize, Serialize};

use crate::connection::Session;
use crate::error::CommandError;

/// Format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For programs.
    Json,
    /// For reading.
    Text,
}

/// The parts of a report that the commands use. Others are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyReport {
    /// The workload's Service.
    pub service: String,
    /// The measured metric.
    pub metric: String,
    /// Its value as the HPA reads it, as a quantity; absent without data.
    #[serde(default)]
    pub value: Option<String>,
    /// Why there is no value.
    #[serde(default)]
    pub missing: Option<String>,
    /// The value that one pod should carry, as a quantity.
    pub target: String,
    pub pods: PodCounts,
    pub activators: u32,
    /// The last decisions, the newest at one end.
    #[serde(default)]
    pub decisions: Vec<ReportedDecision>,
}

/// Numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodCounts {
    /// Ready pods.
    pub ready: u32,
    /// All pods.
    pub existing: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedDecision {
    /// When it was made.
    pub at: jiff::Timestamp,
    /// Pods wanted; absent without data.
    #[serde(default)]
    pub desired: Option<u32>,
    /// Whether panic mode is on.
    #[serde(default)]
    pub panicking: bool,
    /// Average over the stable window; absent without data.
    #[serde(default)]
    pub stable: Option<f64>,
    /// The value that one pod should carry, by which the decision divided.
    pub target: f64,
    /// Since when there is no request.
    #[serde(default)]
    pub idle_since: Option<jiff::Timestamp>,
}

// === impl WhyReport ===

impl WhyReport {
    pub fn newest(&self) -> Option<&ReportedDecision> {
        self.decisions.iter().max_by_key(|decision| decision.at)
    }

    /// The load: the newest average without the guards that the HPA's value has.
    pub fn load(&self) -> Option<f64> {
        self.newest()?.stable
    }

    /// The target in force, which may be a learned one; before any decision the user's. `None` if
    /// that is not a quantity.
    pub fn target(&self) -> Option<f64> {
        let given = || parse_milli(&self.target).ok().map(|milli| milli as f64 / 1000.0);
        self.newest().map(|decision| decision.target).or_else(given)
    }
}

/// Requests the report of a workload through the aggregated API.
///
/// # Errors
/// When the request fails.
pub async fn request(session: &Session, key: &Key, format: Format) -> Result<String, CommandError> {
    let Key { namespace, name } = key;
    let query = if format == Format::Text { "?format=text" } else { "" };
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/why/{name}{query}");
    let request = http::Request::get(path)
        .body(Vec::new())
        .map_err(|_| CommandError::Argument(format!("{key} is not the name of a workload")))?;
    let response = session.client.request_text(request).await;
    response.map_err(|error| CommandError::request(format!("why {key}"), error))
}
