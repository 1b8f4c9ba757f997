//! ReverseIndex: workloads by the objects that they reference.
//!
//! Updated by the watches. When a referenced object changes, its workloads are found by one lookup
//! and not by a scan over all workloads.

use std::collections::{BTreeSet, HashMap};

use autoscaler::Key;
use parking_lot::Mutex;

/// Namespace, kind and name of a referenced object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    namespace: String,
    kind: String,
    name: String,
}

/// Workloads by referenced object.
#[derive(Debug, Default)]
pub struct ReverseIndex(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Sorted. Almost always one, for which a set would take ten times the memory.
    by_object: HashMap<ObjectName, Vec<Key>>,
    by_workload: HashMap<Key, Vec<ObjectName>>,
}

// === impl ObjectName ===

impl ObjectName {
    /// The name of an object.
    pub fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }
}

// === impl ReverseIndex ===

impl ReverseIndex {
    /// Replaces the references of a workload. Returns the other workloads that reference its new or
    /// its previous objects.
    pub fn set(&self, workload: &Key, objects: Vec<ObjectName>) -> BTreeSet<Key> {
        let mut inner = self.0.lock();
        let mut others = inner.others(workload);
        inner.set(workload, objects);
        others.extend(inner.others(workload));
        others
    }

    /// The other workloads that reference the same objects.
    pub fn others(&self, workload: &Key) -> BTreeSet<Key> {
        self.0.lock().others(workload)
    }

    /// Replaces all references, after a new list.
    pub fn replace(&self, all: impl IntoIterator<Item = (Key, Vec<ObjectName>)>) {
        let mut inner = Inner::default();
        all.into_iter().for_each(|(workload, objects)| inner.set(&workload, objects));
        *self.0.lock() = inner;
    }

    /// The workloads that reference an object.
    pub fn of(&self, objects: &ObjectName) -> Vec<Key> {
        self.0.lock().by_object.get(objects).into_iter().flatten().cloned().collect()
    }

    /// The objects that a workload references.
    pub fn objects_of(&self, workload: &Key) -> Vec<ObjectName> {
        self.0.lock().by_workload.get(workload).cloned().unwrap_or_default()
    }
}

// === impl Inner ===

impl Inner {
    fn others(&self, workload: &Key) -> BTreeSet<Key> {
        let objects = self.by_workload.get(workload).into_iter().flatten();
        let all = objects.filter_map(|objects| self.by_object.get(objects)).flatten();
        all.filter(|other| *other != workload).cloned().collect()
    }

    fn set(&mut self, workload: &Key, objects: Vec<ObjectName>) {
        for before in self.by_workload.remove(workload).into_iter().flatten() {
            if let Some(workloads) = self.by_object.get_mut(&before) {
                workloads.retain(|other| other != workload);
                if workloads.is_empty() {
                    self.by_object.remove(&before);
                }
            }
        }
        for now in &objects {
            insert(self.by_object.entry(now.clone()).or_default(), workload);
        }
        if !objects.is_empty() {
            self.by_workload.insert(workload.clone(), objects);
        }
    }
}

fn insert(workloads: &mut Vec<Key>, workload: &Key) {
    if let Err(place) = workloads.binary_search(workload) {
        workloads.reserve_exact(1);
        workloads.insert(place, workload.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> ObjectName {
        ObjectName::new("shop", "Service", name)
    }

    #[test]
    fn changed_reference_replaces_previous_one() {
        let (workloads, web, api) =
            (ReverseIndex::default(), Key::new("shop", "web"), Key::new("shop", "api"));
        workloads.set(&web, vec![service("a"), service("b")]);
        assert_eq!(workloads.set(&api, vec![service("b")]), BTreeSet::from([web.clone()]));
        assert_eq!(workloads.of(&service("b")), vec![api.clone(), web.clone()]);
        assert_eq!(workloads.others(&web), BTreeSet::from([api.clone()]));
        assert_eq!(workloads.set(&web, vec![service("c")]), BTreeSet::from([api.clone()]));
        assert_eq!(workloads.of(&service("b")), vec![api]);
        assert_eq!(workloads.of(&service("a")), []);
        workloads.set(&web, Vec::new());
        assert_eq!(workloads.of(&service("c")), []);
        workloads.replace([(web.clone(), vec![service("a")])]);
        assert_eq!((workloads.of(&service("a")), workloads.of(&service("b"))), (vec![web], vec![]));
    }
}
