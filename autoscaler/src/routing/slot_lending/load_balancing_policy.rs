//! In which order pods are filled, by the container concurrency, as in Knative.

use std::num::NonZeroU32;

/// Largest container concurrency for which the first free pod is taken.
const FIRST_AVAILABLE_UP_TO: u32 = 3;

/// Which of the free slots is taken next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancingPolicy {
    /// The first in order of pods, so that few are kept warm and a limit of 1 never meets a busy one.
    FirstAvailable,
    /// One pod after the other, so that none fills up while others idle.
    RoundRobin,
}

// === impl LoadBalancingPolicy ===

impl LoadBalancingPolicy {
    /// The order for a container concurrency.
    pub fn of_container_concurrency(value: NonZeroU32) -> Self {
        if value.get() <= FIRST_AVAILABLE_UP_TO { Self::FirstAvailable } else { Self::RoundRobin }
    }
}
