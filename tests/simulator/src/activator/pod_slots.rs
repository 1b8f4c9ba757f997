//! PodSlots: the places on pods that one activator may fill, and which it fills next.
//!
//! With a container concurrency the places are slots: an activator has its share of them, lends what it does not need, and
//! borrows from the others by messages (the brain's pod assignment and slot lending). Without one every activator uses every
//! pod. Which pod comes next is as in the activator: without a limit the less busy of two random ones; with a limit up to 3
//! the first that has a slot; above that one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use autoscaler::routing::pod_assignment::slot_share;
use autoscaler::routing::slot_lending::{
    LoadBalancingPolicy, Slot, SlotLending, SlotMessage, WaitingRequests,
};
use rand::{Rng, RngExt};

use crate::clock::Time;
use crate::workload::pod::PodId;
use crate::workload::request::ActivatorId;

/// What activators say to each other.
pub type PeerMessages = Vec<(ActivatorId, SlotMessage<PodId>)>;

/// One activator's places.
#[derive(Debug)]
pub enum PodSlots {
    /// As many requests as come; how many of ours each pod has.
    Unlimited(BTreeMap<PodId, u32>),
    /// Slots.
    Limited(Box<LimitedSlots>),
}

/// Slots on pods with a limit.
#[derive(Debug)]
pub struct LimitedSlots {
    container_concurrency: NonZeroU32,
    id: ActivatorId,
    activators: usize,
    lending: SlotLending<PodId, ActivatorId>,
    /// Whether there is anybody to talk to.
    has_peers: bool,
    filling: LoadBalancingPolicy,
}

// === impl PodSlots ===

impl PodSlots {
    /// The slots of one of so many activators, which talk to each other only if they lend.
    pub fn new(container_concurrency: u32, id: ActivatorId, activators: usize, lends: bool) -> Self {
        let Some(container_concurrency) = NonZeroU32::new(container_concurrency) else {
            return Self::Unlimited(BTreeMap::new());
        };
        let filling = LoadBalancingPolicy::of_container_concurrency(container_concurrency);
        let mut lending = SlotLending::default();
        let has_peers = lends && activators > 1;
        lending.set_peers(&(0..activators).filter(|peer| has_peers && *peer != id).collect());
        Self::Limited(Box::new(LimitedSlots {
            container_concurrency,
            id,
            activators,
            lending,
            has_peers,
            filling,
        }))
    }

    /// Takes in which pods there are.
    pub fn set_pods(&mut self, pods: &[PodId]) {
        match self {
            // What runs on one that left is not counted any more.
            Self::Unlimited(used) => {
                *used = pods.iter().map(|pod| (*pod, used.get(pod).copied().unwrap_or(0))).collect();
            }
            Self::Limited(limited) => limited.set_pods(pods),
        }
    }

    /// Takes a place; `None` if there is none.
    pub fn take(&mut self, random: &mut impl Rng) -> Option<Slot<PodId, ActivatorId>> {
        match self {
            Self::Unlimited(used) => {
                let pod = less_busy(used, random)?;
                *used.get_mut(&pod)? += 1;
                Some(Slot { pod, lender: None })
            }
            Self::Limited(limited) => limited.lending.take(limited.filling),
        }
    }

    /// Gives a place back.
    pub fn release(&mut self, slot: Slot<PodId, ActivatorId>, now: Time) {
        match self {
            Self::Unlimited(used) => {
                if let Some(used) = used.get_mut(&slot.pod) {
                    *used = used.saturating_sub(1);
                }
            }
            Self::Limited(limited) => limited.lending.release(slot, now),
        }
    }

    /// Hears another activator.
    pub fn receive(&mut self, from: ActivatorId, message: SlotMessage<PodId>, now: Time) {
        if let Self::Limited(limited) = self {
            limited.lending.receive(&from, message, now);
        }
    }

    /// What is to be said to the others, given what still waits after all places were taken.
    pub fn settle(&mut self, waiting: WaitingRequests, now: Time) -> PeerMessages {
        match self {
            Self::Limited(limited) if limited.has_peers => {
                limited.lending.set_waiting(waiting);
                limited.lending.settle(now)
            }
            _ => PeerMessages::new(),
        }
    }
}

// === impl Limited ===

impl LimitedSlots {
    fn set_pods(&mut self, pods: &[PodId]) {
        let named: BTreeMap<String, PodId> = pods.iter().map(|pod| (format!("pod-{pod}"), *pod)).collect();
        let activators: Vec<String> = (0..self.activators).map(|id| format!("activator-{id}")).collect();
        let names: BTreeSet<&str> = named.keys().map(String::as_str).collect();
        let all: BTreeSet<&str> = activators.iter().map(String::as_str).collect();
        let own = activators.get(self.id).map_or("", String::as_str);
        let share = slot_share("shop/web", &names, &all, self.container_concurrency, own);
        self.lending
            .set_share(share.into_iter().filter_map(|(name, slots)| Some((*named.get(name)?, slots))));
        self.lending.set_usable(pods.iter().copied().collect());
    }
}

fn less_busy(used: &BTreeMap<PodId, u32>, random: &mut impl Rng) -> Option<PodId> {
    let mut draw = || {
        let place = random.random_range(0..used.len().max(1));
        used.iter().nth(place).map(|(pod, used)| (*used, *pod))
    };
    let (one, other) = (draw()?, draw()?);
    Some(if other.0 < one.0 { other.1 } else { one.1 })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn slots(container_concurrency: u32) -> PodSlots {
        let mut slots = PodSlots::new(container_concurrency, 0, 1, true);
        slots.set_pods(&[1, 2, 3]);
        slots
    }

    fn taken(container_concurrency: u32, count: usize) -> Vec<PodId> {
        let (mut slots, mut random) = (slots(container_concurrency), StdRng::seed_from_u64(1));
        (0..count).filter_map(|_| slots.take(&mut random)).map(|slot| slot.pod).collect()
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
    fn a_place_given_back_is_taken_again_but_not_on_a_pod_that_left() {
        let (mut slots, mut random) = (slots(1), StdRng::seed_from_u64(1));
        slots.set_pods(&[7]);
        let slot = slots.take(&mut random).unwrap();
        assert_eq!(slots.take(&mut random), None);
        slots.release(slot, Time::ZERO);
        let slot = slots.take(&mut random).unwrap();
        assert_eq!(slot.pod, 7);
        slots.set_pods(&[]);
        slots.release(slot, Time::ZERO);
        assert_eq!(slots.take(&mut random), None);
    }
}
