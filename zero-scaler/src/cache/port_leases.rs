//! Who holds which activator port: what the statuses say, and what this process granted since.
//!
//! Fed by the watch of ServerlessServices; asked by the reconcile of each. Several are looked at at once, and a status just
//! written is not in the store yet: without the memory of what was granted two of them could be given the same free port.
//! Between two zero-scalers only the statuses speak: should both grant one port, the later workload gives it up.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use autoscaler::routing::port_lease::{PortsExhausted, lease_ports};
use parking_lot::{Mutex, MutexGuard};

/// Service port to activator port.
pub type Ports = BTreeMap<u16, u16>;

/// All ports, and their holders.
#[derive(Debug, Default)]
pub struct PortLeases(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    holders: HashMap<Key, Holder>,
    /// More than one for the moment in which two zero-scalers granted one port.
    by_port: HashMap<u16, Vec<Key>>,
}

/// A workload's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Holder {
    /// Unix seconds of its creation: the older of two that hold one port keeps it.
    created: i64,
    /// Those in its status.
    told: Ports,
    /// Those that it was granted by this process.
    granted: Option<Ports>,
}

// === impl Leases ===

impl PortLeases {
    /// Takes in an object as the watch has it; `None`: it is gone.
    pub fn see(&self, key: &Key, sks: Option<&ServerlessService>) {
        self.lock().see(key, sks);
    }

    /// Forgets all but these, after a fresh list.
    pub fn keep(&self, alive: &BTreeSet<Key>) {
        let mut book = self.lock();
        let gone: Vec<Key> = book.holders.keys().filter(|key| !alive.contains(key)).cloned().collect();
        gone.iter().for_each(|key| book.see(key, None));
    }

    /// The activator port of each of a workload's Service ports: those that it has, where nobody has a better right to them.
    ///
    /// # Errors
    /// When no port is free.
    pub fn grant(&self, key: &Key, service_ports: &BTreeSet<u16>) -> Result<Ports, PortsExhausted> {
        let mut book = self.lock();
        let own = book.holders.get(key).cloned().unwrap_or_default();
        let current = own.granted.as_ref().unwrap_or(&own.told);
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
                told: ports.map(|port| (port.service_port, port.activator_port)).collect(),
                granted: self.holders.get(key).and_then(|known| known.granted.clone()),
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

    /// Whether somebody else has a better right to a port that `own` has, or would like to have.
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
        self.told.values().chain(self.granted.iter().flat_map(BTreeMap::values)).copied()
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
        leases.see(&key, Some(&sks));
        key
    }

    #[test]
    fn a_port_granted_is_taken_before_any_status_shows_it() {
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
    fn of_two_that_hold_one_port_the_older_keeps_it() {
        let leases = PortLeases::default();
        let old = see(&leases, "b", 1, &[(80, 20000)]);
        let young = see(&leases, "a", 2, &[(80, 20000)]);
        assert_eq!(leases.grant(&old, &BTreeSet::from([80])), Ok(BTreeMap::from([(80, 20000)])));
        assert_ne!(leases.grant(&young, &BTreeSet::from([80])).unwrap()[&80], 20000);
    }

    #[test]
    fn the_ports_of_who_is_gone_are_free() {
        let leases = PortLeases::default();
        let first = see(&leases, "a", 1, &[]);
        let ports = leases.grant(&first, &BTreeSet::from([80])).unwrap();
        let second = see(&leases, "b", 2, &[(80, ports[&80])]);
        assert_ne!(leases.grant(&second, &BTreeSet::from([80])), Ok(ports.clone()));
        leases.keep(&BTreeSet::from([second.clone()]));
        leases.see(&second, None);
        let third = see(&leases, "c", 3, &[(80, ports[&80])]);
        assert_eq!(leases.grant(&third, &BTreeSet::from([80])), Ok(ports));
    }
}
