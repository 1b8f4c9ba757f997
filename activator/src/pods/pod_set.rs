//! PodSet: the pods of one workload, and which of them may take requests.
//!
//! ```text
//!              its Ready condition becomes true, or it answers a probe
//!  unverified ───────────────────────────────────────────────────────► usable
//!      ▲                                                                 │
//!      └─ ejected: it refused a connection, or is no longer Ready ───────┘
//! ```
//!
//! The Ready condition makes a pod usable only when it changes to true. A pod that refused a
//! connection while it is Ready needs a probe to become usable again. A pod without a
//! [probe](crate::workloads::readiness) becomes usable by its condition alone.
//!
//! A draining pod takes requests while no other pod does. It has no probe: once it refuses a
//! connection or is no longer Ready, requests wait for its successor.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use crate::pods::pod_tracker::PodTracker;
use crate::workloads::PodEndpoint;

/// The pods of one workload. Owned by its queue, behind a lock.
#[derive(Debug, Default)]
pub struct PodSet {
    by_name: BTreeMap<String, PodEntry>,
    /// In order of address.
    usable: Vec<Arc<PodTracker>>,
    /// Those that are draining and would be usable, in order of address.
    draining: Vec<Arc<PodTracker>>,
}

#[derive(Debug)]
struct PodEntry {
    tracker: Arc<PodTracker>,
    /// The Ready condition, as last seen.
    ready: bool,
    usable: bool,
    draining: bool,
    probing: bool,
}

// === impl PodSet ===

impl PodSet {
    /// The pods that may take requests, in order of address.
    pub fn usable(&self) -> &[Arc<PodTracker>] {
        if self.usable.is_empty() { &self.draining } else { &self.usable }
    }

    /// The usable pod at this address.
    pub fn usable_at(&self, ip: IpAddr) -> Option<&Arc<PodTracker>> {
        let usable = self.usable();
        usable.get(usable.binary_search_by_key(&ip, |pod| pod.ip).ok()?)
    }

    /// All pods, usable or not. All activators see the same ones.
    pub fn all(&self) -> impl Iterator<Item = &PodTracker> {
        self.by_name.values().map(|entry| &*entry.tracker)
    }

    /// The addresses of all pods.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.all().map(|pod| pod.ip)
    }

    /// Whether every pod was seen first after `moment`, so that there was none at that time.
    pub fn are_all_newer_than(&self, moment: Instant) -> bool {
        self.by_name.values().all(|entry| entry.tracker.seen > moment)
    }

    /// Whether any pod may take requests.
    pub fn has_usable(&self) -> bool {
        !self.usable().is_empty()
    }

    /// Any pod that may take requests.
    pub fn any_usable(&self) -> Option<Arc<PodTracker>> {
        self.usable().first().cloned()
    }

    /// Applies the state of the pod of this name.
    pub fn put(&mut self, name: &str, endpoint: PodEndpoint, now: Instant) {
        let before = self.by_name.get(name).map(|e| (e.tracker.uid.as_str(), e.tracker.ip));
        if before != Some((endpoint.uid.as_str(), endpoint.ip)) {
            self.remove(name);
            let tracker = Arc::new(PodTracker::new(endpoint.clone(), now));
            let entry = PodEntry { tracker, ready: false, usable: false, draining: false, probing: false };
            self.by_name.insert(name.to_owned(), entry);
        }
        let Some(entry) = self.by_name.get_mut(name) else { return };
        let is_ready = endpoint.ready;
        let was_ready = std::mem::replace(&mut entry.ready, is_ready);
        let begins_to_drain = !std::mem::replace(&mut entry.draining, endpoint.draining) && endpoint.draining;
        let was_usable = entry.usable;
        let tracker = entry.tracker.clone();
        tracker.set_probe(endpoint.probe);
        if begins_to_drain && was_usable {
            self.eject(&tracker);
            self.mark_usable(&tracker, now);
        }
        match (was_ready, is_ready) {
            (false, true) => self.mark_usable(&tracker, now),
            (true, false) => self.eject(&tracker),
            _ => {}
        }
    }

    /// Removes the pod of this name.
    pub fn remove(&mut self, name: &str) {
        if let Some(entry) = self.by_name.remove(name) {
            entry.tracker.mark_removed();
            if entry.usable {
                self.remove_usable(&entry.tracker);
            }
        }
    }

    /// Makes the pod usable: it answered a probe, or became Ready.
    pub fn mark_usable(&mut self, pod: &Arc<PodTracker>, now: Instant) {
        let Some(entry) = self.entry(pod) else { return };
        if !std::mem::replace(&mut entry.usable, true) {
            let draining = entry.draining;
            pod.mark_verified(now);
            let list = if draining { &mut self.draining } else { &mut self.usable };
            let at = list.partition_point(|other| other.ip < pod.ip);
            list.insert(at, pod.clone());
        }
    }

    /// Ejects the pod until it answers a probe.
    pub fn eject(&mut self, pod: &Arc<PodTracker>) {
        let Some(entry) = self.entry(pod) else { return };
        if std::mem::replace(&mut entry.usable, false) {
            self.remove_usable(pod);
        }
    }

    /// The pods to probe, which are neither usable nor being probed; marks them as being probed.
    pub fn take_unprobed(&mut self) -> Vec<Arc<PodTracker>> {
        let unprobed = self.by_name.values_mut().filter(|entry| entry.needs_probe());
        unprobed
            .map(|entry| {
                entry.probing = true;
                entry.tracker.clone()
            })
            .collect()
    }

    /// Notes that the probe of this pod has ended.
    pub fn probe_ended(&mut self, pod: &Arc<PodTracker>) {
        if let Some(entry) = self.entry(pod) {
            entry.probing = false;
        }
    }

    /// Whether there is a pod to probe.
    pub fn has_unprobed(&self) -> bool {
        self.by_name.values().any(PodEntry::needs_probe)
    }

    fn remove_usable(&mut self, pod: &Arc<PodTracker>) {
        self.usable.retain(|other| !Arc::ptr_eq(other, pod));
        self.draining.retain(|other| !Arc::ptr_eq(other, pod));
    }

    /// A linear search: pods are few and this is rare.
    fn entry(&mut self, pod: &Arc<PodTracker>) -> Option<&mut PodEntry> {
        self.by_name.values_mut().find(|entry| Arc::ptr_eq(&entry.tracker, pod))
    }
}

