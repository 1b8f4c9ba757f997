//! Readiness as the set of things still awaited.
//!
//! Each part of a process takes a latch for what it needs before the process may take traffic (a watch that filled, a
//! certificate that loaded) and drops it when that is there. `/ready` answers with the names that are missing, so a process
//! that does not become ready says why.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Name under which a draining process is not ready.
const DRAINING: &str = "nothing: the process is draining";

/// Shared by the parts that are awaited and the admin port that answers.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    awaited: Mutex<BTreeSet<&'static str>>,
    draining: AtomicBool,
}

/// Keeps the process unready until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the latch says that what it stands for is there"]
pub struct ReadinessLatch {
    name: &'static str,
    inner: Arc<Inner>,
}

// === impl Readiness ===

impl Readiness {
    /// The process is not ready until the latch is dropped. Each name may be awaited once at a time.
    pub fn latch(&self, name: &'static str) -> ReadinessLatch {
        self.inner.lock().insert(name);
        ReadinessLatch { name, inner: self.inner.clone() }
    }

    /// Not ready from now on, for good: the process is stopping.
    pub fn drain(&self) {
        self.inner.draining.store(true, Ordering::Release);
    }

    /// Whether nothing is awaited.
    pub fn is_ready(&self) -> bool {
        self.pending().is_empty()
    }

    /// What is awaited, by name.
    pub fn pending(&self) -> Vec<&'static str> {
        if self.inner.draining.load(Ordering::Acquire) {
            return vec![DRAINING];
        }
        self.inner.lock().iter().copied().collect()
    }
}

// === impl Inner ===

impl Inner {
    fn lock(&self) -> parking_lot::MutexGuard<'_, BTreeSet<&'static str>> {
        self.awaited.lock()
    }
}

// === impl ReadinessLatch ===

impl Drop for ReadinessLatch {
    fn drop(&mut self) {
        let mut awaited = self.inner.lock();
        awaited.remove(self.name);
        tracing::info!(is_there = self.name, still_awaited = ?awaited, "readiness");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ready_when_everything_awaited_is_there() {
        let readiness = Readiness::default();
        let pods = readiness.latch("pods");
        let certificate = readiness.latch("certificate");
        assert_eq!(readiness.pending(), ["certificate", "pods"]);
        drop(pods);
        assert_eq!(readiness.pending(), ["certificate"]);
        drop(certificate);
        assert!(readiness.is_ready());
    }

    #[test]
    fn draining_is_for_good() {
        let readiness = Readiness::default();
        readiness.drain();
        drop(readiness.latch("pods"));
        assert!(!readiness.is_ready());
    }
}
