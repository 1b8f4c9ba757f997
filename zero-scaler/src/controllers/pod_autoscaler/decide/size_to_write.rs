//! SizeToWrite: a size with the cause of its write, which conditions, events and metrics report.

/// A size to write, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeToWrite {
    pub(crate) to: i32,
    pub(crate) cause: WriteCause,
}

/// Cause of a write of the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteCause {
    /// No requests for the stable window.
    Idle,
    /// The decider wants pods, and the workload has none.
    Wanted,
    /// The workload may not be at zero.
    NotAllowed,
    /// The workload's schedule requires pods.
    Scheduled,
    /// No activator can hold requests.
    NoActivator,
    /// The decider panics: written ahead of the HPA.
    Panic,
    /// The workload has no HPA.
    Direct,
    /// All pods are on nodes that do not respond.
    UnresponsiveNode,
}

// === impl WriteCause ===

impl WriteCause {
    /// Label value of metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Wanted => "wanted",
            Self::NotAllowed => "scale_to_zero_disabled",
            Self::Scheduled => "schedule",
            Self::NoActivator => "no_activator",
            Self::Panic => "panic",
            Self::Direct => "direct",
            Self::UnresponsiveNode => "unresponsive_node",
        }
    }
}