// === impl PodEntry ===

impl PodEntry {
    fn needs_probe(&self) -> bool {
        !self.usable && !self.probing && self.tracker.probe().is_some()
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::routing::proximity::Proximity;

    use crate::workloads::PodRoute;
    use crate::workloads::readiness::PodProbe;

    use super::*;

    fn endpoint(ip: u8, ready: bool) -> PodEndpoint {
        let (route, probe) = (PodRoute::QueueProxy(Default::default()), Some(PodProbe::QueueProxy));
        let (uid, ip, proximity) = (format!("uid-{ip}"), [10, 0, 0, ip].into(), Proximity::default());
        PodEndpoint { uid, ip, proximity, ready, draining: false, route, probe }
    }

    fn put(set: &mut PodSet, ip: u8, ready: bool) {
        set.put(&format!("pod-{ip}"), endpoint(ip, ready), Instant::now());
    }

    fn first(set: &PodSet) -> Arc<PodTracker> {
        set.usable().first().unwrap().clone()
    }

    #[test]
    fn answered_probe_makes_pod_usable_before_it_is_ready() {
        let mut set = PodSet::default();
        put(&mut set, 1, false);
        let pod = set.take_unprobed().pop().unwrap();
        assert!(set.take_unprobed().is_empty());
        set.mark_usable(&pod, Instant::now());
        assert_eq!(set.usable_at(pod.ip).map(|pod| pod.uid.as_str()), Some("uid-1"));
        put(&mut set, 1, false);
        assert!(set.has_usable(), "an unchanged Ready condition changes nothing");
    }

    #[test]
    fn ejected_pod_becomes_usable_by_a_probe_only() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        set.eject(&first(&set));
        put(&mut set, 1, true);
        assert!(!set.has_usable() && set.has_unprobed());
        let pod = set.take_unprobed().pop().unwrap();
        set.mark_usable(&pod, Instant::now());
        set.probe_ended(&pod);
        assert!(set.has_usable() && !set.has_unprobed());
    }

    #[test]
    fn pod_that_is_no_longer_ready_is_probed_again() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        put(&mut set, 1, false);
        assert!(!set.has_usable() && set.has_unprobed());
        put(&mut set, 1, true);
        assert!(set.has_usable());
    }

    #[test]
    fn successor_of_same_name_starts_unverified() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        let first = first(&set);
        set.put("pod-1", PodEndpoint { uid: "other".into(), ..endpoint(1, false) }, Instant::now());
        assert!(!set.has_usable());
        set.mark_usable(&first, Instant::now());
        assert!(!set.has_usable(), "a probe of the first pod does not verify its successor");
    }

    #[test]
    fn draining_pod_is_usable_only_while_no_other_pod_is() {
        let mut set = PodSet::default();
        let drain = |set: &mut PodSet, ready| {
            let draining = PodEndpoint { draining: true, probe: None, ..endpoint(1, ready) };
            set.put("pod-1", draining, Instant::now());
        };
        let usable = |set: &PodSet| set.usable().iter().map(|pod| pod.uid.clone()).collect::<Vec<_>>();
        put(&mut set, 1, true);
        put(&mut set, 2, true);
        drain(&mut set, true);
        assert_eq!(usable(&set), ["uid-2"]);
        set.remove("pod-2");
        assert_eq!(usable(&set), ["uid-1"]);
        assert!(set.usable_at([10, 0, 0, 1].into()).is_some() && !set.has_unprobed());
        put(&mut set, 3, true);
        assert_eq!(usable(&set), ["uid-3"]);
        set.remove("pod-3");
        set.eject(&first(&set));
        assert!(!set.has_usable() && !set.has_unprobed(), "it refused a connection");
        set.put("pod-1", PodEndpoint { uid: "successor".into(), ..endpoint(1, true) }, Instant::now());
        assert_eq!(usable(&set), ["successor"]);
    }

    #[test]
    fn pod_without_a_probe_is_probed_once_it_has_one() {
        let mut set = PodSet::default();
        let put = |set: &mut PodSet, ready, probe| {
            set.put("pod-1", PodEndpoint { probe, ..endpoint(1, ready) }, Instant::now());
        };
        let connection = || Some(PodProbe::Connection(([10, 0, 0, 1], 80).into()));
        put(&mut set, false, None);
        assert!(!set.has_unprobed() && set.take_unprobed().is_empty());
        put(&mut set, true, connection());
        assert!(set.has_usable(), "by its Ready condition");
        set.eject(&first(&set));
        assert!(set.has_unprobed());
        put(&mut set, false, None);
        assert!(!set.has_unprobed(), "it is no longer Ready");
        put(&mut set, true, connection());
        assert!(set.has_usable());
    }
}
