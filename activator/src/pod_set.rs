//! PodSet: the pods of one workload, and which of them may take requests.
//!
//! ```text
//!            Kubernetes says Ready, or its probe is answered
//!  unproven ────────────────────────────────────────────────► usable
//!      ▲                                                        │
//!      └─ it refused a connection, or went from Ready to not ───┘
//! ```
//!
//! A pod that Kubernetes calls Ready is trusted once, when it becomes so: after it refused a connection only a probe
//! brings it back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::Instant;

use crate::pod_tracker::PodTracker;
use crate::workloads::Endpoint;

/// The pods of one workload. Owned by its queue, behind a lock.
#[derive(Debug, Default)]
pub struct PodSet {
    by_name: BTreeMap<String, Entry>,
    /// In order of address.
    usable: Vec<Arc<PodTracker>>,
}

#[derive(Debug)]
struct Entry {
    tracker: Arc<PodTracker>,
    /// What Kubernetes said last.
    ready: bool,
    usable: bool,
    probing: bool,
}

// === impl PodSet ===

impl PodSet {
    /// The pods that may take requests, in order of address.
    pub fn usable(&self) -> &[Arc<PodTracker>] {
        &self.usable
    }

    /// The usable pod at this address.
    pub fn usable_at(&self, ip: IpAddr) -> Option<&Arc<PodTracker>> {
        self.usable.get(self.usable.binary_search_by_key(&ip, |pod| pod.ip).ok()?)
    }

    /// The addresses of all pods, usable or not: what every activator sees alike.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.by_name.values().map(|entry| entry.tracker.ip)
    }

    /// Whether any pod may take requests.
    pub fn has_usable(&self) -> bool {
        !self.usable.is_empty()
    }

    /// Any pod that may take requests.
    pub fn any_usable(&self) -> Option<Arc<PodTracker>> {
        self.usable.first().cloned()
    }

    /// What Kubernetes says of the pod of this name.
    pub fn put(&mut self, name: &str, endpoint: Endpoint, now: Instant) {
        let known = self.by_name.get(name).map(|e| (e.tracker.uid.as_str(), e.tracker.ip));
        if known != Some((endpoint.uid.as_str(), endpoint.ip)) {
            self.remove(name);
            let tracker = Arc::new(PodTracker::new(endpoint.uid, endpoint.ip, now));
            let entry = Entry { tracker, ready: false, usable: false, probing: false };
            self.by_name.insert(name.to_owned(), entry);
        }
        let Some(entry) = self.by_name.get_mut(name) else { return };
        let was_ready = std::mem::replace(&mut entry.ready, endpoint.ready);
        let tracker = entry.tracker.clone();
        match (was_ready, endpoint.ready) {
            (false, true) => self.prove(&tracker, now),
            (true, false) => self.set_aside(&tracker),
            _ => {}
        }
    }

    /// The pod of this name takes no more requests.
    pub fn remove(&mut self, name: &str) {
        if let Some(entry) = self.by_name.remove(name) {
            entry.tracker.retire();
            if entry.usable {
                self.leave(&entry.tracker);
            }
        }
    }

    /// The pod takes requests, by its own word or Kubernetes'.
    pub fn prove(&mut self, pod: &Arc<PodTracker>, now: Instant) {
        let Some(entry) = self.entry(pod) else { return };
        if !std::mem::replace(&mut entry.usable, true) {
            pod.prove(now);
            let at = self.usable.partition_point(|other| other.ip < pod.ip);
            self.usable.insert(at, pod.clone());
        }
    }

    /// The pod must be probed before it gets another request.
    pub fn set_aside(&mut self, pod: &Arc<PodTracker>) {
        let Some(entry) = self.entry(pod) else { return };
        if std::mem::replace(&mut entry.usable, false) {
            self.leave(pod);
        }
    }

    /// The pods that nobody probes and somebody should; they count as probed from now on.
    pub fn take_unprobed(&mut self) -> Vec<Arc<PodTracker>> {
        let unprobed = self.by_name.values_mut().filter(|entry| !entry.usable && !entry.probing);
        unprobed
            .map(|entry| {
                entry.probing = true;
                entry.tracker.clone()
            })
            .collect()
    }

    /// Nobody probes this pod any more.
    pub fn probe_ended(&mut self, pod: &Arc<PodTracker>) {
        if let Some(entry) = self.entry(pod) {
            entry.probing = false;
        }
    }

    /// Whether there is a pod that is neither usable nor probed.
    pub fn has_unprobed(&self) -> bool {
        self.by_name.values().any(|entry| !entry.usable && !entry.probing)
    }

    fn leave(&mut self, pod: &Arc<PodTracker>) {
        self.usable.retain(|other| !Arc::ptr_eq(other, pod));
    }

    /// Pods are few and this is rare; an index by tracker would be one more thing to keep true.
    fn entry(&mut self, pod: &Arc<PodTracker>) -> Option<&mut Entry> {
        self.by_name.values_mut().find(|entry| Arc::ptr_eq(&entry.tracker, pod))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(ip: u8, ready: bool) -> Endpoint {
        Endpoint { uid: format!("uid-{ip}"), ip: [10, 0, 0, ip].into(), ready }
    }

    fn put(set: &mut PodSet, ip: u8, ready: bool) {
        set.put(&format!("pod-{ip}"), endpoint(ip, ready), Instant::now());
    }

    fn first(set: &PodSet) -> Arc<PodTracker> {
        set.usable().first().unwrap().clone()
    }

    #[test]
    fn a_pod_is_proven_by_its_probe_long_before_it_is_ready() {
        let mut set = PodSet::default();
        put(&mut set, 1, false);
        let pod = set.take_unprobed().pop().unwrap();
        assert!(set.take_unprobed().is_empty());
        set.prove(&pod, Instant::now());
        assert_eq!(set.usable_at(pod.ip).map(|pod| pod.uid.as_str()), Some("uid-1"));
        put(&mut set, 1, false);
        assert!(set.has_usable(), "an unchanged word of Kubernetes changes nothing");
    }

    #[test]
    fn a_pod_that_refused_comes_back_by_a_probe_only() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        set.set_aside(&first(&set));
        put(&mut set, 1, true);
        assert!(!set.has_usable() && set.has_unprobed());
        let pod = set.take_unprobed().pop().unwrap();
        set.prove(&pod, Instant::now());
        set.probe_ended(&pod);
        assert!(set.has_usable() && !set.has_unprobed());
    }

    #[test]
    fn a_pod_that_is_no_longer_ready_is_probed_anew() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        put(&mut set, 1, false);
        assert!(!set.has_usable() && set.has_unprobed());
        put(&mut set, 1, true);
        assert!(set.has_usable());
    }

    #[test]
    fn a_successor_of_the_same_name_starts_unproven() {
        let mut set = PodSet::default();
        put(&mut set, 1, true);
        let first = first(&set);
        set.put("pod-1", Endpoint { uid: "other".into(), ..endpoint(1, false) }, Instant::now());
        assert!(!set.has_usable());
        set.prove(&first, Instant::now());
        assert!(!set.has_usable(), "the word of the first says nothing of its successor");
    }
}
