//! The objects of one kind, each as small as it is needed here.
//!
//! Filled by a watch, which reads of an object what matters and lets go of the rest; read by everybody. With thousands of
//! workloads what nobody reads would be most of this process.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::key_of;
use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What is known of the objects of one kind.
#[derive(Debug)]
pub struct TrimmedStore<T>(RwLock<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    known: HashMap<Key, Arc<T>>,
    /// Filled during a fresh list, which replaces everything at its end.
    listing: HashMap<Key, Arc<T>>,
}

// === impl Known ===

impl<T> Default for TrimmedStore<T> {
    fn default() -> Self {
        Self(RwLock::new(Inner { known: HashMap::new(), listing: HashMap::new() }))
    }
}

impl<T> TrimmedStore<T> {
    /// What is known of an object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.shared().known.get(&Key::new(namespace, name)).cloned()
    }

    /// The objects of which this is so.
    pub fn those(&self, is_so: impl Fn(&T) -> bool) -> Vec<Key> {
        self.shared().known.iter().filter(|(_, known)| is_so(known)).map(|(key, _)| key.clone()).collect()
    }

    /// Takes in what the watch says. Of an object of which `read` makes nothing, nothing is known.
    pub fn apply<K>(&self, event: &Event<K>, read: impl Fn(&K) -> Option<T>)
    where
        K: Resource<DynamicType = ()>,
    {
        match event {
            Event::Init => self.exclusive().listing = HashMap::new(),
            Event::InitApply(object) => put(&mut self.exclusive().listing, object, read(object)),
            Event::InitDone => {
                let mut inner = self.exclusive();
                inner.known = std::mem::take(&mut inner.listing);
            }
            Event::Apply(object) => put(&mut self.exclusive().known, object, read(object)),
            Event::Delete(object) => put(&mut self.exclusive().known, object, None),
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
    fn what_is_known_follows_the_watch_and_a_fresh_list_hides_nothing_before_its_end() {
        let known = TrimmedStore::<String>::default();
        let value = |name: &str| known.get("shop", name).map(|value| value.as_ref().clone());
        known.apply(&Event::Apply(object("a", "1")), read);
        known.apply(&Event::Apply(object("b", "2")), read);
        known.apply(&Event::Apply(object("a", "3")), read);
        known.apply(&Event::Delete(object("b", "2")), read);
        assert_eq!((value("a"), value("b")), (Some("3".to_owned()), None));
        known.apply(&Event::Init, read);
        known.apply(&Event::InitApply(object("c", "4")), read);
        assert_eq!((value("a"), value("c")), (Some("3".to_owned()), None));
        known.apply(&Event::InitDone, read);
        assert_eq!((value("a"), value("c")), (None, Some("4".to_owned())));
        known.apply(&Event::Apply(object("c", "")), read);
        assert_eq!(value("c"), None, "what cannot be read is not taken for what it was");
    }
}
