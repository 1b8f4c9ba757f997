//! PortLeases: the activator ports in statuses, and those that this process granted since.
//!
//! Filled by the watch of ServerlessServices, read by their reconciler. Reconciles run concurrently
//! and a new status is not in the store yet, so grants are remembered: otherwise two workloads
//! could get the same free port. If two zero-scalers grant the same port, the younger workload gets
//! another one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use autoscaler::routing::port_lease::{PortsExhausted, lease_ports};
use parking_lot::{Mutex, MutexGuard};

/// Service port to activator port.
pub type Ports = BTreeMap<u16, u16>;

/// All leased ports and their holders.
#[derive(Debug, Default)]
pub struct PortLeases(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    holders: HashMap<Key, Holder>,
    /// More than one holder only while two zero-scalers have granted the same port.
    by_port: HashMap<u16, Vec<Key>>,
}

/// A workload's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holder {
    /// Creation time in Unix seconds: of two holders of one port, the older one keeps it.
    created: i64,
    /// Ports in its status.
    reported: Ports,
    /// Ports that this process granted.
    granted: Option<Ports>,
}

// === impl PortLeases ===

impl PortLeases {
    /// Updates a workload from its object; `None` after a deletion.
    pub fn observe(&self, key: &Key, sks: Option<&ServerlessService>) {
        self.lock().see(key, sks);
    }

    /// Removes all other workloads, after a new list.
    pub fn retain(&self, alive: &BTreeSet<Key>) {
        let mut book = self.lock();
        let gone: Vec<Key> = book.holders.keys().filter(|key| !alive.contains(key)).cloned().collect();
        gone.iter().for_each(|key| book.see(key, None));
    }

    /// The activator port of each Service port of a workload. Ports that it has are kept, unless
    /// another workload has precedence.
    ///
    /// # Errors
    /// When no port is free.
    pub fn grant(&self, key: &Key, service_ports: &BTreeSet<u16>) -> Result<Ports, PortsExhausted> {
        let mut book = self.lock();
        let own = book.holders.get(key).cloned().unwrap_or_default();
        let current = own.granted.as_ref().unwrap_or(&own.reported);
        let ports =
            lease_ports(key, service_ports, current, |port| book.is_others(port, key, &own, current))?;
        if own.granted.as_ref() != Some(&ports) {
            book.put(key, Some(Holder { granted: Some(ports.clone()), ..own }));
        }
        Ok(ports)
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock()
    }
}

// === impl Book ===

impl Book {
    fn see(&mut self, key: &Key, sks: Option<&ServerlessService>) {
        let holder = sks.map(|sks| {
            let ports = sks.status.iter().flat_map(|status| &status.ports);
            Holder {
                created: sks.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |t| t.0.as_second()),
                reported: ports.map(|port| (port.service_port, port.activator_port)).collect(),
                granted: self.holders.get(key).and_then(|holder| holder.granted.clone()),
            }
        });
        if self.holders.get(key) != holder.as_ref() {
            self.put(key, holder);
        }
    }

    fn put(&mut self, key: &Key, holder: Option<Holder>) {
        let before = match &holder {
            Some(holder) => self.holders.insert(key.clone(), holder.clone()),
            None => self.holders.remove(key),
        };
        for port in before.iter().flat_map(Holder::ports) {
            if let Some(keys) = self.by_port.get_mut(&port) {
                keys.retain(|other| other != key);
                if keys.is_empty() {
                    self.by_port.remove(&port);
                }
            }
        }
        for port in holder.iter().flat_map(Holder::ports) {
            let holders = self.by_port.entry(port).or_default();
            if !holders.contains(key) {
                holders.reserve_exact(1);
                holders.push(key.clone());
            }
        }
    }

    /// Whether another workload has precedence on a port.
    fn is_others(&self, port: u16, key: &Key, own: &Holder, current: &Ports) -> bool {
        let holds = current.values().any(|held| *held == port);
        let others = self.by_port.get(&port).into_iter().flatten().filter(|other| *other != key);
        let mut others = others.filter_map(|other| Some((other, self.holders.get(other)?)));
        others.any(|(other, holder)| {
            let granted = holder.granted.iter().flat_map(BTreeMap::values).any(|held| *held == port);
            granted || !holds || (own.created, key) >= (holder.created, other)
        })
    }
}

// === impl Holder ===

impl Holder {
    fn ports(&self) -> impl Iterator<Item = u16> {
        self.reported.values().chain(self.granted.iter().flat_map(BTreeMap::values)).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn see(leases: &PortLeases, name: &str, created: i64, ports: &[(u16, u16)]) -> Key {
        let ports: Vec<_> = ports
            .iter()
            .map(|(service, activator)| {
                json!({"name": "http", "servicePort": service, "activatorPort": activator, "podPort": 8012})
            })
            .collect();
        let created = jiff::Timestamp::from_second(created).unwrap().to_string();
        let sks: ServerlessService = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created},
            "spec": {"service": name, "selector": "app=a", "mode": "Proxy", "numActivators": 2, "containerConcurrency": 0},
            "status": {"ports": ports, "activators": 0},
        }))
        .unwrap();
        let key = Key::new("shop", name);
        leases.observe(&key, Some(&sks));
        key
    }

    #[test]
    fn granted_port_is_taken_before_status_has_it() {
        let leases = PortLeases::default();
        let all: Vec<Key> = (0..200).map(|i| see(&leases, &format!("web-{i}"), i, &[])).collect();
        let mut seen = BTreeSet::new();
        for key in &all {
            let ports = leases.grant(key, &BTreeSet::from([80, 443])).unwrap();
            assert!(ports.values().all(|port| seen.insert(*port)), "{ports:?}");
            assert_eq!(leases.grant(key, &BTreeSet::from([80, 443])), Ok(ports));
        }
    }

    #[test]
    fn older_of_two_holders_keeps_port() {
        let leases = PortLeases::default();
        let old = see(&leases, "b", 1, &[(80, 20000)]);
        let young = see(&leases, "a", 2, &[(80, 20000)]);
        assert_eq!(leases.grant(&old, &BTreeSet::from([80])), Ok(BTreeMap::from([(80, 20000)])));
        assert_ne!(leases.grant(&young, &BTreeSet::from([80])).unwrap()[&80], 20000);
    }

    #[test]
    fn ports_of_deleted_workload_are_free() {
        let leases = PortLeases::default();
        let first = see(&leases, "a", 1, &[]);
        let ports = leases.grant(&first, &BTreeSet::from([80])).unwrap();
        let second = see(&leases, "b", 2, &[(80, ports[&80])]);
        assert_ne!(leases.grant(&second, &BTreeSet::from([80])), Ok(ports.clone()));
        leases.retain(&BTreeSet::from([second.clone()]));
        leases.observe(&second, None);
        let third = see(&leases, "c", 3, &[(80, ports[&80])]);
        assert_eq!(leases.grant(&third, &BTreeSet::from([80])), Ok(ports));
    }
}
