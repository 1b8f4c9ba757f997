//! Which pod takes the next request.
//!
//! By the container concurrency, as in Knative: without a limit the less busy of two random pods, which spreads load
//! without knowing all of it; with a small limit the first pod that has a place, so that few pods are kept warm and a
//! limit of 1 never meets a busy one; with a larger limit round robin.

use std::sync::Arc;

use autoscaler::breaker::Permit;
use rand::{Rng, RngExt};

use crate::pod_tracker::PodTracker;

/// Largest container concurrency for which the first free pod is taken.
const FIRST_AVAILABLE_UP_TO: u32 = 3;

/// A way to pick a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LbPolicy {
    /// The one with fewer requests of two at random.
    PowerOfTwoChoices,
    /// The first with a free place, in order of address.
    FirstAvailable,
    /// The next with a free place.
    RoundRobin,
}

// === impl LbPolicy ===

impl LbPolicy {
    /// The policy for a container concurrency.
    pub fn of_container_concurrency(value: u32) -> Self {
        match value {
            0 => Self::PowerOfTwoChoices,
            1..=FIRST_AVAILABLE_UP_TO => Self::FirstAvailable,
            _ => Self::RoundRobin,
        }
    }

    /// Takes a place on one of `pods`, if any has one. `cursor` is where round robin goes on.
    pub fn pick(
        self,
        pods: &[Arc<PodTracker>],
        cursor: &mut usize,
        random: &mut impl Rng,
    ) -> Option<(Arc<PodTracker>, Permit)> {
        match self {
            Self::PowerOfTwoChoices => less_busy(pods, random).and_then(reserve),
            Self::FirstAvailable => pods.iter().find_map(reserve),
            Self::RoundRobin => {
                let start = *cursor % pods.len().max(1);
                let (before, after) = pods.split_at_checked(start)?;
                let (steps, found) =
                    after.iter().chain(before).enumerate().find_map(|(i, pod)| Some((i, reserve(pod)?)))?;
                *cursor = start + steps + 1;
                Some(found)
            }
        }
    }
}

fn reserve(pod: &Arc<PodTracker>) -> Option<(Arc<PodTracker>, Permit)> {
    pod.breaker.try_acquire().map(|permit| (pod.clone(), permit))
}

fn less_busy<'a>(pods: &'a [Arc<PodTracker>], random: &mut impl Rng) -> Option<&'a Arc<PodTracker>> {
    if pods.len() < 2 {
        return pods.first();
    }
    // Which of the two comes first is random as well, so a tie prefers nobody.
    let one = random.random_range(0..pods.len());
    let step = random.random_range(1..pods.len());
    let (one, other) = (pods.get(one)?, pods.get((one + step) % pods.len())?);
    Some(if other.breaker.in_flight() < one.breaker.in_flight() { other } else { one })
}

#[cfg(test)]
mod tests {
    use autoscaler::breaker::Limit;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use tokio::time::Instant;

    use super::*;

    fn pods(count: u8, limit: Limit) -> Vec<Arc<PodTracker>> {
        (1..=count)
            .map(|i| Arc::new(PodTracker::new(i.to_string(), [10, 0, 0, i].into(), limit, Instant::now())))
            .collect()
    }

    /// The uids picked in turn, and their permits.
    fn picks(policy: LbPolicy, pods: &[Arc<PodTracker>], count: usize) -> (Vec<String>, Vec<Permit>) {
        let (mut cursor, mut random) = (0, StdRng::seed_from_u64(7));
        (0..count)
            .filter_map(|_| policy.pick(pods, &mut cursor, &mut random))
            .map(|(pod, permit)| (pod.uid.clone(), permit))
            .unzip()
    }

    #[test]
    fn the_container_concurrency_chooses() {
        let policies = [0, 1, 3, 4].map(LbPolicy::of_container_concurrency);
        use LbPolicy::*;
        assert_eq!(policies, [PowerOfTwoChoices, FirstAvailable, FirstAvailable, RoundRobin]);
    }

    #[test]
    fn first_available_fills_one_after_the_other_and_never_beyond() {
        let pods = pods(2, Limit::AtMost(2));
        let (uids, _permits) = picks(LbPolicy::FirstAvailable, &pods, 5);
        assert_eq!(uids, ["1", "1", "2", "2"]);
    }

    #[test]
    fn round_robin_goes_round_and_skips_the_full() {
        let pods = pods(3, Limit::AtMost(2));
        let _busy = (pods[1].breaker.try_acquire(), pods[1].breaker.try_acquire());
        let (uids, _permits) = picks(LbPolicy::RoundRobin, &pods, 5);
        assert_eq!(uids, ["1", "3", "1", "3"]);
    }

    #[test]
    fn two_choices_spread_evenly() {
        let pods = pods(4, Limit::Unlimited);
        let (uids, _permits) = picks(LbPolicy::PowerOfTwoChoices, &pods, 400);
        for pod in &pods {
            let count = uids.iter().filter(|uid| **uid == pod.uid).count();
            assert!((90..=110).contains(&count), "{count} of 400 on {}", pod.uid);
        }
    }

    #[test]
    fn without_pods_nobody_is_picked() {
        for policy in [LbPolicy::PowerOfTwoChoices, LbPolicy::FirstAvailable, LbPolicy::RoundRobin] {
            assert!(picks(policy, &[], 1).0.is_empty());
        }
    }
}
