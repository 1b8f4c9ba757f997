//! Readiness as the set of conditions that a process still waits for.
//!
//! Each part takes a latch for what it needs before the process may get traffic (a synced watch, a
//! loaded certificate) and drops it when it is available. `/ready` responds with the names of the
//! latches that are left, so a process that does not become ready shows the cause.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// The name that a draining process reports.
const DRAINING: &str = "nothing: the process is draining";

/// Shared by the parts that hold latches and the admin port.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    pending: Mutex<BTreeSet<&'static str>>,
    draining: AtomicBool,
}

/// Keeps the process not ready until it is dropped.
#[derive(Debug)]
#[must_use = "dropping the latch marks its condition as met"]
pub struct ReadinessLatch {
    name: &'static str,
    inner: Arc<Inner>,
}

// === impl Readiness ===

impl Readiness {
    /// Keeps the process not ready until the latch is dropped. A name must not be in use twice at a
    /// time.
    pub fn latch(&self, name: &'static str) -> ReadinessLatch {
        self.inner.pending.lock().insert(name);
        ReadinessLatch { name, inner: self.inner.clone() }
    }

    /// Makes the process not ready for good: it is stopping.
    pub fn drain(&self) {
        self.inner.draining.store(true, Ordering::Release);
    }

    /// True without latches, unless draining.
    pub fn is_ready(&self) -> bool {
        self.pending().is_empty()
    }

    /// The names of the latches that are left.
    pub fn pending(&self) -> Vec<&'static str> {
        if self.inner.draining.load(Ordering::Acquire) {
            return vec![DRAINING];
        }
        self.inner.pending.lock().iter().copied().collect()
    }
}

// === impl ReadinessLatch ===

impl Drop for ReadinessLatch {
    fn drop(&mut self) {
        let mut pending = self.inner.pending.lock();
        pending.remove(self.name);
        tracing::info!(condition = self.name, pending = ?pending, "readiness condition met");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn becomes_ready_when_all_latches_are_dropped() {
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
    fn stays_not_ready_after_drain() {
        let readiness = Readiness::default();
        readiness.drain();
        drop(readiness.latch("pods"));
        assert!(!readiness.is_ready());
    }
}
