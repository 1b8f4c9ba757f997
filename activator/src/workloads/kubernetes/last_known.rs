//! LastKnown: what a watch knew, kept in a file for a restart while the API server is away.
//!
//! Written by the watch itself, some seconds after a change at the latest; read once, at the start. It outlives the container
//! and not the pod: the file is on a volume that goes with it. What is recalled is told like a list, so that the first real
//! one takes back what has gone since.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoscaler::Key;
use kube::runtime::watcher::Event;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Time between two writes: pods change all the time in a large cluster.
const BETWEEN: Duration = Duration::from_secs(5);
/// Larger files are none of ours.
const LARGEST_BYTES: u64 = 256 << 20;

/// The objects of one watch, if they are to be remembered.
#[derive(Debug)]
pub(super) struct LastKnown<K> {
    path: Option<PathBuf>,
    objects: BTreeMap<Key, K>,
    listing: BTreeMap<Key, K>,
    /// When to write what is not written yet.
    due: Option<Instant>,
}

// === impl LastKnown ===

impl<K: Clone + Serialize + DeserializeOwned> LastKnown<K> {
    /// Of objects of this kind, below this directory; without one nothing is remembered.
    pub(super) fn new(directory: Option<&Path>, kind: &str) -> Self {
        let path = directory.map(|directory| directory.join(format!("{kind}.json")));
        Self { path, objects: BTreeMap::new(), listing: BTreeMap::new(), due: None }
    }

    /// What was written, perhaps by the process before this one.
    pub(super) fn recall(&self) -> Vec<K> {
        let Some(path) = &self.path else { return Vec::new() };
        match read(path) {
            Ok(objects) => objects,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "nothing is recalled");
                Vec::new()
            }
        }
    }

    /// Notes what an event says.
    pub(super) fn note(&mut self, event: &Event<K>, key: impl Fn(&K) -> Option<Key>) {
        if self.path.is_none() {
            return;
        }
        match event {
            Event::Init => return self.listing.clear(),
            Event::InitApply(object) => {
                self.listing.extend(key(object).map(|key| (key, object.clone())));
                return;
            }
            Event::InitDone => self.objects = std::mem::take(&mut self.listing),
            Event::Apply(object) => self.objects.extend(key(object).map(|key| (key, object.clone()))),
            Event::Delete(object) => {
                key(object).and_then(|key| self.objects.remove(&key));
            }
        }
        self.due.get_or_insert_with(|| Instant::now() + BETWEEN);
    }

    /// Ends when there is something to write.
    pub(super) async fn due(&self) {
        runtime::clock::sleep_until(self.due).await;
    }

    /// Writes all of it.
    pub(super) async fn write(&mut self) {
        self.due = None;
        let Some(path) = self.path.clone() else { return };
        let objects: Vec<&K> = self.objects.values().collect();
        let written = match serde_json::to_vec(&objects) {
            Ok(text) => tokio::task::spawn_blocking(move || replace(&path, &text)).await,
            Err(error) => Ok(Err(error.into())),
        };
        if let Err(error) = written.map_err(io::Error::other).flatten() {
            tracing::warn!(%error, "what is known is not remembered for a restart");
        }
    }
}

fn read<K: DeserializeOwned>(path: &Path) -> io::Result<Vec<K>> {
    if fs::metadata(path)?.len() > LARGEST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// Whole or not at all.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}
