//! Numbers of the comparison with the user's target.

use std::time::Duration;

/// Comparison of costs with the user's target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CostTuning {
    /// Time over which costs are compared. Chosen, untested.
    pub(crate) span: Duration,
    /// Accepted pods over those of the user's target. Chosen, untested.
    pub(crate) accepted_pods: f64,
    /// Accepted misses over the budget, as a share of requests. Chosen, untested.
    pub(crate) accepted_misses: f64,
}

impl CostTuning {
    pub(super) const DEFAULT: Self =
        Self { span: Duration::from_secs(3600), accepted_pods: 1.10, accepted_misses: 0.005 };
}
