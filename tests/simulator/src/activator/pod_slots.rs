//! The slots on pods that one activator may use, and the order of their use.
//!
//! With a container concurrency each activator has a share of the slots. It lends slots that it
//! does not need and borrows others by messages (pod assignment and slot lending of `autoscaler`).
//! Without one every activator uses every pod. The selection of a pod is the activator's: without
//! limit the less busy of two random pods, up to 3 the first free slot, above 3 round robin.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use autoscaler::routing::pod_assignment::slot_share;
use autoscaler::routing::proximity::Proximity;
use autoscaler::routing::slot_lending::{
    LoadBalancingPolicy, Slot, SlotLending, SlotMessage, WaitingRequests,
};
use rand::{Rng, RngExt};

use crate::clock::Time;
use crate::workload::pod::PodId;
use crate::workload::request::ActivatorId;

/// Messages between activators, with their receivers.
pub type PeerMessages = Vec<(ActivatorId, SlotMessage<PodId>)>;

/// One activator's slots.
#[derive(Debug)]
pub enum PodSlots {
    /// The number of our requests on each pod, and how many it may be.
    Counted { used: BTreeMap<PodId, u32>, limit: u32 },
    /// Slots with lending.
    Limited(Box<LimitedSlots>),
}

/// Slots on pods with a container concurrency.
#[derive(Debug)]
pub struct LimitedSlots {
    container_concurrency: NonZeroU32,
    id: ActivatorId,
    activators: usize,
    lending: SlotLending<PodId, ActivatorId>,
    /// Whether there are activators to lend to.
    has_peers: bool,
    filling: LoadBalancingPolicy,
}

// === impl PodSlots ===

impl PodSlots {
    /// The slots of activator `id` of `activators`. Without `lends` there are no messages.
    pub fn new(container_concurrency: u32, id: ActivatorId, activators: usize, lends: bool) -> Self {
        let Some(container_concurrency) = NonZeroU32::new(container_concurrency) else {
            return Self::Counted { used: BTreeMap::new(), limit: u32::MAX };
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

    /// Sets the ready pods.
    pub fn set_pods(&mut self, pods: &[PodId]) {
        match self {
            // Requests on removed pods do not count any more.
            Self::Counted { used, .. } => {
                *used = pods.iter().map(|pod| (*pod, used.get(pod).copied().unwrap_or(0))).collect();
            }
            Self::Limited(limited) => limited.set_pods(pods),
        }
    }

    /// Sets the requests of ours that a pod may have at a time, where it has no limit of its own.
    pub fn set_limit(&mut self, most: Option<u32>) {
        if let Self::Counted { limit, .. } = self {
            *limit = most.unwrap_or(u32::MAX);
        }
    }

    /// Takes a slot; `None` if all are in use.
    pub fn take(&mut self, random: &mut impl Rng) -> Option<Slot<PodId, ActivatorId>> {
        match self {
            Self::Counted { used, limit } => {
                let pod = less_busy(used, *limit, random)?;
                *used.get_mut(&pod)? += 1;
                Some(Slot { pod, lender: None })
            }
            Self::Limited(limited) => limited.lending.take(limited.filling),
        }
    }

    /// Frees a slot.
    pub fn release(&mut self, slot: Slot<PodId, ActivatorId>, now: Time) {
        match self {
            Self::Counted { used, .. } => {
                if let Some(used) = used.get_mut(&slot.pod) {
                    *used = used.saturating_sub(1);
                }
            }
            Self::Limited(limited) => limited.lending.release(slot, now),
        }
    }

    /// Handles a message of another activator.
    pub fn receive(&mut self, from: ActivatorId, message: SlotMessage<PodId>, now: Time) {
        if let Self::Limited(limited) = self {
            limited.lending.receive(&from, message, now);
        }
    }

    /// Messages to the other activators, given the requests that still wait for a slot.
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
        self.lending.set_usable(pods.iter().map(|pod| (*pod, Proximity::default())).collect());
    }
}

fn less_busy(used: &BTreeMap<PodId, u32>, limit: u32, random: &mut impl Rng) -> Option<PodId> {
    let free: Vec<_> = used.iter().filter(|(_, used)| **used < limit).collect();
    let mut draw = || free.get(random.random_range(0..free.len().max(1))).map(|(pod, used)| (**used, **pod));
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
    fn container_concurrency_selects_the_order_of_pods() {
        assert_eq!(taken(2, 9), [1, 1, 2, 2, 3, 3]);
        assert_eq!(taken(4, 14), [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let unlimited = taken(0, 300);
        for pod in 1..=3 {
            let count = unlimited.iter().filter(|taken| **taken == pod).count();
            assert!((90..=110).contains(&count), "{count} on {pod}");
        }
    }

    #[test]
    fn released_slot_is_reused_unless_its_pod_is_removed() {
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
