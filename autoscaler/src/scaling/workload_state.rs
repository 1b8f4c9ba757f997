//! The state of a workload: Active, Reserve or Retired.
//!
//! ```text
//!               pods wanted                          annotation reachability: Unreachable
//!   Reserve ◄───────────────► Active      either ◄──────────────────────────────────────► Retired
//!               at zero
//! ```
//!
//! Input: the annotation `reachability`, the size of the target and the decision. Output:
//! `status.state` of the PodAutoscaler. [`Reachability`] lists what `Unreachable` changes.

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Reachability;

/// Whether a workload serves requests. Active: requests can arrive, and there are pods or some are
/// wanted. Reserve: at zero until the next request. Retired: no route leads to the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum WorkloadState {
    /// Requests can arrive, and there are pods or some are wanted.
    Active,
    /// At zero; the next request scales it up.
    Reserve,
    /// No route leads to the workload.
    Retired,
}

// === impl WorkloadState ===

impl WorkloadState {
    /// The state of a workload of this size. `wanted` is `None` without a decision; then only the
    /// size counts.
    pub fn of(reachability: Reachability, replicas: u32, wanted: Option<u32>) -> Self {
        match (reachability, replicas, wanted) {
            (Reachability::Unreachable, _, _) => Self::Retired,
            (Reachability::Reachable, 0, None | Some(0)) => Self::Reserve,
            (Reachability::Reachable, _, _) => Self::Active,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Reachability::{Reachable, Unreachable};

    #[test]
    fn is_reserve_only_at_zero_without_wanted_pods() {
        for (reachability, replicas, wanted, state) in [
            (Reachable, 0, None, WorkloadState::Reserve),
            (Reachable, 0, Some(0), WorkloadState::Reserve),
            (Reachable, 0, Some(1), WorkloadState::Active),
            (Reachable, 1, None, WorkloadState::Active),
            // In the scale-to-zero sequence, with its pods still there.
            (Reachable, 1, Some(0), WorkloadState::Active),
            (Reachable, 1, Some(1), WorkloadState::Active),
            (Unreachable, 0, None, WorkloadState::Retired),
            (Unreachable, 0, Some(0), WorkloadState::Retired),
            (Unreachable, 0, Some(1), WorkloadState::Retired),
            (Unreachable, 1, None, WorkloadState::Retired),
            (Unreachable, 1, Some(0), WorkloadState::Retired),
            (Unreachable, 1, Some(1), WorkloadState::Retired),
        ] {
            assert_eq!(
                WorkloadState::of(reachability, replicas, wanted),
                state,
                "{reachability:?} {replicas} {wanted:?}"
            );
        }
    }
}
