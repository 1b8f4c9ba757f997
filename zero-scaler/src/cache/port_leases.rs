//! PortLeases: the activator ports in statuses, and those that this process granted since.
//!
//! Filled by the watches of ServerlessServices and EndpointSlices, read by the reconciler. A port
//! leads to a workload of one tenant, so another one must never get it while anything leads there:
//!
//! - The first workload that claims a port keeps it. A later claim has no effect, whatever the age
//!   of its object, and the reconciler overwrites it. A new list is read from the oldest object on.
//! - A claim counts only in a ServerlessService that a PodAutoscaler of its name controls.
//! - A port that was given back rests, from the moment at which no slice leads to it, for longer
//!   than a kube-proxy takes to follow. Only its last workload can have it earlier.
//! - A namespace has a quota of ports.
//!
//! Reconciles run concurrently and a new status is not in the store yet, so grants are remembered:
//! otherwise two workloads could get the same free port.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, ServerlessService};
use autoscaler::contract::LEASED_PORTS;
use autoscaler::routing::port_lease::{PortLeaseError, PortRequest, lease_ports};
use kube::Resource;
use parking_lot::{Mutex, MutexGuard};

use crate::kubernetes::server_side_apply::controller_of;

/// How long a port rests. A kube-proxy applies a change of a slice within a second or two; one that
/// lost its watch lists again within a minute.
const REST: Duration = Duration::from_secs(60);

/// Service port to activator port.
pub type Ports = BTreeMap<u16, u16>;

/// All leased ports and their holders.
#[derive(Debug)]
pub struct PortLeases {
    book: Mutex<Book>,
    /// Ports that the workloads of one namespace may have.
    quota: usize,
}

#[derive(Debug, Default)]
struct Book {
    claimants: HashMap<Key, Claims>,
    /// The workloads that claim a port, in the order of their claims: the first has it.
    by_port: HashMap<u16, Vec<Key>>,
    /// Number of claims in each namespace.
    by_namespace: HashMap<String, usize>,
    /// At most one for each leased port.
    resting: HashMap<u16, RestingPort>,
}

/// The ports that a workload claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Claims {
    /// Ports in its status.
    reported: Ports,
    /// Ports that this process granted, until the status has them.
    granted: Option<Ports>,
}

/// A port that was given back.
#[derive(Debug)]
struct RestingPort {
    last: Key,
    service_port: u16,
    since: Instant,
}

// === impl PortLeases ===

impl PortLeases {
    /// No leases. Each namespace may have `quota` ports.
    pub fn new(quota: NonZeroU32) -> Self {
        Self { book: Mutex::default(), quota: usize::try_from(quota.get()).unwrap_or(usize::MAX) }
    }

    /// Updates a workload from its object; `None` after a deletion.
    pub fn observe(&self, key: &Key, sks: Option<&ServerlessService>, now: Instant) {
        self.lock().observe(key, sks, now);
    }

    /// Removes all other workloads, after a new list.
    pub fn retain(&self, alive: &BTreeSet<Key>, now: Instant) {
        let mut book = self.lock();
        let gone: Vec<Key> = book.claimants.keys().filter(|key| !alive.contains(key)).cloned().collect();
        gone.iter().for_each(|key| book.put(key, None, now));
    }

    /// No slice leads to these ports any more.
    pub fn left_by_slices(&self, ports: &[u16], now: Instant) {
        let mut book = self.lock();
        for port in ports {
            if let Some(resting) = book.resting.get_mut(port) {
                resting.since = now;
            }
        }
    }

    /// The activator port of each Service port of a workload. Ports that it has are kept, unless
    /// another workload claimed them first. `is_led_to` returns whether slices of other workloads
    /// lead to a port.
    ///
    /// # Errors
    /// When no port is free, or the namespace has its quota.
    pub fn grant(
        &self,
        key: &Key,
        uid: &str,
        service_ports: &BTreeSet<u16>,
        is_led_to: impl Fn(u16) -> bool,
        now: Instant,
    ) -> Result<Ports, PortLeaseError> {
        let mut book = self.lock();
        let own = book.claimants.get(key).cloned().unwrap_or_default();
        let in_namespace = book.by_namespace.get(&key.namespace).copied().unwrap_or_default();
        let request = PortRequest {
            uid,
            service_ports,
            current: own.current(),
            previous: &book.given_back(key, service_ports, own.current()),
            quota: self.quota.saturating_sub(in_namespace.saturating_sub(own.ports().len())),
        };
        let ports = lease_ports(&request, |port| book.is_taken(port, key, &is_led_to, now))?;
        if own.current() != &ports {
            book.put(key, Some(Claims { granted: Some(ports.clone()), ..own }), now);
        }
        Ok(ports)
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock()
    }
}

