//! PersistedObjects: the objects of a watch, in a file for a restart while the API server is
//! unavailable.
//!
//! Written by the watch, at most some seconds after a change; read once at the start. The file
//! survives the container but not the pod: it is on a volume of the pod. Objects from the file are
//! handled like a list, so that the first real list reports those that were deleted meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::api::key_of;
use component_base::kubernetes::Decoded;
use kube::Resource;
use kube::runtime::watcher::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Time between two writes: in a large cluster pods change all the time.
const WRITE_INTERVAL: Duration = Duration::from_secs(5);
/// A larger file was not written by this process.
const LARGEST_BYTES: u64 = 256 << 20;

/// The objects of one kind, of one watch or of one for each namespace; not kept without a path.
#[derive(Debug)]
pub(super) struct PersistedObjects<K> {
    path: Option<PathBuf>,
    objects: BTreeMap<Key, Arc<K>>,
    listing: BTreeMap<Key, Arc<K>>,
    /// When to write changes that are not written yet.
    due: Option<Instant>,
}

// === impl PersistedObjects ===

impl<K: Resource + Clone + Serialize + DeserializeOwned> PersistedObjects<K> {
    /// For objects of this kind, in this directory; without one nothing is persisted.
    pub(super) fn new(directory: Option<&Path>, kind: &str) -> Self {
        let path = directory.map(|directory| directory.join(format!("{kind}.json")));
        Self { path, objects: BTreeMap::new(), listing: BTreeMap::new(), due: None }
    }

    /// The objects in the file, mostly written by an earlier process.
    pub(super) fn load(&self) -> Vec<K> {
        let Some(path) = &self.path else { return Vec::new() };
        match read(path) {
            Ok(objects) => objects,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "persisted objects not readable, starting with an empty cache");
                Vec::new()
            }
        }
    }

    /// Keeps an object from the file, until its namespace is listed.
    pub(super) fn restore(&mut self, object: K) {
        if let Some(key) = key_of(&object).filter(|_| self.path.is_some()) {
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
        if self.path.is_none() {
            return;
        }
        let is_elsewhere = |key: &Key| namespace.is_some_and(|namespace| key.namespace != namespace);
        match event {
            Event::Init => return self.listing.retain(|key, _| is_elsewhere(key)),
            Event::InitApply(object) => return self.listing.extend(self.newest(object)),
            Event::InitDone => {
                self.objects.retain(|key, _| is_elsewhere(key));
                self.objects.extend(self.listing.extract_if(.., |key, _| !is_elsewhere(key)));
            }
            Event::Apply(object) => self.objects.extend(self.newest(object)),
            Event::Delete(object) => {
                key_of(object).and_then(|key| self.objects.remove(&key));
            }
        }
        self.due.get_or_insert_with(|| Instant::now() + WRITE_INTERVAL);
    }

    /// Removes the objects of a namespace that is no longer watched.
    pub(super) fn remove_namespace(&mut self, namespace: &str) {
        self.apply_in(Some(namespace), &Event::Init);
        self.apply_in(Some(namespace), &Event::InitDone);
    }

    fn newest(&self, object: &Decoded<K>) -> Option<(Key, Arc<K>)> {
        let key = key_of(object)?;
        let newest = object.0.as_ref().ok().or_else(|| self.objects.get(&key))?.clone();
        Some((key, newest))
    }

    /// Completes when changes are due to be written.
    pub(super) async fn due(&self) {
        component_base::clock::sleep_until(self.due).await;
    }

    pub(super) async fn write(&mut self) {
        self.due = None;
        let Some(path) = self.path.clone() else { return };
        let objects: Vec<&K> = self.objects.values().map(AsRef::as_ref).collect();
        let written = match serde_json::to_vec(&objects) {
            Ok(text) => tokio::task::spawn_blocking(move || replace(&path, &text)).await,
            Err(error) => Ok(Err(error.into())),
        };
        if let Err(error) = written.map_err(io::Error::other).flatten() {
            tracing::warn!(%error, "could not persist state; a restart will begin with an empty cache");
        }
    }
}

fn read<K: DeserializeOwned>(path: &Path) -> io::Result<Vec<K>> {
    if fs::metadata(path)?.len() > LARGEST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Replaces the file atomically.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}
