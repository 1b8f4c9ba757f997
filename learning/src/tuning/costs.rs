//! Numbers of the comparison with the user's target.

use std::time::Duration;

/// Time over which costs are compared. Chosen, untested.
pub(crate) const SPAN: Duration = Duration::from_secs(3600);
/// Accepted pods over those of the user's target. Chosen, untested.
pub(crate) const ACCEPTED_PODS: f64 = 1.10;
/// Accepted misses over the budget, as a share of requests. Chosen, untested.
pub(crate) const ACCEPTED_MISSES: f64 = 0.005;