// === impl Book ===

impl Book {
    fn observe(&mut self, key: &Key, sks: Option<&ServerlessService>, now: Instant) {
        let claims = sks.map(|sks| {
            let reported = reported(sks);
            let granted = self.claimants.get(key).and_then(|claims| claims.granted.clone());
            Claims { granted: granted.filter(|granted| *granted != reported), reported }
        });
        if self.claimants.get(key) != claims.as_ref() {
            self.put(key, claims, now);
        }
    }

    fn put(&mut self, key: &Key, claims: Option<Claims>, now: Instant) {
        let after = claims.as_ref().map(Claims::ports).unwrap_or_default();
        let before = match claims {
            Some(claims) => self.claimants.insert(key.clone(), claims),
            None => self.claimants.remove(key),
        };
        let before = before.as_ref().map(Claims::ports).unwrap_or_default();
        for (port, service_port) in before.iter().filter(|(port, _)| !after.contains_key(port)) {
            self.give_back(*port, *service_port, key, now);
        }
        for port in after.keys().filter(|port| !before.contains_key(port)) {
            self.claim(*port, key);
        }
    }

    fn claim(&mut self, port: u16, key: &Key) {
        let claimants = self.by_port.entry(port).or_default();
        claimants.reserve_exact(1);
        claimants.push(key.clone());
        *self.by_namespace.entry(key.namespace.clone()).or_default() += 1;
    }

    fn give_back(&mut self, port: u16, service_port: u16, key: &Key, now: Instant) {
        if let Some(count) = self.by_namespace.get_mut(&key.namespace) {
            *count -= 1;
            if *count == 0 {
                self.by_namespace.remove(&key.namespace);
            }
        }
        let Some(claimants) = self.by_port.get_mut(&port) else { return };
        let had_it = claimants.first() == Some(key);
        claimants.retain(|other| other != key);
        if claimants.is_empty() {
            self.by_port.remove(&port);
        }
        if had_it {
            self.resting.insert(port, RestingPort { last: key.clone(), service_port, since: now });
        }
    }

    /// The resting ports that the workload had for Service ports that have none now.
    fn given_back(&self, key: &Key, service_ports: &BTreeSet<u16>, current: &Ports) -> Ports {
        if service_ports.iter().all(|port| current.contains_key(port)) {
            return Ports::new();
        }
        let own = self.resting.iter().filter(|(_, resting)| resting.last == *key);
        own.map(|(port, resting)| (resting.service_port, *port)).collect()
    }

    /// Whether the workload may not have a port: another one claimed it first, or it rests.
    fn is_taken(&self, port: u16, key: &Key, is_led_to: impl Fn(u16) -> bool, now: Instant) -> bool {
        let first = self.by_port.get(&port).and_then(|claimants| claimants.first());
        if first.is_some_and(|first| first != key) {
            return true;
        }
        match self.resting.get(&port) {
            Some(resting) if resting.last == *key => false,
            Some(resting) => is_led_to(port) || now.saturating_duration_since(resting.since) < REST,
            // Slices lead to a port without a claim when this process started after the deletion.
            None => first.is_none() && is_led_to(port),
        }
    }
}

/// The ports in the status of a ServerlessService that a PodAutoscaler controls.
fn reported(sks: &ServerlessService) -> Ports {
    let kind = PodAutoscaler::kind(&());
    let is_controlled = controller_of(sks)
        .is_some_and(|owner| owner.kind == kind && Some(&owner.name) == sks.metadata.name.as_ref());
    let ports = sks.status.iter().flat_map(|status| &status.ports).filter(|_| is_controlled);
    let ports = ports.filter(|port| LEASED_PORTS.contains(&port.activator_port));
    ports.map(|port| (port.service_port, port.activator_port)).collect()
}

// === impl Claims ===

impl Claims {
    /// The ports that are in force.
    fn current(&self) -> &Ports {
        self.granted.as_ref().unwrap_or(&self.reported)
    }

    /// All claimed ports, each with a Service port.
    fn ports(&self) -> BTreeMap<u16, u16> {
        let all = self.reported.iter().chain(self.granted.iter().flatten());
        all.map(|(service_port, port)| (*port, *service_port)).collect()
    }
}

#[cfg(test)]
#[path = "port_leases/tests.rs"]
mod tests;
