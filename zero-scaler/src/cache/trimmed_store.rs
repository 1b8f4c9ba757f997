//! TrimmedStore: the objects of one API resource, reduced to the fields that are read.
//!
//! Filled by a watch, read by the controllers. With thousands of workloads, unused fields would be
//! most of this process's memory.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::key_of;
use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The objects of one API resource.
#[derive(Debug)]
pub struct TrimmedStore<T>(RwLock<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    current: HashMap<Key, Arc<T>>,
    /// Filled during a new list, and replaces `current` when the list is complete.
    listing: HashMap<Key, Arc<T>>,
}

// === impl TrimmedStore ===

impl<T> Default for TrimmedStore<T> {
    fn default() -> Self {
        Self(RwLock::new(Inner { current: HashMap::new(), listing: HashMap::new() }))
    }
}

impl<T> TrimmedStore<T> {
    /// The object of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.shared().current.get(&Key::new(namespace, name)).cloned()
    }

    /// The keys of the objects that satisfy a condition.
    pub fn keys_where(&self, condition: impl Fn(&T) -> bool) -> Vec<Key> {
        self.shared()
            .current
            .iter()
            .filter(|(_, object)| condition(object))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Applies a watch event. An object for which `read` returns `None` is not kept.
    pub fn apply<K>(&self, event: &Event<K>, read: impl Fn(&K) -> Option<T>)
    where
        K: Resource<DynamicType = ()>,
    {
        match event {
            Event::Init => self.exclusive().listing = HashMap::new(),
            Event::InitApply(object) => put(&mut self.exclusive().listing, object, read(object)),
            Event::InitDone => {
                let mut inner = self.exclusive();
                inner.current = std::mem::take(&mut inner.listing);
            }
            Event::Apply(object) => put(&mut self.exclusive().current, object, read(object)),
            Event::Delete(object) => put(&mut self.exclusive().current, object, None),
        }
    }

    fn shared(&self) -> RwLockReadGuard<'_, Inner<T>> {
        self.0.read()
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, Inner<T>> {
        self.0.write()
    }
}

fn put<K, T>(objects: &mut HashMap<Key, Arc<T>>, object: &K, read: Option<T>)
where
    K: Resource<DynamicType = ()>,
{
    let Some(key) = key_of(object) else { return };
    match read {
        Some(read) => objects.insert(key, Arc::new(read)),
        None => objects.remove(&key),
    };
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn object(name: &str, value: &str) -> ConfigMap {
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
        store.apply(&Event::Init, read);
        store.apply(&Event::InitApply(object("c", "4")), read);
        assert_eq!((value("a"), value("c")), (Some("3".to_owned()), None));
        store.apply(&Event::InitDone, read);
        assert_eq!((value("a"), value("c")), (None, Some("4".to_owned())));
        store.apply(&Event::Apply(object("c", "")), read);
        assert_eq!(value("c"), None, "an invalid object is removed");
    }
}
