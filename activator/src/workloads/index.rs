//! WorkloadIndex: which pods belong to which workload.
//!
//! A selector is limited to its namespace. A change of a pod costs a lookup of its labels in the
//! [`SelectorIndex`], a change of a selector one pass over the pods of its namespace: pods change
//! with every start and end, selectors hardly ever.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use autoscaler::Key;

use super::selector_index::SelectorIndex;
use super::{ClusterChange, Pod, Workload, WorkloadUpdate};

/// All workloads, and the pods that are theirs or may become so.
#[derive(Debug, Default)]
pub struct WorkloadIndex {
    namespaces: HashMap<String, NamespaceIndex>,
}

#[derive(Debug, Default)]
struct NamespaceIndex {
    workloads: BTreeMap<String, Workload>,
    selectors: SelectorIndex,
    pods: BTreeMap<String, Pod>,
    /// Workloads that need no sidecar.
    without_sidecar: usize,
}

// === impl WorkloadIndex ===

impl WorkloadIndex {
    /// Whether the namespace has a workload without a sidecar.
    pub fn has_workload_without_sidecar(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.without_sidecar > 0)
    }

    /// Applies a change; returns the updates that follow. None follow from a change without a
    /// difference.
    pub fn apply(&mut self, change: ClusterChange) -> Vec<WorkloadUpdate> {
        let name = match &change {
            ClusterChange::Workload(key, _) | ClusterChange::Pod(key, _) => key.namespace.clone(),
        };
        let namespace = self.namespaces.entry(name.clone()).or_default();
        let updates = match change {
            ClusterChange::Workload(key, Some(workload)) => namespace.put_workload(key, workload),
            ClusterChange::Workload(key, None) => namespace.remove_workload(key),
            ClusterChange::Pod(key, pod) => namespace.set_pod(key, pod),
        };
        if namespace.workloads.is_empty() && namespace.pods.is_empty() {
            self.namespaces.remove(&name);
        }
        updates
    }
}

// === impl NamespaceIndex ===

impl NamespaceIndex {
    fn put_workload(&mut self, key: Key, workload: Workload) -> Vec<WorkloadUpdate> {
        let before = self.workloads.insert(key.name.clone(), workload.clone());
        self.count_sidecars(before.as_ref(), Some(&workload));
        self.index_selectors(&key.name, before.as_ref(), Some(&workload));
        if before.as_ref() == Some(&workload) {
            return Vec::new();
        }
        let mut updates = vec![WorkloadUpdate::Workload(key.clone(), workload.clone())];
        if before.as_ref().is_some_and(|before| before.has_endpoints_of(&workload)) {
            return updates;
        }
        let mut removed = Vec::new();
        for (name, pod) in &self.pods {
            let was = before.as_ref().and_then(|before| before.endpoint(pod));
            let is = workload.endpoint(pod);
            if was != is {
                let updates = if is.is_some() { &mut updates } else { &mut removed };
                updates.push(WorkloadUpdate::Pod(key.clone(), name.clone(), is));
            }
        }
        // Last, so that requests are not held for a moment when other pods take their place.
        updates.extend(removed);
        updates
    }

    fn remove_workload(&mut self, key: Key) -> Vec<WorkloadUpdate> {
        let before = self.workloads.remove(&key.name);
        self.count_sidecars(before.as_ref(), None);
        self.index_selectors(&key.name, before.as_ref(), None);
        before.map(|_| WorkloadUpdate::Removed(key)).into_iter().collect()
    }

    fn count_sidecars(&mut self, before: Option<&Workload>, after: Option<&Workload>) {
        let without = |workload: Option<&Workload>| {
            usize::from(workload.is_some_and(|workload| !workload.sidecar.is_required()))
        };
        self.without_sidecar = self.without_sidecar + without(after) - without(before);
    }

    /// An invalid selector selects no pod, so it is not indexed.
    fn index_selectors(&mut self, name: &str, before: Option<&Workload>, after: Option<&Workload>) {
        let [before, after] = [before, after].map(|workload| workload?.selector.as_ref());
        if before == after {
            return;
        }
        if let Some(selector) = before {
            self.selectors.remove(name, selector);
        }
        if let Some(selector) = after {
            self.selectors.insert(name, selector);
        }
    }

