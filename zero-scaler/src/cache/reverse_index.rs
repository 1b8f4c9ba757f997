//! Who speaks of an object: workloads by what their objects name.
//!
//! Fed by the watches as the objects change; read when what is named changes, so that a change costs a look-up and not a walk
//! over all workloads.

use std::collections::{BTreeSet, HashMap};

use autoscaler::Key;
use parking_lot::{Mutex, MutexGuard};

/// Something that is named: its namespace, kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    namespace: String,
    kind: String,
    name: String,
}

/// Who names what.
#[derive(Debug, Default)]
pub struct ReverseIndex(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// In order. Almost always one, for which a set would take ten times the room.
    by_named: HashMap<ObjectName, Vec<Key>>,
    by_referrer: HashMap<Key, Vec<ObjectName>>,
}

// === impl Named ===

impl ObjectName {
    /// An object.
    pub fn new(namespace: &str, kind: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
    }
}

// === impl Referrers ===

impl ReverseIndex {
    /// `referrer` names these, and nothing else. Who else names what it named, or names now?
    pub fn set(&self, referrer: &Key, named: Vec<ObjectName>) -> BTreeSet<Key> {
        let mut inner = self.lock();
        let mut others = inner.others(referrer);
        inner.set(referrer, named);
        others.extend(inner.others(referrer));
        others
    }

    /// Who else names what `referrer` names?
    pub fn others(&self, referrer: &Key) -> BTreeSet<Key> {
        self.lock().others(referrer)
    }

    /// All that is named, after a fresh list.
    pub fn replace(&self, all: impl IntoIterator<Item = (Key, Vec<ObjectName>)>) {
        let mut inner = Inner::default();
        all.into_iter().for_each(|(referrer, named)| inner.set(&referrer, named));
        *self.lock() = inner;
    }

    /// Who names this.
    pub fn of(&self, named: &ObjectName) -> Vec<Key> {
        self.lock().by_named.get(named).into_iter().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

// === impl Inner ===

impl Inner {
    fn others(&self, referrer: &Key) -> BTreeSet<Key> {
        let named = self.by_referrer.get(referrer).into_iter().flatten();
        let all = named.filter_map(|named| self.by_named.get(named)).flatten();
        all.filter(|other| *other != referrer).cloned().collect()
    }

    fn set(&mut self, referrer: &Key, named: Vec<ObjectName>) {
        for before in self.by_referrer.remove(referrer).into_iter().flatten() {
            if let Some(referrers) = self.by_named.get_mut(&before) {
                referrers.retain(|other| other != referrer);
                if referrers.is_empty() {
                    self.by_named.remove(&before);
                }
            }
        }
        for now in &named {
            insert(self.by_named.entry(now.clone()).or_default(), referrer);
        }
        if !named.is_empty() {
            self.by_referrer.insert(referrer.clone(), named);
        }
    }
}

fn insert(referrers: &mut Vec<Key>, referrer: &Key) {
    if let Err(place) = referrers.binary_search(referrer) {
        referrers.reserve_exact(1);
        referrers.insert(place, referrer.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str) -> ObjectName {
        ObjectName::new("shop", "Service", name)
    }

    #[test]
    fn who_names_something_else_is_found_by_that_alone() {
        let (referrers, web, api) =
            (ReverseIndex::default(), Key::new("shop", "web"), Key::new("shop", "api"));
        referrers.set(&web, vec![service("a"), service("b")]);
        assert_eq!(referrers.set(&api, vec![service("b")]), BTreeSet::from([web.clone()]));
        assert_eq!(referrers.of(&service("b")), vec![api.clone(), web.clone()]);
        assert_eq!(referrers.others(&web), BTreeSet::from([api.clone()]));
        assert_eq!(referrers.set(&web, vec![service("c")]), BTreeSet::from([api.clone()]));
        assert_eq!(referrers.of(&service("b")), vec![api]);
        assert_eq!(referrers.of(&service("a")), []);
        referrers.set(&web, Vec::new());
        assert_eq!(referrers.of(&service("c")), []);
        referrers.replace([(web.clone(), vec![service("a")])]);
        assert_eq!((referrers.of(&service("a")), referrers.of(&service("b"))), (vec![web], vec![]));
    }
}
