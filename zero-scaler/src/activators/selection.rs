//! Selection: which of the ready activators a workload's slices should have.
//!
//! It applies the rules of [`ActivatorChoice`] to activators by their first addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use autoscaler::Key;
use autoscaler::routing::activator_choice::ActivatorChoice;

use crate::pods::endpoints::PodEndpoint;

/// The addresses of each activator pod, by its least address.
pub(super) type ActivatorAddresses<'a> = BTreeMap<IpAddr, BTreeMap<IpAddr, &'a PodEndpoint>>;

/// What the selection of a workload's activators depends on.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    /// The addresses in its slices.
    pub current: BTreeSet<IpAddr>,
    /// How many activators should carry it.
    pub number: u32,
    /// Whether no pod is ready.
    pub at_zero: bool,
}

/// The activators of one workload. As text, as in the EndpointSlices, so that all parts hash alike.
#[derive(Debug)]
pub(super) struct Selection {
    key: String,
    activators: BTreeMap<String, IpAddr>,
    current: BTreeSet<String>,
    recent: BTreeSet<String>,
    size: usize,
    at_zero: bool,
    /// Whether it has the activators of the long run.
    pub(super) settles: bool,
}

// === impl Selection ===

impl Selection {
    pub(super) fn new(
        key: &Key,
        activators: &ActivatorAddresses<'_>,
        placement: &Placement,
        recent: &BTreeSet<IpAddr>,
    ) -> Self {
        Self {
            key: key.to_string(),
            activators: activators.keys().map(|ip| (ip.to_string(), *ip)).collect(),
            current: placement.current.iter().map(|ip| first_address(activators, ip).to_string()).collect(),
            recent: recent.iter().map(IpAddr::to_string).collect(),
            size: usize::try_from(placement.number).unwrap_or(usize::MAX),
            at_zero: placement.at_zero,
            settles: false,
        }
    }

    /// Whether nothing requires a write, and others would carry the workload in the long run.
    pub(super) fn is_displaced(&self) -> bool {
        let all: BTreeSet<&str> = self.activators.keys().map(String::as_str).collect();
        let current: BTreeSet<&str> = self.current.iter().map(String::as_str).collect();
        let has = |settles| self.among(&all, settles) == current;
        !self.at_zero && has(false) && !has(true)
    }

    /// The selected activators, if these do not listen.
    pub(super) fn without(&self, failed: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
        let candidates = self.activators.iter().filter(|(_, ip)| !failed.contains(ip));
        let candidates = candidates.map(|(name, _)| name.as_str()).collect();
        let names = self.among(&candidates, self.settles);
        names.into_iter().filter_map(|name| self.activators.get(name).copied()).collect()
    }

    fn among<'a>(&'a self, candidates: &BTreeSet<&'a str>, settles: bool) -> BTreeSet<&'a str> {
        let choice = ActivatorChoice {
            key: &self.key,
            current: &self.current.iter().map(String::as_str).collect(),
            recent: &self.recent.iter().map(String::as_str).collect(),
            size: self.size,
            at_zero: self.at_zero,
        };
        if settles { choice.settled_among(candidates) } else { choice.among(candidates) }
    }
}

/// The address by which a ready activator is selected; that of another endpoint is its own.
fn first_address(activators: &ActivatorAddresses<'_>, ip: &IpAddr) -> IpAddr {
    let of = activators.iter().find(|(_, addresses)| addresses.contains_key(ip));
    of.map_or(*ip, |(first, _)| *first)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::discovery::v1::Endpoint;

    use super::*;

    fn ips(addresses: [&str; 2]) -> [IpAddr; 2] {
        addresses.map(|address| address.parse().unwrap())
    }

    #[test]
    fn slices_of_one_family_keep_activators_with_addresses_of_both() {
        let (family, endpoint, ports) = ("IPv6".to_owned(), Endpoint::default(), Arc::default());
        let endpoint = PodEndpoint { family, endpoint, ports };
        let pods = [["10.0.0.1", "fd00::1"], ["10.0.0.2", "fd00::2"], ["10.0.0.3", "fd00::3"]].map(ips);
        let activators: ActivatorAddresses<'_> =
            pods.iter().map(|ips| (ips[0], ips.map(|ip| (ip, &endpoint)).into())).collect();
        let key = Key::new("shop", "web");
        for current in [["fd00::1", "fd00::2"], ["fd00::1", "fd00::3"], ["fd00::2", "fd00::3"]].map(ips) {
            let placement = Placement { current: current.into(), number: 2, at_zero: true };
            let selection = Selection::new(&key, &activators, &placement, &BTreeSet::new());
            let selected = selection.without(&BTreeSet::new());
            let kept = pods.iter().filter(|ips| current.contains(&ips[1])).map(|ips| ips[0]);
            assert_eq!(selected, kept.collect());
        }
    }
}
