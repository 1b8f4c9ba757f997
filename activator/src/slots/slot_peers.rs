//! SlotPeers: the other activators at one moment, and the queues to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::routing::endpoint_subset::endpoint_subset;
use autoscaler::routing::pod_assignment::{slot_share, stable_slot_share};
use autoscaler::routing::slot_lending::WorkloadSlotMessage;
use autoscaler::settings::SidecarMode;

use crate::slots::slot_link::LinkId;
use crate::slots::slot_outbox::SlotOutbox;

/// The activators that share slots, and those that are connected. The default is a single
/// activator.
#[derive(Clone, Debug)]
pub struct SlotPeers {
    own: String,
    /// The activators among which slots are divided, by address. As text, as in the EndpointSlices,
    /// so that all hash alike.
    sharers: BTreeSet<String>,
    links: BTreeMap<LinkId, Arc<SlotOutbox>>,
}

// === impl SlotPeers ===

impl SlotPeers {
    pub(super) fn new(
        own: IpAddr,
        sharers: BTreeSet<IpAddr>,
        links: BTreeMap<LinkId, Arc<SlotOutbox>>,
    ) -> Self {
        Self { own: own.to_string(), sharers: sharers.iter().map(IpAddr::to_string).collect(), links }
    }

    /// The connected activators.
    pub fn links(&self) -> BTreeSet<LinkId> {
        self.links.keys().copied().collect()
    }

    /// Sends a message, unless the connection has ended.
    pub fn send(&self, to: LinkId, message: WorkloadSlotMessage<IpAddr>) {
        if let Some(outbox) = self.links.get(&to) {
            outbox.put(message);
        }
    }

    /// This activator's slots of a workload that `number` of the activators carry (0: all), on pods
    /// with these limits. The zero-scaler selects the same activators, later if one has joined.
    /// Where no sidecar enforces the limit, slots stay with their owner while pods come and go.
    pub fn share(
        &self,
        workload: &Key,
        limits: &BTreeMap<IpAddr, NonZeroU32>,
        number: usize,
        sidecar: SidecarMode,
    ) -> BTreeMap<IpAddr, u32> {
        let named: BTreeMap<String, IpAddr> = limits.keys().map(|pod| (pod.to_string(), *pod)).collect();
        let mut by_limit: BTreeMap<NonZeroU32, BTreeSet<&str>> = BTreeMap::new();
        for (name, limit) in named.iter().filter_map(|(name, pod)| Some((name, limits.get(pod)?))) {
            by_limit.entry(*limit).or_default().insert(name.as_str());
        }
        let workload = workload.to_string();
        let all = self.sharers.iter().map(String::as_str).collect();
        let size = if number == 0 { usize::MAX } else { number };
        let sharers = endpoint_subset(&all, &workload, size);
        let share_of = match sidecar {
            SidecarMode::Required => slot_share,
            SidecarMode::None => stable_slot_share,
        };
        let share = by_limit
            .iter()
            .flat_map(|(limit, names)| share_of(&workload, names, &sharers, *limit, &self.own));
        share.filter_map(|(name, slots)| Some((*named.get(name)?, slots))).collect()
    }
}

impl Default for SlotPeers {
    fn default() -> Self {
        Self { own: String::new(), sharers: BTreeSet::from([String::new()]), links: BTreeMap::new() }
    }
}

impl PartialEq for SlotPeers {
    /// Links with the same id are the same link.
    fn eq(&self, other: &Self) -> bool {
        self.own == other.own && self.sharers == other.sharers && self.links.keys().eq(other.links.keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(last: std::ops::Range<u8>) -> BTreeSet<IpAddr> {
        last.map(|last| [10, 0, 0, last].into()).collect()
    }

    /// Pods that all have this limit.
    fn limited(pods: &BTreeSet<IpAddr>, limit: u32) -> BTreeMap<IpAddr, NonZeroU32> {
        pods.iter().map(|pod| (*pod, NonZeroU32::new(limit).unwrap())).collect()
    }

    #[test]
    fn every_slot_belongs_to_one_activator_that_carries_the_workload() {
        let (activators, pods, key) = (ips(1..6), ips(100..120), Key::new("shop", "web"));
        let limits = limited(&pods, 1);
        for (number, carriers) in [(0, 5), (2, 2), (9, 5)] {
            let share = |own: &IpAddr| {
                let peers = SlotPeers::new(*own, activators.clone(), BTreeMap::new());
                peers.share(&key, &limits, number, SidecarMode::Required)
            };
            let shares: Vec<_> = activators.iter().map(share).filter(|share| !share.is_empty()).collect();
            assert_eq!(shares.len(), carriers);
            let owned: Vec<IpAddr> = shares.iter().flat_map(|share| share.keys().copied()).collect();
            assert_eq!(owned.len(), 20);
            assert_eq!(owned.into_iter().collect::<BTreeSet<_>>(), pods);
        }
    }

    #[test]
    fn single_activator_owns_all_slots() {
        let pods = ips(1..4);
        let limits = limited(&pods, 2);
        let share = SlotPeers::default().share(&Key::new("shop", "web"), &limits, 1, SidecarMode::Required);
        assert_eq!(share, pods.into_iter().map(|pod| (pod, 2)).collect());
    }

    #[test]
    fn slots_of_each_pod_follow_its_own_limit() {
        let (activators, key) = (ips(1..4), Key::new("shop", "web"));
        let mut limits = limited(&ips(100..105), 10);
        limits.extend(limited(&ips(105..108), 20));
        for sidecar in [SidecarMode::Required, SidecarMode::None] {
            let mut slots: BTreeMap<IpAddr, u32> = BTreeMap::new();
            for own in &activators {
                let peers = SlotPeers::new(*own, activators.clone(), BTreeMap::new());
                for (pod, owned) in peers.share(&key, &limits, 0, sidecar) {
                    *slots.entry(pod).or_default() += owned;
                }
            }
            assert_eq!(slots, limits.iter().map(|(pod, limit)| (*pod, limit.get())).collect());
        }
    }
}
