//! Index: which pods belong to which workload.
//!
//! Selectors reach no further than their namespace, so a change costs one look at the workloads or pods of one namespace.

use std::collections::{BTreeMap, HashMap};

use autoscaler::Key;

use super::{Change, Pod, Update, Workload};

/// All workloads and all pods with a sidecar.
#[derive(Debug, Default)]
pub struct Index {
    namespaces: HashMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    workloads: BTreeMap<String, Workload>,
    pods: BTreeMap<String, Pod>,
}

// === impl Index ===

impl Index {
    /// Takes a change in and says what it means. A change that changes nothing means nothing.
    pub fn apply(&mut self, change: Change) -> Vec<Update> {
        let name = match &change {
            Change::Workload(key, _) | Change::Pod(key, _) => key.namespace.clone(),
        };
        let namespace = self.namespaces.entry(name.clone()).or_default();
        let updates = match change {
            Change::Workload(key, Some(workload)) => namespace.put_workload(key, workload),
            Change::Workload(key, None) => namespace.remove_workload(key),
            Change::Pod(key, pod) => namespace.set_pod(key, pod),
        };
        if namespace.workloads.is_empty() && namespace.pods.is_empty() {
            self.namespaces.remove(&name);
        }
        updates
    }
}

// === impl Namespace ===

impl Namespace {
    fn put_workload(&mut self, key: Key, workload: Workload) -> Vec<Update> {
        let before = self.workloads.insert(key.name.clone(), workload.clone());
        if before.as_ref() == Some(&workload) {
            return Vec::new();
        }
        let mut updates = vec![Update::Workload(key.clone(), workload.clone())];
        if before.as_ref().map(|b| &b.selector) == Some(&workload.selector) {
            return updates;
        }
        for (name, pod) in &self.pods {
            let was = before.as_ref().is_some_and(|b| b.selects(pod));
            let endpoint = pod.endpoint().filter(|_| workload.selects(pod));
            if was || endpoint.is_some() {
                updates.push(Update::Pod(key.clone(), name.clone(), endpoint));
            }
        }
        updates
    }

    fn remove_workload(&mut self, key: Key) -> Vec<Update> {
        self.workloads.remove(&key.name).map(|_| Update::Removed(key)).into_iter().collect()
    }

    fn set_pod(&mut self, key: Key, pod: Option<Pod>) -> Vec<Update> {
        let before = match &pod {
            Some(pod) => self.pods.insert(key.name.clone(), pod.clone()),
            None => self.pods.remove(&key.name),
        };
        let mut updates = Vec::new();
        for (name, workload) in &self.workloads {
            let seen_by =
                |pod: &Option<Pod>| pod.as_ref().filter(|pod| workload.selects(pod)).and_then(Pod::endpoint);
            let (was, is) = (seen_by(&before), seen_by(&pod));
            let starting = pod.as_ref().filter(|pod| pod.is_starting() && workload.selects(pod));
            let workload = Key::new(key.namespace.clone(), name.clone());
            if let Some(pod) = starting {
                updates.push(Update::Starting(workload.clone(), pod.uid.clone(), pod.scheduled));
            }
            if was != is {
                updates.push(Update::Pod(workload, key.name.clone(), is));
            }
        }
        updates
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::selector::Selector;

    use super::*;
    use crate::workloads::Endpoint;

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

    fn endpoint(ip: &str) -> Option<Endpoint> {
        Some(Endpoint { uid: "1".into(), ip: ip.parse().unwrap(), ready: false })
    }

    fn put(index: &mut Index, name: &str, pod: Option<Pod>) -> Vec<Update> {
        index.apply(Change::Pod(key(name), pod))
    }

    #[test]
    fn a_pod_counts_from_its_address_to_its_deletion() {
        let mut index = Index::default();
        index.apply(Change::Workload(key("web"), Some(workload("app=web"))));
        let starting = Update::Starting(key("web"), "1".into(), false);
        assert_eq!(put(&mut index, "web-1", Some(pod("web", None))), [starting]);
        assert_eq!(put(&mut index, "api-1", Some(pod("api", Some("10.0.0.9")))), []);

        let there = Update::Pod(key("web"), "web-1".into(), endpoint("10.0.0.1"));
        assert_eq!(put(&mut index, "web-1", Some(pod("web", Some("10.0.0.1")))), [there]);
        let ending = Pod { ending: true, ..pod("web", Some("10.0.0.1")) };
        assert_eq!(put(&mut index, "web-1", Some(ending)), [Update::Pod(key("web"), "web-1".into(), None)]);
        assert_eq!(put(&mut index, "web-1", None), []);
    }

    #[test]
    fn a_workload_finds_pods_that_were_there_first_and_loses_those_it_stops_to_select() {
        let mut index = Index::default();
        put(&mut index, "web-1", Some(pod("web", Some("10.0.0.1"))));
        let updates = index.apply(Change::Workload(key("web"), Some(workload("app=web"))));
        assert_eq!(
            updates,
            [
                Update::Workload(key("web"), workload("app=web")),
                Update::Pod(key("web"), "web-1".into(), endpoint("10.0.0.1"))
            ]
        );
        let updates = index.apply(Change::Workload(key("web"), Some(workload("app=api"))));
        assert_eq!(updates.last(), Some(&Update::Pod(key("web"), "web-1".into(), None)));
        assert_eq!(index.apply(Change::Workload(key("web"), Some(workload("app=api")))), []);
    }

    #[test]
    fn other_namespaces_do_not_mix_and_nothing_is_left_behind() {
        let mut index = Index::default();
        index.apply(Change::Workload(key("web"), Some(workload("app=web"))));
        let elsewhere = Key::new("other", "web-1");
        assert_eq!(index.apply(Change::Pod(elsewhere.clone(), Some(pod("web", Some("10.0.0.1"))))), []);
        index.apply(Change::Pod(elsewhere, None));
        assert_eq!(index.apply(Change::Workload(key("web"), None)), [Update::Removed(key("web"))]);
        assert!(index.namespaces.is_empty());
    }
}
