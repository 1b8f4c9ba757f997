//! Leases of activator ports for Service ports.
//!
//! An activator identifies the workload of a connection only by the port that accepted it. A leased
//! port is therefore unique in the cluster. Input: the Service ports and current leases of a
//! ServerlessService, and the ports that it may not have. Output: its new leases, which zero-scaler
//! writes into its status. A lease lasts until the ports of the Service change.
//!
//! The search for a free port starts at a hash of the UID of the ServerlessService. The API server
//! chooses UIDs, so the author of an object cannot aim at a port. Concurrent writers with stale
//! caches start at the same port for the same object, and rarely at one port for two objects. The
//! ports that firewalls have open already are searched first.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::{FIRST_LEASED_PORTS, LEASED_PORTS};
use crate::routing::hash::hash;

/// A workload that needs a port for each port of its Service.
#[derive(Clone, Copy, Debug)]
pub struct PortRequest<'a> {
    /// UID of the ServerlessService.
    pub uid: &'a str,
    pub service_ports: &'a BTreeSet<u16>,
    /// Leases that the workload has.
    pub current: &'a BTreeMap<u16, u16>,
    /// Leases that the workload had, and that rest.
    pub previous: &'a BTreeMap<u16, u16>,
    /// Number of ports that the workload may have. Current leases stay beyond it.
    pub quota: usize,
}

/// Why a Service port has no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortLeaseError {
    /// No port is free.
    #[error("all {} activator ports are leased, or rest after a lease; Service port {service_port} gets none", LEASED_PORTS.count())]
    Exhausted {
        /// The Service port without a lease.
        service_port: u16,
    },
    /// The namespace has as many ports as it may have.
    #[error("the namespace leases as many activator ports as it may; Service port {service_port} gets none")]
    QuotaExceeded {
        /// The Service port without a lease.
        service_port: u16,
    },
}

/// Leases an activator port for each Service port. A current lease is kept unless `is_taken`
/// reports that the workload may not have the port.
///
/// # Errors
/// If no port is free, or the quota is used up.
pub fn lease_ports(
    request: &PortRequest<'_>,
    is_taken: impl Fn(u16) -> bool,
) -> Result<BTreeMap<u16, u16>, PortLeaseError> {
    let mut leases = keep(request, &is_taken);
    for service_port in request.service_ports.iter().copied() {
        if leases.contains_key(&service_port) {
            continue;
        }
        if leases.len() >= request.quota {
            return Err(PortLeaseError::QuotaExceeded { service_port });
        }
        let own: BTreeSet<u16> = leases.values().copied().collect();
        let is_free = |port: &u16| LEASED_PORTS.contains(port) && !own.contains(port) && !is_taken(*port);
        let previous = request.previous.get(&service_port).copied().filter(is_free);
        let port = previous.or_else(|| search(request.uid, service_port, is_free));
        leases.insert(service_port, port.ok_or(PortLeaseError::Exhausted { service_port })?);
    }
    Ok(leases)
}

fn keep(request: &PortRequest<'_>, is_taken: impl Fn(u16) -> bool) -> BTreeMap<u16, u16> {
    let mut seen = BTreeSet::new();
    let wanted =
        request.current.iter().filter(|(service_port, _)| request.service_ports.contains(service_port));
    wanted
        .filter(|(_, port)| LEASED_PORTS.contains(port) && !is_taken(**port) && seen.insert(**port))
        .map(|(service_port, port)| (*service_port, *port))
        .collect()
}

