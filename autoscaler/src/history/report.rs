//! Reports of histories, as the metrics API returns them and `kubectl rouse ui` reads them.

use serde::{Deserialize, Serialize};

use super::{Sample, Wake};

/// The last hour of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryReport {
    /// The metric of the loads and targets.
    pub metric: String,
    /// The wall clock of the reporting process, in Unix milliseconds.
    pub now: i64,
    /// Length of each sample's interval, in milliseconds.
    pub interval_ms: i64,
    /// The samples, the oldest first. Intervals without data are absent.
    pub samples: Vec<TimedSample>,
    /// The wakes, the newest last.
    pub wakes: Vec<Wake>,
}

/// A sample and the beginning of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimedSample {
    /// Unix milliseconds.
    pub at: i64,
    #[serde(flatten)]
    pub sample: Sample,
}

/// The present state of many workloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CurrentSamples {
    /// One for each workload that was decided on, by namespace and name.
    pub workloads: Vec<CurrentSample>,
}

/// The present state of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurrentSample {
    pub namespace: String,
    pub name: String,
    /// The metric of the load and the target.
    pub metric: String,
    /// Its newest sample.
    #[serde(flatten)]
    pub sample: Sample,
    /// Why there is no load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}
