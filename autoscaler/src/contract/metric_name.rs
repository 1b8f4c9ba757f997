//! The metric that a workload is scaled on.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The metric that is averaged and divided by the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricName {
    /// Requests in flight, held requests included.
    Concurrency,
    /// Requests that arrive per second. The alias `rps` is the spelling of Knative and of traces.
    #[serde(alias = "rps")]
    RequestsPerSecond,
}

/// Error for a text that is not a metric name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither concurrency nor requests-per-second")]
pub struct ParseMetricNameError(String);

// === impl MetricName ===

impl MetricName {
    /// The name in custom resources and in the metrics API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Concurrency => "concurrency",
            Self::RequestsPerSecond => "requests-per-second",
        }
    }
}

impl FromStr for MetricName {
    type Err = ParseMetricNameError;

    /// Also accepts the alias `rps` of Knative.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "concurrency" => Ok(Self::Concurrency),
            "requests-per-second" | "rps" => Ok(Self::RequestsPerSecond),
            _ => Err(ParseMetricNameError(text.to_owned())),
        }
    }
}
