//! PodSlots: the places on pods that one activator may fill, and which it fills next.
//!
//! By the container concurrency, as the activator's load-balancing policy has it: without a limit the less busy of two random
//! pods; with a limit up to 3 the first pod that has a place; above that one pod after the other.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};

use crate::pod::PodId;

/// Largest container concurrency for which the first free pod is taken.
const FIRST_AVAILABLE_UP_TO: u32 = 3;

/// One activator's places.
#[derive(Debug)]
pub struct PodSlots {
    /// Places on each pod; 0 is no limit.
    container_concurrency: u32,
    /// Requests of this activator on each pod.
    used: BTreeMap<PodId, u32>,
    /// The last pod taken, for taking turns.
    last: Option<PodId>,
}

// === impl PodSlots ===

impl PodSlots {
    /// No pods yet.
    pub fn new(container_concurrency: u32) -> Self {
        Self { container_concurrency, used: BTreeMap::new(), last: None }
    }

    /// Takes in which pods there are. What runs on one that left is not counted any more.
    pub fn set_pods(&mut self, pods: &[PodId]) {
        self.used = pods.iter().map(|pod| (*pod, self.used.get(pod).copied().unwrap_or(0))).collect();
    }

    /// Takes a place; `None` if there is none.
    pub fn take(&mut self, random: &mut impl Rng) -> Option<PodId> {
        let pod = match self.container_concurrency {
            0 => self.less_busy(random),
            1..=FIRST_AVAILABLE_UP_TO => self.free().next(),
            _ => self.next_in_turn(),
        }?;
        self.last = Some(pod);
        *self.used.get_mut(&pod)? += 1;
        Some(pod)
    }

    /// Gives a place back.
    pub fn release(&mut self, pod: PodId) {
        if let Some(used) = self.used.get_mut(&pod) {
            *used = used.saturating_sub(1);
        }
    }

    fn free(&self) -> impl Iterator<Item = PodId> {
        let limit = self.container_concurrency;
        self.used.iter().filter(move |(_, used)| **used < limit).map(|(pod, _)| *pod)
    }

    fn next_in_turn(&self) -> Option<PodId> {
        self.free().find(|pod| self.last.is_none_or(|last| *pod > last)).or_else(|| self.free().next())
    }

    fn less_busy(&self, random: &mut impl Rng) -> Option<PodId> {
        let draw = |random: &mut _| {
            let place = RngExt::random_range(random, 0..self.used.len().max(1));
            self.used.iter().nth(place).map(|(pod, used)| (*used, *pod))
        };
        let (one, other) = (draw(random)?, draw(random)?);
        Some(if other.0 < one.0 { other.1 } else { one.1 })
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn taken(container_concurrency: u32, count: usize) -> Vec<PodId> {
        let mut slots = PodSlots::new(container_concurrency);
        slots.set_pods(&[1, 2, 3]);
        let mut random = StdRng::seed_from_u64(1);
        (0..count).filter_map(|_| slots.take(&mut random)).collect()
    }

    #[test]
    fn the_container_concurrency_chooses_how_pods_are_filled() {
        assert_eq!(taken(2, 9), [1, 1, 2, 2, 3, 3]);
        assert_eq!(taken(4, 14), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let unlimited = taken(0, 300);
        for pod in 1..=3 {
            let count = unlimited.iter().filter(|taken| **taken == pod).count();
            assert!((90..=110).contains(&count), "{count} on {pod}");
        }
    }

    #[test]
    fn a_place_given_back_is_taken_again() {
        let mut slots = PodSlots::new(1);
        slots.set_pods(&[7]);
        let mut random = StdRng::seed_from_u64(1);
        assert_eq!((slots.take(&mut random), slots.take(&mut random)), (Some(7), None));
        slots.release(7);
        assert_eq!(slots.take(&mut random), Some(7));
        slots.set_pods(&[]);
        slots.release(7);
        assert_eq!(slots.take(&mut random), None);
    }
}
