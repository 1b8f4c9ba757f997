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
    /// There are pods without sidecar, and not all activators reported.
    #[error(
        "not all activators reported within {}s, and its pods have no sidecar ({existing} pods, {ready} ready), so \
         its requests cannot be counted",
        window.as_secs()
    )]
    NoActivatorReports {
        /// Pods that are not terminated.
        existing: usize,
        /// Ready pods.
        ready: usize,
        /// The stable window.
        window: Duration,
    },
    /// Requests reach pods without sidecar past the activators.
    #[error(
        "its requests reach its pods past the activators, and the pods have no sidecar, so they are not counted; see \
         the condition Ready of its PodAutoscaler"
    )]
    Bypassed,
    /// A pause keeps a size that the zero-scaler has not reported.
    #[error("the annotation paused keeps its size, which is not in the status of its PodAutoscaler yet")]
    SizeNotReported,
    /// There are no pods, and no activator that could hold requests.
    #[error("it has no pods and no activator is connected, so held requests cannot be counted")]
    NoActivator,
    /// There are no pods, and idleness is not confirmed yet.
    #[error("it has no pods, and activators have not reported it as idle for long enough yet")]
    NotYetIdle,
}
