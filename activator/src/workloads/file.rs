//! Changes as a file tells them: an activator without Kubernetes, for local trials, benchmarks and reproducing bugs.
//!
//! The file lists workloads, each with its ports and pods (`contents` has the form). It is looked at twice a second, and
//! what differs from before is told. A new text counts once it was seen twice, so that none is taken while it is being
//! written; one that makes no sense is logged, and what was told before stays in force.

mod contents;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runtime::readiness::ReadinessLatch;
use tokio::sync::{mpsc, watch};

use super::Change;
use crate::app::Sources;

use contents::{Addresses, Contents};

pub use contents::Error;

/// How often to look.
const EVERY: Duration = Duration::from_millis(500);
/// Larger files are refused: a workload takes a few hundred bytes.
const LARGEST_BYTES: u64 = 16 << 20;
/// Changes that may wait to be applied; the file waits beyond that.
const CHANGES: usize = 1024;

/// A file that is followed.
struct Followed {
    path: PathBuf,
    /// Seen with the last look; empty if there was nothing to see.
    seen: String,
    /// In force, or refused: said what there is to say of it.
    judged: String,
    told: Contents,
    changes: mpsc::Sender<Change>,
    adapters: watch::Sender<Addresses>,
    zero_scalers: watch::Sender<Addresses>,
}

/// Nobody takes changes any more.
struct NobodyListens;

/// What the file at `path` tells, and whatever it tells later. Drops `synced` when all that it says now is told.
///
/// # Errors
/// When it cannot be read now, or makes no sense.
pub fn follow(path: &Path, synced: ReadinessLatch) -> Result<Sources, Error> {
    let text = read(path)?;
    let contents = Contents::parse(&text)?;
    let (sender, changes) = mpsc::channel(CHANGES);
    let (adapters, adapters_seen) = watch::channel(Addresses::new());
    let (zero_scalers, zero_scalers_seen) = watch::channel(Addresses::new());
    let followed = Followed {
        path: path.to_owned(),
        seen: text.clone(),
        judged: text,
        told: Contents::default(),
        changes: sender,
        adapters,
        zero_scalers,
    };
    tokio::spawn(followed.run(contents, synced));
    Ok(Sources {
        changes,
        adapters: adapters_seen,
        zero_scalers: zero_scalers_seen,
        guard: None,
        position: None,
    })
}

// === impl Followed ===

impl Followed {
    /// Ends when nobody listens.
    async fn run(mut self, contents: Contents, synced: ReadinessLatch) {
        let mut told = self.tell(contents).await;
        drop(synced);
        while told.is_ok() {
            tokio::time::sleep(EVERY).await;
            told = match self.look().await {
                Ok(Some(contents)) => self.tell(contents).await,
                Ok(None) => Ok(()),
                Err(error) => {
                    tracing::warn!(file = %self.path.display(), %error, "the file is not followed");
                    Ok(())
                }
            };
        }
    }

    /// What the file says, if it is news and was seen twice.
    async fn look(&mut self) -> Result<Option<Contents>, Error> {
        let path = self.path.clone();
        let looked = tokio::task::spawn_blocking(move || read(&path)).await.map_err(std::io::Error::other)?;
        let text = match looked {
            Ok(text) => text,
            // Said once.
            Err(_) if self.seen.is_empty() => return Ok(None),
            Err(error) => {
                self.seen.clear();
                return Err(error);
            }
        };
        if text == self.judged || text != self.seen {
            self.seen = text;
            return Ok(None);
        }
        self.judged.clone_from(&text);
        Contents::parse(&text).map(Some)
    }

    async fn tell(&mut self, contents: Contents) -> Result<(), NobodyListens> {
        for change in contents.changes_since(&self.told) {
            self.changes.send(change).await.map_err(|_| NobodyListens)?;
        }
        set(&self.adapters, &contents.metrics_adapters);
        set(&self.zero_scalers, &contents.zero_scalers);
        tracing::info!(file = %self.path.display(), workloads = contents.workloads.len(), "read");
        self.told = contents;
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

fn read(path: &Path) -> Result<String, Error> {
    let mut text = String::new();
    let mut file = File::open(path)?.take(LARGEST_BYTES + 1);
    file.read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_BYTES { Err(Error::TooLarge { bound: LARGEST_BYTES }) } else { Ok(text) }
}
