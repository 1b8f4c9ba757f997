//! PodTracker: one pod as a destination, with the requests that this activator has on it.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One pod of one workload. A pod that comes back under its name or address is another tracker.
#[derive(Debug)]
pub struct PodTracker {
    /// The pod's uid.
    pub uid: String,
    /// Where it is.
    pub ip: IpAddr,
    /// When this process learned its address.
    pub seen: Instant,
    in_flight: AtomicUsize,
    proven: OnceLock<Instant>,
    gone: CancellationToken,
}

// === impl PodTracker ===

impl PodTracker {
    /// A pod that was just learned of.
    pub fn new(uid: String, ip: IpAddr, now: Instant) -> Self {
        Self {
            uid,
            ip,
            seen: now,
            in_flight: AtomicUsize::new(0),
            proven: OnceLock::new(),
            gone: CancellationToken::new(),
        }
    }

    /// When it was first known to take requests.
    pub fn proven(&self) -> Option<Instant> {
        self.proven.get().copied()
    }

    /// Requests on it from here.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// A request goes to it.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A request on it has ended.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// It takes requests.
    pub(crate) fn prove(&self, now: Instant) {
        self.proven.get_or_init(|| now);
    }

    /// It is a destination no more; probes of it end.
    pub(crate) fn retire(&self) {
        self.gone.cancel();
    }

    /// Ends when the pod is a destination no more.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }
}
