//! The metric that a workload is scaled on.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is averaged and divided by the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricName {
    /// Requests in flight or held.
    Concurrency,
    /// Requests that arrive per second. Also accepted: `rps`, the spelling of Knative and of traces.
    #[serde(alias = "rps")]
    RequestsPerSecond,
}

/// A text that names no metric.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither concurrency nor requests-per-second")]
pub struct ParseMetricNameError(String);

// === impl MetricName ===

impl MetricName {
    /// The documented spelling, as in custom resources and in the metrics API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::RequestsPerSecond => "requests-per-second",
        }
    }
}

impl FromStr for MetricName {
    type Err = ParseMetricNameError;

    /// Also reads Knative's spelling `rps`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "concurrency" => Ok(Self::Concurrency),
            "requests-per-second" | "rps" => Ok(Self::RequestsPerSecond),
            _ => Err(ParseMetricNameError(text.to_owned())),
        }
    }
}
