//! OwnershipRank: which of several workloads owns a Service or a scale target that all of them
//! name.
//!
//! The order depends on the objects alone, so the zero-scaler, which writes for the owner, and the
//! metrics-adapter, which serves the owner's metric, agree without a message.

use super::PodAutoscaler;
use crate::settings::Settings;

/// The least rank owns the object; of equal ones the least name. Reachable workloads are first,
/// then older ones: the half of a blue-green pair with `reachability: Unreachable` yields, whatever
/// its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnershipRank {
    is_unreachable: bool,
    /// In seconds since the epoch.
    created: i64,
}

// === impl OwnershipRank ===

impl OwnershipRank {
    /// Of a workload that cannot be read.
    pub const LAST: Self = Self { is_unreachable: true, created: i64::MAX };

    /// The rank of a workload with these settings.
    pub fn new(autoscaler: &PodAutoscaler, settings: &Settings) -> Self {
        let created = autoscaler.metadata.creation_timestamp.as_ref();
        Self {
            is_unreachable: !settings.zero.reachability.is_reachable(),
            created: created.map_or(i64::MAX, |created| created.0.as_second()),
        }
    }
}
