//! ListedKeys: turns the events of a watch into changes of objects.
//!
//! Remembers the keys of all objects, so that a new list shows which of them were deleted
//! meanwhile.

use std::collections::BTreeSet;

use autoscaler::Key;
use autoscaler::api::key_of;
use component_base::kubernetes::Decoded;
use kube::Resource;
use kube::runtime::watcher::Event;

/// The keys of all objects, so that a new list shows which objects were deleted meanwhile.
#[derive(Debug, Default)]
pub(super) struct ListedKeys {
    current: BTreeSet<Key>,
    listing: BTreeSet<Key>,
}

// === impl ListedKeys ===

impl ListedKeys {
    /// The keys of all objects that were reported and not deleted.
    pub(super) fn into_keys(self) -> BTreeSet<Key> {
        self.current
    }

    /// The changes of an event. An undecodable object changes nothing, and stays listed.
    pub(super) fn apply<K: Resource + Clone, T>(
        &mut self,
        event: Event<Decoded<K>>,
        read: impl Fn(&K) -> T,
    ) -> Vec<(Key, Option<T>)> {
        match event {
            Event::Init => {
                self.listing.clear();
                Vec::new()
            }
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                let before = std::mem::replace(&mut self.current, listing);
                before.difference(&self.current).map(|key| (key.clone(), None)).collect()
            }
            Event::InitApply(object) => {
                let listed = key_of(&object).filter(|key| object.0.is_ok() || self.current.contains(key));
                self.listing.extend(listed);
                self.applied(&object, read)
            }
            Event::Apply(object) => self.applied(&object, read),
            Event::Delete(object) => {
                let deleted = key_of(&object).filter(|key| self.current.remove(key));
                deleted.map(|key| (key, None)).into_iter().collect()
            }
        }
    }

    fn applied<K: Resource + Clone, T>(
        &mut self,
        object: &Decoded<K>,
        read: impl Fn(&K) -> T,
    ) -> Vec<(Key, Option<T>)> {
        let (Ok(decoded), Some(key)) = (&object.0, key_of(object)) else { return Vec::new() };
        self.current.insert(key.clone());
        vec![(key, Some(read(decoded)))]
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::api::ServerlessService;
    use serde_json::json;

    use super::*;

    fn object(name: &str, num_activators: u64) -> Decoded<ServerlessService> {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"service": "web", "selector": "app=web", "mode": "Proxy", "numActivators": num_activators},
        }))
        .unwrap()
    }

    fn bad(name: &str) -> Decoded<ServerlessService> {
        object(name, 5_000_000_000)
    }

    fn changes(
        keys: &mut ListedKeys,
        event: Event<Decoded<ServerlessService>>,
    ) -> Vec<(String, Option<u32>)> {
        let changes = keys.apply(event, |service| service.spec.num_activators);
        changes.into_iter().map(|(key, value)| (key.name, value)).collect()
    }

    #[test]
    fn new_list_reports_objects_deleted_meanwhile() {
        let keys = &mut ListedKeys::default();
        changes(keys, Event::Init);
        changes(keys, Event::InitApply(object("a", 2)));
        assert_eq!(changes(keys, Event::InitDone), []);
        assert_eq!(changes(keys, Event::Apply(object("b", 3))), [("b".to_owned(), Some(3))]);
        changes(keys, Event::Init);
        changes(keys, Event::InitApply(object("b", 3)));
        assert_eq!(changes(keys, Event::InitDone), [("a".to_owned(), None)]);
        assert_eq!(changes(keys, Event::Delete(object("b", 3))), [("b".to_owned(), None)]);
    }

    #[test]
    fn object_that_becomes_undecodable_stays_until_it_is_deleted() {
        let keys = &mut ListedKeys::default();
        changes(keys, Event::Apply(object("a", 2)));
        assert_eq!(changes(keys, Event::Apply(bad("a"))), []);
        changes(keys, Event::Init);
        assert_eq!(changes(keys, Event::InitApply(bad("a"))), []);
        assert_eq!(changes(keys, Event::InitApply(bad("new"))), []);
        assert_eq!(changes(keys, Event::InitDone), [], "a list with it does not delete it");
        assert_eq!(changes(keys, Event::Delete(bad("new"))), [], "never reported");
        assert_eq!(changes(keys, Event::Delete(bad("a"))), [("a".to_owned(), None)]);
    }
}