    fn set_pod(&mut self, key: Key, pod: Option<Pod>) -> Vec<WorkloadUpdate> {
        let before = match &pod {
            Some(pod) => self.pods.insert(key.name.clone(), pod.clone()),
            None => self.pods.remove(&key.name),
        };
        let versions = before.iter().chain(&pod);
        let names: BTreeSet<&str> =
            versions.flat_map(|version| self.selectors.candidates(&version.labels)).collect();
        let mut updates = Vec::new();
        for (name, workload) in names.into_iter().filter_map(|name| self.workloads.get_key_value(name)) {
            let endpoint = |pod: &Option<Pod>| pod.as_ref().and_then(|pod| workload.endpoint(pod));
            let (was, is) = (endpoint(&before), endpoint(&pod));
            let starting = pod.as_ref().filter(|pod| pod.is_starting() && workload.selects(pod));
            let workload = Key::new(key.namespace.clone(), name.clone());
            if let Some(pod) = starting {
                updates.push(WorkloadUpdate::Starting(workload.clone(), pod.uid.clone(), pod.scheduled));
            }
            if was != is {
                updates.push(WorkloadUpdate::Pod(workload, key.name.clone(), is));
            }
        }
        updates
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::selector::Selector;
    use autoscaler::routing::proximity::Proximity;

    use super::*;
    use crate::workloads::containers::{AppPort, Containers};
    use crate::workloads::readiness::PodProbe;
    use crate::workloads::{LeasedPort, PodEndpoint, PodRoute, SidecarMode};

    fn workload(selector: &str) -> Workload {
        Workload { selector: Some(Selector::parse(selector).unwrap()), ..Workload::default() }
    }

    fn pod(app: &str, ip: Option<&str>) -> Pod {
        Pod {
            uid: "1".into(),
            labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
            ip: ip.map(|ip| ip.parse().unwrap()),
            injected: true,
            ..Pod::default()
        }
    }

    /// A workload without a sidecar, with this app's port.
    fn without_sidecar(port: &str) -> Workload {
        let app_port = Some(AppPort::Name(port.into()));
        let port =
            LeasedPort { activator_port: 20001, pod_port: None, app_port, protocol: Default::default() };
        Workload { sidecar: SidecarMode::None, ports: vec![port], ..workload("app=web") }
    }

    /// A pod without a queue-proxy, with the port `http`.
    fn plain_pod() -> Pod {
        let all = serde_json::json!([{"name": "app", "ports": [{"name": "http", "containerPort": 8080}]}]);
        let all = serde_json::from_value(all).unwrap();
        let containers = Some(Containers { all, ..Containers::default() });
        Pod { injected: false, containers, ..pod("web", Some("10.0.0.1")) }
    }

    /// The last endpoint that the updates state.
    fn last(updates: &[WorkloadUpdate]) -> Option<PodEndpoint> {
        updates.iter().rev().find_map(|update| match update {
            WorkloadUpdate::Pod(_, _, endpoint) => Some(endpoint.clone()),
            _ => None,
        })?
    }

    fn key(name: &str) -> Key {
        Key::new("shop", name)
    }

    fn endpoint(ip: &str) -> Option<PodEndpoint> {
        let (route, probe) = (PodRoute::QueueProxy(Default::default()), Some(PodProbe::QueueProxy));
        let (uid, ip, proximity) = ("1".into(), ip.parse().unwrap(), Proximity::default());
        Some(PodEndpoint { uid, ip, proximity, ready: false, draining: false, route, probe })
    }

    fn put(index: &mut WorkloadIndex, name: &str, pod: Option<Pod>) -> Vec<WorkloadUpdate> {
        index.apply(ClusterChange::Pod(key(name), pod))
    }

    #[test]
    fn pod_is_an_endpoint_from_its_address_to_its_deletion() {
        let mut index = WorkloadIndex::default();
        index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web"))));
        let starting = WorkloadUpdate::Starting(key("web"), "1".into(), false);
        assert_eq!(put(&mut index, "web-1", Some(pod("web", None))), [starting]);
        assert_eq!(put(&mut index, "api-1", Some(pod("api", Some("10.0.0.9")))), []);

        let added = WorkloadUpdate::Pod(key("web"), "web-1".into(), endpoint("10.0.0.1"));
        assert_eq!(put(&mut index, "web-1", Some(pod("web", Some("10.0.0.1")))), [added]);
        let ending = Pod { ending: true, ..pod("web", Some("10.0.0.1")) };
        assert_eq!(
            put(&mut index, "web-1", Some(ending)),
            [WorkloadUpdate::Pod(key("web"), "web-1".into(), None)]
        );
        assert_eq!(put(&mut index, "web-1", None), []);
    }

    #[test]
    fn pod_that_delays_its_successor_is_an_endpoint_until_it_is_not_ready() {
        let mut index = WorkloadIndex::default();
        index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web"))));
        let ending =
            |ready| Pod { ready, ending: true, delays_successor: true, ..pod("web", Some("10.0.0.1")) };
        let draining = last(&put(&mut index, "web-0", Some(ending(true)))).unwrap();
        assert!(draining.draining && draining.ready && draining.probe.is_none());
        assert_eq!(last(&put(&mut index, "web-0", Some(ending(false)))), None);
        let other = Pod { delays_successor: false, ..ending(true) };
        assert_eq!(last(&put(&mut index, "web-1", Some(other))), None, "its successor starts beside it");
    }

    #[test]
    fn workload_gains_existing_pods_and_loses_unselected_ones() {
        let mut index = WorkloadIndex::default();
        put(&mut index, "web-1", Some(pod("web", Some("10.0.0.1"))));
        let updates = index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web"))));
        assert_eq!(
            updates,
            [
                WorkloadUpdate::Workload(key("web"), workload("app=web")),
                WorkloadUpdate::Pod(key("web"), "web-1".into(), endpoint("10.0.0.1"))
            ]
        );
        let updates = index.apply(ClusterChange::Workload(key("web"), Some(workload("app=api"))));
        assert_eq!(updates.last(), Some(&WorkloadUpdate::Pod(key("web"), "web-1".into(), None)));
        assert_eq!(index.apply(ClusterChange::Workload(key("web"), Some(workload("app=api")))), []);
    }

    #[test]
    fn keeps_namespaces_apart_and_removes_empty_ones() {
        let mut index = WorkloadIndex::default();
        index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web"))));
        let elsewhere = Key::new("other", "web-1");
        assert_eq!(
            index.apply(ClusterChange::Pod(elsewhere.clone(), Some(pod("web", Some("10.0.0.1"))))),
            []
        );
        index.apply(ClusterChange::Pod(elsewhere, None));
        assert_eq!(
            index.apply(ClusterChange::Workload(key("web"), None)),
            [WorkloadUpdate::Removed(key("web"))]
        );
        assert!(index.namespaces.is_empty());
    }

    #[test]
    fn changed_selector_adds_pods_before_it_removes_others() {
        let mut index = WorkloadIndex::default();
        index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web,track=a"))));
        for (name, track, ip) in [("web-1", "a", "10.0.0.1"), ("web-2", "b", "10.0.0.2")] {
            let mut pod = pod("web", Some(ip));
            pod.labels.insert("track".to_owned(), track.to_owned());
            put(&mut index, name, Some(pod));
        }
        let changed = workload("app=web,track=b");
        let updates = index.apply(ClusterChange::Workload(key("web"), Some(changed.clone())));
        let expected = [
            WorkloadUpdate::Workload(key("web"), changed),
            WorkloadUpdate::Pod(key("web"), "web-2".into(), endpoint("10.0.0.2")),
            WorkloadUpdate::Pod(key("web"), "web-1".into(), None),
        ];
        assert_eq!(updates, expected);
    }

    #[test]
    fn pod_without_sidecar_belongs_only_to_workloads_that_need_none() {
        let mut index = WorkloadIndex::default();
        index.apply(ClusterChange::Workload(key("web"), Some(workload("app=web"))));
        assert_eq!(put(&mut index, "web-1", Some(plain_pod())), []);
        let put = |index: &mut WorkloadIndex, workload| {
            index.apply(ClusterChange::Workload(key("web"), Some(workload)))
        };
        let endpoint = last(&put(&mut index, without_sidecar("http"))).unwrap();
        assert!(matches!(&endpoint.route, PodRoute::App(ports) if ports.len() == 1), "{endpoint:?}");
        assert!(index.has_workload_without_sidecar("shop"));
        assert_eq!(last(&put(&mut index, without_sidecar("grpc"))), None, "the pod has no such port");
        assert_eq!(last(&put(&mut index, without_sidecar("http"))), Some(endpoint));
        let updates = put(&mut index, workload("app=web"));
        let removed = WorkloadUpdate::Pod(key("web"), "web-1".into(), None);
        assert_eq!(updates.last(), Some(&removed));
        assert!(!index.has_workload_without_sidecar("shop"));
    }

    #[test]
    fn pod_with_sidecar_keeps_its_route_when_the_workload_needs_none() {
        let mut index = WorkloadIndex::default();
        put(&mut index, "web-1", Some(pod("web", Some("10.0.0.1"))));
        let updates = index.apply(ClusterChange::Workload(key("web"), Some(without_sidecar("http"))));
        assert_eq!(last(&updates), endpoint("10.0.0.1"));
    }

    #[test]
    fn namespace_is_left_with_its_last_workload_without_a_sidecar() {
        let mut index = WorkloadIndex::default();
        for name in ["a", "b", "b"] {
            index.apply(ClusterChange::Workload(key(name), Some(without_sidecar("http"))));
        }
        index.apply(ClusterChange::Workload(key("a"), None));
        assert!(index.has_workload_without_sidecar("shop"));
        index.apply(ClusterChange::Workload(key("b"), None));
        assert!(!index.has_workload_without_sidecar("shop"));
    }
}
