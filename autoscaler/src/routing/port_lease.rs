//! Leases of activator ports for Service ports.
//!
//! An activator identifies the workload of a connection only by the port that accepted it. A leased
//! port is therefore unique in the cluster. Input: the Service ports and current leases of a
//! ServerlessService, and the leases of all others. Output: its new leases, which zero-scaler
//! writes into its status. A lease lasts until the ports of the Service change.
//!
//! The search for a free port starts at a hash of the workload's name. Concurrent writers with
//! stale caches thus rarely collide, and a recreated workload usually gets its old ports back.

use std::collections::{BTreeMap, BTreeSet};

use crate::Key;
use crate::contract::LEASED_PORTS;
use crate::routing::hash::hash;

/// Error if all activator ports are leased.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {} activator ports are leased; the workload's Service port {service_port} gets none", LEASED_PORTS.count())]
pub struct PortsExhausted {
    /// The Service port without a lease.
    pub service_port: u16,
}

/// Leases an activator port for each Service port. A current lease is kept unless another
/// workload holds the same port.
///
/// # Errors
/// If no port is free.
pub fn lease_ports(
    key: &Key,
    service_ports: &BTreeSet<u16>,
    current: &BTreeMap<u16, u16>,
    held_by_others: impl Fn(u16) -> bool,
) -> Result<BTreeMap<u16, u16>, PortsExhausted> {
    let mut leases = keep(service_ports, current, &held_by_others);
    for service_port in service_ports {
        if leases.contains_key(service_port) {
            continue;
        }
        let taken: BTreeSet<u16> = leases.values().copied().collect();
        let port = first_free(key, *service_port, |p| held_by_others(p) || taken.contains(&p));
        leases.insert(*service_port, port.ok_or(PortsExhausted { service_port: *service_port })?);
    }
    Ok(leases)
}

fn keep(
    service_ports: &BTreeSet<u16>,
    current: &BTreeMap<u16, u16>,
    held_by_others: impl Fn(u16) -> bool,
) -> BTreeMap<u16, u16> {
    let mut seen = BTreeSet::new();
    current
        .iter()
        .filter(|(service_port, _)| service_ports.contains(service_port))
        .filter(|(_, port)| LEASED_PORTS.contains(port) && !held_by_others(**port) && seen.insert(**port))
        .map(|(service_port, port)| (*service_port, *port))
        .collect()
}

fn first_free(key: &Key, service_port: u16, taken: impl Fn(u16) -> bool) -> Option<u16> {
    let count = LEASED_PORTS.count();
    let start = usize::try_from(hash(&format!("{key}:{service_port}")) % count as u64).unwrap_or(0);
    LEASED_PORTS.cycle_from(start).find(|port| !taken(*port))
}

/// Iteration over a range that starts at an offset and wraps around.
trait CycleFrom {
    fn cycle_from(self, offset: usize) -> impl Iterator<Item = u16>;
}

impl CycleFrom for std::ops::RangeInclusive<u16> {
    fn cycle_from(self, offset: usize) -> impl Iterator<Item = u16> {
        self.clone().skip(offset).chain(self.take(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(ports: &[u16]) -> BTreeSet<u16> {
        ports.iter().copied().collect()
    }

    #[test]
    fn new_workload_gets_a_distinct_stable_port_for_each_service_port() {
        let key = Key::new("shop", "web");
        let leases = lease_ports(&key, &ports(&[80, 443]), &BTreeMap::new(), |_| false).unwrap();
        assert_eq!(leases.keys().copied().collect::<Vec<_>>(), [80, 443]);
        assert_ne!(leases[&80], leases[&443]);
        assert!(leases.values().all(|port| LEASED_PORTS.contains(port)));
        assert_eq!(lease_ports(&key, &ports(&[80, 443]), &BTreeMap::new(), |_| false), Ok(leases));
    }

    #[test]
    fn keeps_lease_while_service_port_exists_and_no_other_workload_holds_it() {
        let key = Key::new("shop", "web");
        let current = BTreeMap::from([(80, 20001), (443, 20002)]);
        assert_eq!(lease_ports(&key, &ports(&[80, 443]), &current, |_| false), Ok(current.clone()));
        assert_eq!(
            lease_ports(&key, &ports(&[443]), &current, |port| port == 20001),
            Ok(BTreeMap::from([(443, 20002)]))
        );
        let moved = lease_ports(&key, &ports(&[80, 443]), &current, |port| port == 20001).unwrap();
        assert_eq!(moved[&443], 20002);
        assert!(![20001, 20002].contains(&moved[&80]));
    }

    #[test]
    fn replaces_leases_that_are_out_of_range_or_duplicate() {
        let key = Key::new("shop", "web");
        let current = BTreeMap::from([(80, 8080), (443, 20002), (444, 20002)]);
        let leases = lease_ports(&key, &ports(&[80, 443, 444]), &current, |_| false).unwrap();
        assert_eq!(leases.values().collect::<BTreeSet<_>>().len(), 3);
        assert!(leases.values().all(|port| LEASED_PORTS.contains(port)));
    }

    #[test]
    fn finds_the_last_free_port_and_fails_without_one() {
        let key = Key::new("shop", "web");
        assert_eq!(
            lease_ports(&key, &ports(&[80]), &BTreeMap::new(), |port| port != 23456),
            Ok(BTreeMap::from([(80, 23456)]))
        );
        assert_eq!(
            lease_ports(&key, &ports(&[80]), &BTreeMap::new(), |_| true),
            Err(PortsExhausted { service_port: 80 })
        );
    }
}
