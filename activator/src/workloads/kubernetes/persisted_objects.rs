//! PersistedObjects: the objects of a watch, in a file for a restart while the API server is
//! unavailable.
//!
//! Changes are appended some seconds after they arrive, by a thread of their own: no event waits
//! for the disk, and a change costs one line in a cluster of any size. The file is replaced by the
//! present objects when it has twice as many lines as they need, and after an error. So that no
//! process reads it back to do that, the objects are in memory, too.
//!
//! The file survives the container but not the pod: it is on a volume of the pod. It is read once
//! at the start, and its objects are handled like a list, so that the first real list reports those
//! that were deleted meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::key_of;
use component_base::clock::sleep_until;
use component_base::kubernetes::Decoded;
use kube::Resource;
use kube::runtime::watcher::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::object_log::ObjectLog;

/// Time between two writes: in a large cluster pods change all the time.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// Lines that a file may have beyond twice its objects.
const SPARE_LINES: usize = 1000;

/// The objects of one kind, of one watch or of one for each namespace; not kept without a log.
#[derive(Debug)]
pub(super) struct PersistedObjects<K> {
    log: Option<ObjectLog>,
    objects: BTreeMap<Key, Arc<K>>,
    listing: BTreeMap<Key, Arc<K>>,
    /// Objects with changes that are not written yet.
    changed: BTreeSet<Key>,
    /// When to write them.
    due: Option<Instant>,
    /// The write that runs.
    writing: Option<JoinHandle<io::Result<()>>>,
    /// Lines of the file; `None` if its contents are not those that this process wrote.
    lines: Option<usize>,
}

// === impl PersistedObjects ===

impl<K> PersistedObjects<K>
where
    K: Resource + Clone + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// For objects of this kind, in this directory; without one nothing is persisted.
    pub(super) fn new(directory: Option<&Path>, kind: &str) -> Self {
        Self {
            log: directory.map(|directory| ObjectLog::new(directory.join(format!("{kind}.log")))),
            objects: BTreeMap::new(),
            listing: BTreeMap::new(),
            changed: BTreeSet::new(),
            due: None,
            writing: None,
            lines: None,
        }
    }

    /// The objects in the file, mostly written by an earlier process.
    pub(super) fn load(&self) -> Vec<K> {
        self.log.as_ref().map(ObjectLog::read).unwrap_or_default()
    }

    /// Keeps an object from the file, until its namespace is listed.
    pub(super) fn restore(&mut self, object: K) {
        if let Some(key) = key_of(&object).filter(|_| self.log.is_some()) {
            self.objects.insert(key, Arc::new(object));
        }
    }

    /// Applies an event of the watch of all namespaces.
    pub(super) fn apply(&mut self, event: &Event<Decoded<K>>) {
        self.apply_in(None, event);
    }

    /// Applies an event of the watch of this namespace, or of all. Of an undecodable object the
    /// last decoded version stays.
    pub(super) fn apply_in(&mut self, namespace: Option<&str>, event: &Event<Decoded<K>>) {
        if self.log.is_none() {
            return;
        }
        match event {
            Event::Init => self.listing.extract_if(keys_in(namespace), |_, _| true).for_each(drop),
            Event::InitApply(object) => self.listing.extend(self.newest(object)),
            Event::InitDone => self.replace_listed(namespace),
            Event::Apply(object) => {
                if let Some((key, object)) = self.newest(object) {
                    self.put(key, object);
                }
            }
            Event::Delete(object) => {
                if let Some(key) = key_of(object).filter(|key| self.objects.remove(key).is_some()) {
                    self.mark_changed(key);
                }
            }
        }
    }

    /// Removes the objects of a namespace that is no longer watched.
    pub(super) fn remove_namespace(&mut self, namespace: &str) {
        self.apply_in(Some(namespace), &Event::Init);
        self.apply_in(Some(namespace), &Event::InitDone);
    }

    fn replace_listed(&mut self, namespace: Option<&str>) {
        let listing = &self.listing;
        let gone = self.objects.extract_if(keys_in(namespace), |key, _| !listing.contains_key(key));
        let gone: Vec<_> = gone.map(|(key, _)| key).collect();
        gone.into_iter().for_each(|key| self.mark_changed(key));
        let listed: Vec<_> = self.listing.extract_if(keys_in(namespace), |_, _| true).collect();
        listed.into_iter().for_each(|(key, object)| self.put(key, object));
        // A list without an object has to replace the file of an earlier process, too.
        self.due.get_or_insert_with(|| Instant::now() + WRITE_INTERVAL);
    }

    fn put(&mut self, key: Key, object: Arc<K>) {
        let version = object.meta().resource_version.clone();
        let before = self.objects.insert(key.clone(), object);
        // A list repeats mostly objects that have not changed.
        if version.is_none() || before.is_none_or(|before| before.meta().resource_version != version) {
            self.mark_changed(key);
        }
    }

    fn mark_changed(&mut self, key: Key) {
        self.changed.insert(key);
        self.due.get_or_insert_with(|| Instant::now() + WRITE_INTERVAL);
    }

    fn newest(&self, object: &Decoded<K>) -> Option<(Key, Arc<K>)> {
        let key = key_of(object)?;
        let newest = object.0.as_ref().ok().or_else(|| self.objects.get(&key))?.clone();
        Some((key, newest))
    }

    /// Completes when a write has begun or ended; at other times it may be dropped.
    pub(super) async fn progress(&mut self) {
        match &mut self.writing {
            None => {
                sleep_until(self.due).await;
                self.due = None;
                self.writing = self.begin_write();
            }
            Some(write) => {
                let written = write.await;
                self.writing = None;
                self.end_write(written);
            }
        }
    }

    fn begin_write(&mut self) -> Option<JoinHandle<io::Result<()>>> {
        let log = self.log.clone()?;
        let changed = mem::take(&mut self.changed);
        let lines = self.lines.map(|lines| lines.saturating_add(changed.len()));
        let most = self.objects.len().saturating_mul(2).saturating_add(SPARE_LINES);
        if let Some(lines) = lines.filter(|lines| *lines <= most) {
            self.lines = Some(lines);
            let changes = changed.into_iter().map(|key| (self.objects.get(&key).cloned(), key));
            let changes: Vec<_> = changes.collect();
            let append = move || log.append(changes.iter().map(|(object, key)| (key, object.as_deref())));
            return Some(tokio::task::spawn_blocking(append));
        }
        self.lines = Some(self.objects.len());
        let objects: Vec<_> = self.objects.values().cloned().collect();
        Some(tokio::task::spawn_blocking(move || log.replace(objects.iter().map(Arc::as_ref))))
    }

    fn end_write(&mut self, written: Result<io::Result<()>, JoinError>) {
        if let Err(error) = written.map_err(io::Error::other).flatten() {
            self.lines = None;
            tracing::warn!(%error, "could not persist state; a restart may begin with older state");
        }
    }
}

/// All keys of a namespace, or of all.
fn keys_in(namespace: Option<&str>) -> (Bound<Key>, Bound<Key>) {
    let Some(namespace) = namespace else { return (Bound::Unbounded, Bound::Unbounded) };
    // No name of a namespace has a byte 0, so this is the next text after it.
    let next = Key::new(format!("{namespace}\0"), "");
    (Bound::Included(Key::new(namespace, "")), Bound::Excluded(next))
}

#[cfg(test)]
mod tests;
