//! Reasons of the HPA's conditions and events, spelled as upstream spells them.

/// The reason that explains the size of one sync best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncReason {
    /// The proposal is used unchanged.
    DesiredWithinRange,
    /// The target is at zero, and the HPA did not scale it there.
    ScalingDisabled,
    /// A metric that the proposal requires could not be read.
    FailedGetExternalMetric,
    /// `spec.replicas` was above `maxReplicas` before the sync.
    AboveMaxReplicas,
    /// `spec.replicas` was below `minReplicas` before the sync.
    BelowMinReplicas,
    /// Raised to `minReplicas`.
    TooFewReplicas,
    /// Lowered to `maxReplicas`.
    TooManyReplicas,
    /// Growth limited by the policies.
    ScaleUpLimit,
    /// Shrinking limited by the policies.
    ScaleDownLimit,
    /// Growth limited by an earlier proposal.
    ScaleUpStabilized,
    /// Shrinking limited by an earlier proposal.
    ScaleDownStabilized,
}