fn search(uid: &str, service_port: u16, is_free: impl Fn(&u16) -> bool) -> Option<u16> {
    let hash = hash(&format!("{uid}:{service_port}"));
    [FIRST_LEASED_PORTS, LEASED_PORTS].into_iter().find_map(|ports| {
        let start = usize::try_from(hash % ports.len() as u64).unwrap_or(0);
        ports.cycle_from(start).find(&is_free)
    })
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

    fn lease(
        service_ports: &[u16],
        current: &[(u16, u16)],
        is_taken: impl Fn(u16) -> bool,
    ) -> Result<BTreeMap<u16, u16>, PortLeaseError> {
        let (service_ports, current) =
            (service_ports.iter().copied().collect(), current.iter().copied().collect());
        let (previous, quota) = (&BTreeMap::new(), usize::MAX);
        let request =
            PortRequest { uid: "u-1", service_ports: &service_ports, current: &current, previous, quota };
        lease_ports(&request, is_taken)
    }

    #[test]
    fn new_workload_gets_a_distinct_stable_port_for_each_service_port() {
        let leases = lease(&[80, 443], &[], |_| false).unwrap();
        assert_eq!(leases.keys().copied().collect::<Vec<_>>(), [80, 443]);
        assert_ne!(leases[&80], leases[&443]);
        assert!(leases.values().all(|port| LEASED_PORTS.contains(port)));
        assert_eq!(lease(&[80, 443], &[], |_| false), Ok(leases));
    }

    #[test]
    fn ports_beyond_the_first_are_leased_only_when_those_are_taken() {
        let one_left = |port: u16| FIRST_LEASED_PORTS.contains(&port) && port != 23456;
        assert_eq!(lease(&[80], &[], one_left), Ok([(80, 23456)].into()));
        let beyond = lease(&[80], &[], |port| FIRST_LEASED_PORTS.contains(&port)).unwrap();
        assert!(LEASED_PORTS.contains(&beyond[&80]), "{beyond:?}");
        assert_eq!(lease(&[80], &[(80, beyond[&80])], |_| false), Ok(beyond), "a current lease stays");
    }

    #[test]
    fn search_starts_at_uid_so_that_a_name_cannot_aim() {
        let of = |uid: &str| search(uid, 80, |_| true);
        let starts: BTreeSet<_> = (0..100).map(|i| of(&format!("0a1b2c3d-0000-4000-8000-{i:012}"))).collect();
        assert!(starts.len() > 95, "{}", starts.len());
        assert_eq!(of("u-1"), of("u-1"));
    }

    #[test]
    fn keeps_lease_while_service_port_exists_and_no_other_workload_holds_it() {
        let current = [(80, 20001), (443, 20002)];
        assert_eq!(lease(&[80, 443], &current, |_| false), Ok(current.into()));
        assert_eq!(lease(&[443], &current, |port| port == 20001), Ok([(443, 20002)].into()));
        let moved = lease(&[80, 443], &current, |port| port == 20001).unwrap();
        assert_eq!(moved[&443], 20002);
        assert!(![20001, 20002].contains(&moved[&80]));
    }

    #[test]
    fn replaces_leases_that_are_out_of_range_or_duplicate() {
        let leases = lease(&[80, 443, 444], &[(80, 8080), (443, 20002), (444, 20002)], |_| false).unwrap();
        assert_eq!(leases.values().collect::<BTreeSet<_>>().len(), 3);
        assert!(leases.values().all(|port| LEASED_PORTS.contains(port)));
    }

    #[test]
    fn takes_the_previous_port_again_while_it_is_free() {
        let (service_ports, current) = (BTreeSet::from([80]), BTreeMap::new());
        let previous = BTreeMap::from([(80, 23456)]);
        let (uid, quota) = ("u-1", usize::MAX);
        let request =
            PortRequest { uid, service_ports: &service_ports, current: &current, previous: &previous, quota };
        assert_eq!(lease_ports(&request, |_| false), Ok(previous.clone()));
        assert_ne!(lease_ports(&request, |port| port == 23456), Ok(previous.clone()));
    }

    #[test]
    fn quota_limits_new_leases_and_keeps_current_ones() {
        let service_ports = BTreeSet::from([80, 443]);
        let (current, previous) = (BTreeMap::from([(80, 20001)]), BTreeMap::from([(443, 20002)]));
        let of = |quota| {
            let (uid, current, previous) = ("u-1", &current, &previous);
            lease_ports(&PortRequest { uid, service_ports: &service_ports, current, previous, quota }, |_| {
                false
            })
        };
        assert_eq!(of(0), Err(PortLeaseError::QuotaExceeded { service_port: 443 }));
        assert_eq!(of(1), Err(PortLeaseError::QuotaExceeded { service_port: 443 }));
        assert_eq!(of(2), Ok([(80, 20001), (443, 20002)].into()));
    }

    #[test]
    fn finds_the_last_free_port_and_fails_without_one() {
        assert_eq!(lease(&[80], &[], |port| port != 23456), Ok([(80, 23456)].into()));
        assert_eq!(lease(&[80], &[], |_| true), Err(PortLeaseError::Exhausted { service_port: 80 }));
    }
}
