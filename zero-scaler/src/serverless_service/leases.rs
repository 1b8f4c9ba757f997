//! Activator ports that this process granted, until the watch shows them in a status.
//!
//! Several ServerlessServices are looked at at once, and a status just written is not in the store yet: without this memory
//! two of them could be given the same free port. Between two zero-scalers only the statuses speak: should both grant one
//! port, the later workload gives it up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use autoscaler::port_lease::{Exhausted, lease};

/// Service port to activator port.
type Ports = BTreeMap<u16, u16>;

/// Grants ports, one workload at a time.
#[derive(Debug, Default)]
pub struct Leases(Mutex<HashMap<Key, Ports>>);

/// A workload and the ports in its status.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) key: Key,
    /// Unix seconds of its creation: the older of two that hold one port keeps it.
    pub(super) created: i64,
    pub(super) ports: Ports,
}

// === impl Leases ===

impl Leases {
    /// The leases of `own`, given what all others hold.
    pub(super) fn grant(
        &self,
        own: &Holder,
        service_ports: &BTreeSet<u16>,
        others: &[Holder],
    ) -> Result<Ports, Exhausted> {
        let mut granted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let exists = |key: &Key| *key == own.key || others.iter().any(|other| other.key == *key);
        granted.retain(|key, _| exists(key));
        let current = granted.get(&own.key).unwrap_or(&own.ports).clone();
        let mut held: BTreeSet<u16> = others
            .iter()
            .flat_map(|other| other.ports.values().map(move |port| (other, *port)))
            .filter(|(other, port)| !(own.precedes(other) && current.values().any(|p| p == port)))
            .map(|(_, port)| port)
            .collect();
        let elsewhere = granted.iter().filter(|(key, _)| **key != own.key);
        held.extend(elsewhere.flat_map(|(_, ports)| ports.values().copied()));
        let ports = lease(&own.key, service_ports, &current, &held)?;
        granted.insert(own.key.clone(), ports.clone());
        Ok(ports)
    }
}

// === impl Holder ===

impl Holder {
    pub(super) fn of(key: Key, sks: &ServerlessService) -> Self {
        let ports =
            sks.status.iter().flat_map(|s| &s.ports).map(|p| (p.service_port, p.activator_port)).collect();
        let created = sks.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |t| t.0.as_second());
        Self { key, created, ports }
    }

    fn precedes(&self, other: &Self) -> bool {
        (self.created, &self.key) < (other.created, &other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str, created: i64, ports: &[(u16, u16)]) -> Holder {
        Holder { key: Key::new("shop", name), created, ports: ports.iter().copied().collect() }
    }

    #[test]
    fn a_port_granted_is_taken_before_any_status_shows_it() {
        let leases = Leases::default();
        let all: Vec<Holder> = (0..200).map(|i| holder(&format!("web-{i}"), i, &[])).collect();
        let mut seen = BTreeSet::new();
        for own in &all {
            let others: Vec<Holder> = all.iter().filter(|o| o.key != own.key).cloned().collect();
            let ports = leases.grant(own, &BTreeSet::from([80, 443]), &others).unwrap();
            assert!(ports.values().all(|port| seen.insert(*port)), "{ports:?}");
            assert_eq!(leases.grant(own, &BTreeSet::from([80, 443]), &others), Ok(ports));
        }
    }

    #[test]
    fn of_two_that_hold_one_port_the_older_keeps_it() {
        let (old, young) = (holder("b", 1, &[(80, 20000)]), holder("a", 2, &[(80, 20000)]));
        let kept = Leases::default().grant(&old, &BTreeSet::from([80]), std::slice::from_ref(&young));
        assert_eq!(kept, Ok(BTreeMap::from([(80, 20000)])));
        let moved =
            Leases::default().grant(&young, &BTreeSet::from([80]), std::slice::from_ref(&old)).unwrap();
        assert_ne!(moved[&80], 20000);
    }
}
