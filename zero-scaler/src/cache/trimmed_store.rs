//! TrimmedStore: the objects of one API resource, reduced to the fields that are read.
//!
//! Filled by a watch, read by the controllers. With thousands of workloads, unused fields would be
//! most of this process's memory. Undecodable objects are absent, and their names are kept.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::key_of;
use component_base::kubernetes::Decoded;
use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;

/// The objects of one API resource.
#[derive(Debug)]
pub struct TrimmedStore<T>(RwLock<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    current: Objects<T>,
    /// Filled during a new list, and replaces `current` when the list is complete.
    listing: Objects<T>,
}

#[derive(Debug)]
struct Objects<T> {
    decoded: HashMap<Key, Arc<T>>,
    undecodable: HashSet<Key>,
}

// === impl TrimmedStore ===

impl<T> Default for TrimmedStore<T> {
    fn default() -> Self {
        Self(RwLock::new(Inner { current: Objects::default(), listing: Objects::default() }))
    }
}

impl<T> TrimmedStore<T> {
    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.0.read().current.decoded.get(&Key::new(namespace, name)).cloned()
    }

    /// Whether the object of this name exists and could not be decoded.
    pub fn is_undecodable(&self, namespace: &str, name: &str) -> bool {
        self.0.read().current.undecodable.contains(&Key::new(namespace, name))
    }

    /// The keys of the objects that satisfy a condition.
    pub fn keys_where(&self, condition: impl Fn(&T) -> bool) -> Vec<Key> {
        self.0
            .read()
            .current
            .decoded
            .iter()
            .filter(|(_, object)| condition(object))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Applies a watch event. An object for which `read` returns `None` is not kept.
    pub fn apply<K>(&self, event: &Event<Decoded<K>>, read: impl Fn(&K) -> Option<T>)
    where
        K: Resource<DynamicType = ()> + Clone,
    {
        match event {
            Event::Init => self.0.write().listing = Objects::default(),
            Event::InitApply(object) => self.0.write().listing.put(object, read),
            Event::InitDone => {
                let mut inner = self.0.write();
                inner.current = std::mem::take(&mut inner.listing);
            }
            Event::Apply(object) => self.0.write().current.put(object, read),
            Event::Delete(object) => self.0.write().current.remove(object),
        }
    }
}

// === impl Objects ===

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self { decoded: HashMap::new(), undecodable: HashSet::new() }
    }
}

impl<T> Objects<T> {
    fn put<K: Resource + Clone>(&mut self, object: &Decoded<K>, read: impl Fn(&K) -> Option<T>) {
        self.remove(object);
        let Some(key) = key_of(object) else { return };
        match &object.0 {
            Ok(object) => self.decoded.extend(read(object).map(|read| (key, Arc::new(read)))),
            Err(_) => {
                self.undecodable.insert(key);
            }
        }
    }

    fn remove<K: Resource + Clone>(&mut self, object: &Decoded<K>) {
        let Some(key) = key_of(object) else { return };
        self.decoded.remove(&key);
        self.undecodable.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, value: &str) -> Decoded<ConfigMap> {
        let object =
            serde_json::json!({"metadata": {"name": name, "namespace": "shop"}, "data": {"a": value}});
        serde_json::from_value(object).unwrap()
    }

    fn read(object: &ConfigMap) -> Option<String> {
        object.data.as_ref()?.get("a").filter(|value| !value.is_empty()).cloned()
    }

    #[test]
    fn follows_watch_and_keeps_objects_until_new_list_is_complete() {
        let store = TrimmedStore::<String>::default();
        let value = |name: &str| store.get("shop", name).map(|value| value.as_ref().clone());
        store.apply(&Event::Apply(object("a", "1")), read);
        store.apply(&Event::Apply(object("b", "2")), read);
        store.apply(&Event::Apply(object("a", "3")), read);
        store.apply(&Event::Delete(object("b", "2")), read);
        assert_eq!((value("a"), value("b")), (Some("3".to_owned()), None));
        store.apply::<ConfigMap>(&Event::Init, read);
        store.apply(&Event::InitApply(object("c", "4")), read);
        assert_eq!((value("a"), value("c")), (Some("3".to_owned()), None));
        store.apply::<ConfigMap>(&Event::InitDone, read);
        assert_eq!((value("a"), value("c")), (None, Some("4".to_owned())));
        store.apply(&Event::Apply(object("c", "")), read);
        assert_eq!(value("c"), None, "an invalid object is removed");
    }

    #[test]
    fn undecodable_object_is_absent_and_recorded_until_it_is_deleted_or_decoded() {
        let bad = || -> Decoded<ConfigMap> {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "a", "namespace": "shop"}, "data": 5,
            }))
            .unwrap()
        };
        let store = TrimmedStore::<String>::default();
        let state = || (store.get("shop", "a").is_some(), store.is_undecodable("shop", "a"));
        store.apply(&Event::Apply(object("a", "1")), read);
        store.apply(&Event::Apply(bad()), read);
        assert_eq!(state(), (false, true));
        store.apply(&Event::Apply(object("a", "1")), read);
        assert_eq!(state(), (true, false));
        store.apply::<ConfigMap>(&Event::Init, read);
        store.apply(&Event::InitApply(bad()), read);
        store.apply::<ConfigMap>(&Event::InitDone, read);
        assert_eq!(state(), (false, true));
        store.apply(&Event::Delete(bad()), read);
        assert_eq!(state(), (false, false));
    }
}
