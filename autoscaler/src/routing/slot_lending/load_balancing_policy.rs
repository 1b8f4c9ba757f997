//! Load balancing policy, chosen by container concurrency as in Knative. Among pods that are
//! equally free, nearer ones come first.

use std::num::NonZeroU32;

/// Largest container concurrency with policy `FirstAvailable`.
const FIRST_AVAILABLE_UP_TO: u32 = 3;

/// Order in which free slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancingPolicy {
    /// The first pod with a free slot, of the nearest ones, so that few pods are in use. Small
    /// limits need no spreading, because a pod without a free slot is never selected.
    FirstAvailable,
    /// One pod after the other, so that no pod fills up while others are idle. A nearer pod goes
    /// before its predecessor if it has as many free slots, so that it gets twice its part at most.
    RoundRobin,
}

// === impl LoadBalancingPolicy ===

impl LoadBalancingPolicy {
    /// The policy for a container concurrency.
    pub fn of_container_concurrency(value: NonZeroU32) -> Self {
        if value.get() <= FIRST_AVAILABLE_UP_TO { Self::FirstAvailable } else { Self::RoundRobin }
    }
}
