//! The requests that one pod serves at a time, as the environment of its sidecar states them.
//!
//! The annotation of a pod template becomes this variable when a pod is created, and no part of a
//! running pod can change it. So activators read the limit of each pod from the API, from the
//! moment at which it has an address, and the pods of one workload may differ, as they do while a
//! rollout changes the limit.

use std::num::NonZeroU32;

/// Environment variable of the sidecar.
pub const POD_LIMIT_VARIABLE: &str = "QUEUE_PROXY_CONTAINER_CONCURRENCY";

/// Largest limit that activators and the decider use: that of the field `containerConcurrency`.
pub const MAX_CONTAINER_CONCURRENCY: u32 = 1000;

/// The limit that the variable states; `None` without one. A larger one than
/// [`MAX_CONTAINER_CONCURRENCY`] is enforced by the sidecar alone.
pub fn parse_pod_limit(value: &str) -> Option<NonZeroU32> {
    value.parse().ok().and_then(pod_limit)
}

/// The limit of a sidecar with this configuration; `None` without one that activators use.
pub fn pod_limit(container_concurrency: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(container_concurrency).filter(|limit| limit.get() <= MAX_CONTAINER_CONCURRENCY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_out_of_bounds_is_no_limit() {
        for (value, limit) in [("1", 1), ("1000", 1000)] {
            assert_eq!(parse_pod_limit(value), NonZeroU32::new(limit));
        }
        for value in ["", "0", "1001", "4294967296", "-1", "many", "10 "] {
            assert_eq!(parse_pod_limit(value), None, "{value:?}");
        }
    }
}
