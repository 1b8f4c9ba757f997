//! WorkloadIndex: which pods belong to which workload.
//!
//! A selector is limited to its namespace, so a change costs one pass over the workloads or pods of
//! one namespace.

use std::collections::{BTreeMap, HashMap};

use autoscaler::Key;

use super::{ClusterChange, Pod, Workload, WorkloadUpdate};

/// All workloads, and all pods with a queue-proxy.
#[derive(Debug, Default)]
pub struct WorkloadIndex {
    namespaces: HashMap<String, NamespaceIndex>,
}

#[derive(Debug, Default)]
struct NamespaceIndex {
    workloads: BTreeMap<String, Workload>,
    pods: BTreeMap<String, Pod>,
}

// === impl WorkloadIndex ===

impl WorkloadIndex {
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
        if before.as_ref() == Some(&workload) {
            return Vec::new();
        }
        let mut updates = vec![WorkloadUpdate::Workload(key.clone(), workload.clone())];
        if before.as_ref().map(|b| &b.selector) == Some(&workload.selector) {
            return updates;
        }
        for (name, pod) in &self.pods {
            let was = before.as_ref().is_some_and(|b| b.selects(pod));
            let endpoint = pod.endpoint().filter(|_| workload.selects(pod));
            if was || endpoint.is_some() {
                updates.push(WorkloadUpdate::Pod(key.clone(), name.clone(), endpoint));
            }
        }
        updates
    }

    fn remove_workload(&mut self, key: Key) -> Vec<WorkloadUpdate> {
        self.workloads.remove(&key.name).map(|_| WorkloadUpdate::Removed(key)).into_iter().collect()
    }

    fn set_pod(&mut self, key: Key, pod: Option<Pod>) -> Vec<WorkloadUpdate> {
        let before = match &pod {
            Some(pod) => self.pods.insert(key.name.clone(), pod.clone()),
            None => self.pods.remove(&key.name),
        };
        let mut updates = Vec::new();
        for (name, workload) in &self.workloads {
            let endpoint =
                |pod: &Option<Pod>| pod.as_ref().filter(|pod| workload.selects(pod)).and_then(Pod::endpoint);
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

    use super::*;
    use crate::workloads::PodEndpoint;

    fn workload(selector: &str) -> Workload {
        Workload { selector: Some(Selector::parse(selector).unwrap()), ..Workload::default() }
    }

    fn pod(app: &str, ip: Option<&str>) -> Pod {
        Pod {
            uid: "1".into(),
            labels: BTreeMap::from([("app".to_owned(), app.to_owned())]),
            ip: ip.map(|ip| ip.parse().unwrap()),
            ..Pod::default()
        }
    }

    fn key(name: &str) -> Key {
        Key::new("shop", name)
    }

    fn endpoint(ip: &str) -> Option<PodEndpoint> {
        Some(PodEndpoint { uid: "1".into(), ip: ip.parse().unwrap(), ready: false })
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
}
