//! Selects the pod for a request to a workload without a container concurrency.
//!
//! Power of two random choices, as in Knative, and the nearer one if both are equally busy. It
//! spreads load well although this activator sees only its own requests, and other activators send
//! to the same pods.
//!
//! Nearness only decides between the two, because activators that are near the same pod see each
//! other's requests as little: if each chose the nearest of all, little load of each would meet on
//! that pod. So no pod gets more than twice its part.

use std::cmp::Ordering;
use std::sync::Arc;

use rand::{Rng, RngExt};

use crate::pods::pod_tracker::PodTracker;

/// The one of two random `pods` with fewer requests from this activator, or the nearer one; `None`
/// without pods.
pub fn less_busy<'a>(pods: &'a [Arc<PodTracker>], random: &mut impl Rng) -> Option<&'a Arc<PodTracker>> {
    if pods.len() < 2 {
        return pods.first();
    }
    // Which of the two comes first is random as well, so a tie favours neither.
    let one = random.random_range(0..pods.len());
    let step = random.random_range(1..pods.len());
    let (one, other) = (pods.get(one)?, pods.get((one + step) % pods.len())?);
    let is_better = match other.in_flight().cmp(&one.in_flight()) {
        Ordering::Equal => other.proximity > one.proximity,
        order => order.is_lt(),
    };
    Some(if is_better { other } else { one })
}

#[cfg(test)]
mod tests {
    use autoscaler::routing::proximity::Proximity;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use tokio::time::Instant;

    use crate::workloads::{PodEndpoint, PodRoute};

    use super::*;

    fn pods(proximities: [Proximity; 4]) -> Vec<Arc<PodTracker>> {
        let pod = |(i, proximity): (u8, Proximity)| {
            let (uid, ip, route) =
                (i.to_string(), [10, 0, 0, i].into(), PodRoute::QueueProxy(Default::default()));
            let endpoint =
                PodEndpoint { uid, ip, proximity, ready: true, draining: false, route, probe: None };
            Arc::new(PodTracker::new(endpoint, Instant::now()))
        };
        (1..).zip(proximities).map(pod).collect()
    }

    #[test]
    fn spreads_requests_evenly_however_near_pods_are() {
        use Proximity::{Elsewhere, SameNode, SameZone};
        for proximities in [[Elsewhere; 4], [SameNode, Elsewhere, SameZone, Elsewhere]] {
            let (pods, mut random) = (pods(proximities), StdRng::seed_from_u64(7));
            for _ in 0..400 {
                less_busy(&pods, &mut random).unwrap().enter();
            }
            for pod in &pods {
                assert!((90..=110).contains(&pod.in_flight()), "{} of 400 on {}", pod.in_flight(), pod.uid);
            }
            assert!(less_busy(&[], &mut random).is_none());
        }
    }

    /// Each request ends before the next one.
    #[test]
    fn near_pod_gets_twice_its_part_of_requests_to_idle_pods() {
        use Proximity::{Elsewhere, SameNode, SameZone};
        let (pods, mut random) = (pods([Elsewhere, SameNode, SameZone, Elsewhere]), StdRng::seed_from_u64(7));
        let mut counts = [0; 4];
        for _ in 0..4000 {
            let chosen = less_busy(&pods, &mut random).unwrap();
            let at = pods.iter().position(|pod| Arc::ptr_eq(pod, chosen)).unwrap();
            counts[at] += 1;
        }
        // Of the six pairs, three have the first choice, two of the others the second.
        for (count, pairs) in counts.into_iter().zip([0.5, 3.0, 2.0, 0.5]) {
            let expected = 4000.0 * pairs / 6.0;
            assert!((f64::from(count) - expected).abs() < 150.0, "{counts:?}");
        }
    }
}
