//! Neighbours: the other activators at one moment, and the way to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::endpoint_subset::endpoint_subset;
use autoscaler::pod_assignment;
use autoscaler::slot_lending::Word;

use super::link::LinkId;
use super::outbox::Outbox;

/// Who shares slots, and who can be told something. The default is an activator alone.
#[derive(Clone, Debug)]
pub struct Neighbours {
    own: String,
    /// The activators among which slots are divided, by address. As text, as in the slices, for everybody's hashes.
    sharers: BTreeSet<String>,
    links: BTreeMap<LinkId, Arc<Outbox>>,
}

// === impl Neighbours ===

impl Neighbours {
    pub(super) fn new(own: IpAddr, sharers: BTreeSet<IpAddr>, links: BTreeMap<LinkId, Arc<Outbox>>) -> Self {
        Self { own: own.to_string(), sharers: sharers.iter().map(IpAddr::to_string).collect(), links }
    }

    /// Those who can be told something.
    pub fn links(&self) -> BTreeSet<LinkId> {
        self.links.keys().copied().collect()
    }

    /// Says something, unless the connection is lost.
    pub fn say(&self, to: LinkId, word: Word<IpAddr>) {
        if let Some(outbox) = self.links.get(&to) {
            outbox.put(word);
        }
    }

    /// Our slots of a workload that `number` of the activators carry (0: all), by the same choice as the zero-scaler's.
    pub fn share(
        &self,
        workload: &Key,
        pods: &BTreeSet<IpAddr>,
        number: usize,
        container_concurrency: NonZeroU32,
    ) -> BTreeMap<IpAddr, u32> {
        let named: BTreeMap<String, IpAddr> = pods.iter().map(|pod| (pod.to_string(), *pod)).collect();
        let names = named.keys().map(String::as_str).collect();
        let workload = workload.to_string();
        let all = self.sharers.iter().map(String::as_str).collect();
        let size = if number == 0 { usize::MAX } else { number };
        let sharers = endpoint_subset(&all, &workload, size);
        let share = pod_assignment::share(&workload, &names, &sharers, container_concurrency, &self.own);
        share.into_iter().filter_map(|(name, slots)| Some((*named.get(name)?, slots))).collect()
    }
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { own: String::new(), sharers: BTreeSet::from([String::new()]), links: BTreeMap::new() }
    }
}

impl PartialEq for Neighbours {
    /// A link of the same number is the same link.
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

    #[test]
    fn every_slot_belongs_to_one_of_the_activators_that_carry_the_workload() {
        let (activators, pods, key) = (ips(1..6), ips(100..120), Key::new("shop", "web"));
        let one = NonZeroU32::new(1).unwrap();
        for (number, carriers) in [(0, 5), (2, 2), (9, 5)] {
            let share = |own: &IpAddr| {
                Neighbours::new(*own, activators.clone(), BTreeMap::new()).share(&key, &pods, number, one)
            };
            let shares: Vec<_> = activators.iter().map(share).filter(|share| !share.is_empty()).collect();
            assert_eq!(shares.len(), carriers);
            let owned: Vec<IpAddr> = shares.iter().flat_map(|share| share.keys().copied()).collect();
            assert_eq!(owned.len(), 20);
            assert_eq!(owned.into_iter().collect::<BTreeSet<_>>(), pods);
        }
    }

    #[test]
    fn who_is_alone_has_everything() {
        let (pods, two) = (ips(1..4), NonZeroU32::new(2).unwrap());
        let share = Neighbours::default().share(&Key::new("shop", "web"), &pods, 1, two);
        assert_eq!(share, pods.into_iter().map(|pod| (pod, 2)).collect());
    }
}
