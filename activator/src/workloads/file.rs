//! Changes from a file: an activator without Kubernetes, for local trials, benchmarks and
//! reproducing bugs.
//!
//! The file lists workloads, each with its ports and pods; `contents` has the format. It is read
//! twice a second, and the differences are sent as changes. A new text takes effect when it was
//! read twice, so that no partial write takes effect. An invalid text is logged, and the last valid
//! one stays in effect.

mod contents;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use component_base::readiness::ReadinessLatch;
use tokio::sync::{mpsc, watch};

use super::ClusterChange;

use contents::{Addresses, FileContents};

pub use contents::WorkloadsFileError;

/// How often to read the file.
const INTERVAL: Duration = Duration::from_millis(500);
/// Larger files are rejected: a workload takes a few hundred bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Changes that may wait to be applied; the file waits beyond that.
const CHANGES: usize = 1024;

/// The inputs of an activator that come from a file.
#[derive(Debug)]
pub struct FileSources {
    /// Workloads and pods.
    pub changes: mpsc::Receiver<ClusterChange>,
    /// Metrics-adapters, which receive reports.
    pub adapters: watch::Receiver<Addresses>,
    /// Zero-scalers, which receive reports.
    pub zero_scalers: watch::Receiver<Addresses>,
}

struct FollowedFile {
    path: PathBuf,
    /// The text of the last read; empty if it failed.
    last_read: String,
    /// The last text that took effect or was found invalid.
    evaluated: String,
    in_effect: FileContents,
    changes: mpsc::Sender<ClusterChange>,
    adapters: watch::Sender<Addresses>,
    zero_scalers: watch::Sender<Addresses>,
}

/// The receiver of changes was dropped.
struct ReceiverDropped;

/// Follows the file at `path`. Drops `synced` when its present contents have been sent.
///
/// # Errors
/// When it cannot be read now, or is invalid.
pub fn follow(path: &Path, synced: ReadinessLatch) -> Result<FileSources, WorkloadsFileError> {
    let text = read(path)?;
    let contents = FileContents::parse(&text)?;
    let (sender, changes) = mpsc::channel(CHANGES);
    let (adapters, adapters_receiver) = watch::channel(Addresses::new());
    let (zero_scalers, zero_scalers_receiver) = watch::channel(Addresses::new());
    let file = FollowedFile {
        path: path.to_owned(),
        last_read: text.clone(),
        evaluated: text,
        in_effect: FileContents::default(),
        changes: sender,
        adapters,
        zero_scalers,
    };
    tokio::spawn(file.run(contents, synced));
    Ok(FileSources { changes, adapters: adapters_receiver, zero_scalers: zero_scalers_receiver })
}

// === impl FollowedFile ===

impl FollowedFile {
    /// Ends when the receiver is dropped.
    async fn run(mut self, contents: FileContents, synced: ReadinessLatch) {
        let mut sent = self.apply(contents).await;
        drop(synced);
        while sent.is_ok() {
            tokio::time::sleep(INTERVAL).await;
            sent = match self.poll().await {
                Ok(Some(contents)) => self.apply(contents).await,
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::warn!(file = %self.path.display(), %error, "workloads file invalid, keeping its last contents");
                    Ok(())
                }
            };
        }
    }

    /// The contents of the file, if they are new and were read twice.
    async fn poll(&mut self) -> Result<Option<FileContents>, WorkloadsFileError> {
        let path = self.path.clone();
        let result = tokio::task::spawn_blocking(move || read(&path)).await.map_err(std::io::Error::other)?;
        let text = match result {
            Ok(text) => text,
            // Reported once.
            Err(_) if self.last_read.is_empty() => return Ok(None),
            Err(error) => {
                self.last_read.clear();
                return Err(error);
            }
        };
        if text == self.evaluated || text != self.last_read {
            self.last_read = text;
            return Ok(None);
        }
        self.evaluated.clone_from(&text);
        FileContents::parse(&text).map(Some)
    }

    async fn apply(&mut self, contents: FileContents) -> Result<(), ReceiverDropped> {
        for change in contents.changes_since(&self.in_effect) {
            self.changes.send(change).await.map_err(|_| ReceiverDropped)?;
        }
        set(&self.adapters, &contents.metrics_adapters);
        set(&self.zero_scalers, &contents.zero_scalers);
        tracing::info!(file = %self.path.display(), workloads = contents.workloads.len(), "workloads file applied");
        self.in_effect = contents;
        Ok(())
    }
}

fn set(addresses: &watch::Sender<Addresses>, now: &Addresses) {
    addresses.send_if_modified(|before| {
        let differs = before != now;
        before.clone_from(now);
        differs
    });
}

fn read(path: &Path) -> Result<String, WorkloadsFileError> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(MAX_BYTES + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        Err(WorkloadsFileError::TooLarge { bound: MAX_BYTES })
    } else {
        Ok(text)
    }
}
