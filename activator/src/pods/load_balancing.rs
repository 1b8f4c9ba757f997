//! Selects the pod for a request to a workload without a container concurrency.
//!
//! Power of two random choices, as in Knative. It spreads load well although this activator sees
//! only its own requests, and other activators send to the same pods.

use std::sync::Arc;

use rand::{Rng, RngExt};

use crate::pods::pod_tracker::PodTracker;

/// The one of two random `pods` with fewer requests from this activator; `None` without pods.
pub fn less_busy<'a>(pods: &'a [Arc<PodTracker>], random: &mut impl Rng) -> Option<&'a Arc<PodTracker>> {
    if pods.len() < 2 {
        return pods.first();
    }
    // Which of the two comes first is random as well, so a tie favours neither.
    let one = random.random_range(0..pods.len());
    let step = random.random_range(1..pods.len());
    let (one, other) = (pods.get(one)?, pods.get((one + step) % pods.len())?);
    Some(if other.in_flight() < one.in_flight() { other } else { one })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use tokio::time::Instant;

    use crate::workloads::{PodEndpoint, PodRoute};

    use super::*;

    #[test]
    fn spreads_requests_evenly() {
        let pods: Vec<_> = (1..=4)
            .map(|i| {
                let (uid, ip, route) = (i.to_string(), [10, 0, 0, i].into(), PodRoute::QueueProxy);
                let endpoint = PodEndpoint { uid, ip, ready: true, route, probe: None };
                Arc::new(PodTracker::new(endpoint, Instant::now()))
            })
            .collect();
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..400 {
            less_busy(&pods, &mut random).unwrap().enter();
        }
        for pod in &pods {
            assert!((90..=110).contains(&pod.in_flight()), "{} of 400 on {}", pod.in_flight(), pod.uid);
        }
        assert!(less_busy(&[], &mut random).is_none());
    }
}
