//! PodTracker: one pod as a destination, with the requests that this activator has on it.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use autoscaler::breaker::{Breaker, Limit};
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
    /// Limits the requests on it. Nobody waits here: who finds no place looks at another pod.
    pub breaker: Breaker,
    proven: OnceLock<Instant>,
    usable: AtomicBool,
    gone: CancellationToken,
}

// === impl PodTracker ===

impl PodTracker {
    /// A pod that was just learned of.
    pub fn new(uid: String, ip: IpAddr, limit: Limit, now: Instant) -> Self {
        Self {
            uid,
            ip,
            seen: now,
            breaker: Breaker::new(limit, 0),
            proven: OnceLock::new(),
            usable: AtomicBool::new(false),
            gone: CancellationToken::new(),
        }
    }

    /// When it was first known to take requests.
    pub fn proven(&self) -> Option<Instant> {
        self.proven.get().copied()
    }

    /// Whether new requests may go to it. What runs on a pod that is not usable keeps places of its workload; whoever
    /// ends such a request has to have the workload's capacity counted anew.
    pub fn is_usable(&self) -> bool {
        self.usable.load(Ordering::SeqCst)
    }

    /// It takes requests.
    pub(crate) fn prove(&self, now: Instant) {
        self.proven.get_or_init(|| now);
        self.usable.store(true, Ordering::SeqCst);
    }

    /// It takes none until it is proven again.
    pub(crate) fn set_aside(&self) {
        self.usable.store(false, Ordering::SeqCst);
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
