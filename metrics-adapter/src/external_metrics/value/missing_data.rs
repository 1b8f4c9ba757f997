//! MissingData: why a metric has no value. Users read the text in the HPA's condition.

use std::time::Duration;

/// Why a metric has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingData {
    /// The average is not a finite number.
    #[error("the average is not a finite number")]
    NotANumber,
    /// The first seconds after a start may have the reports of a few pods only.
    #[error("no decision yet; the first one takes two seconds after a start")]
    NoDecision,
    /// The first list of pods has not come yet.
    #[error("the pods are not listed yet")]
    PodsNotListed,
    /// There are pods, and no report.
    #[error(
        "no report from its pods ({existing} with a sidecar, {ready} ready) or from an activator within {}s",
        window.as_secs()
    )]
    NoReports {
        /// Pods with a sidecar that are not terminated.
        existing: usize,
        /// Ready pods.
        ready: usize,
        /// The stable window.
        window: Duration,
    },
    /// There are no pods, and no activator that could hold requests.
    #[error("it has no pods and no activator is connected, so held requests cannot be counted")]
    NoActivator,
    /// There are no pods, and idleness is not confirmed yet.
    #[error("it has no pods, and activators have not reported it as idle for long enough yet")]
    NotYetIdle,
}
