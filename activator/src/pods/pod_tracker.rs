//! PodTracker: one pod as a destination, with the requests that this activator has on it.

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use autoscaler::contract::{PROXIED_HEADER, PROXIED_WITHOUT_UID};
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// One pod of one workload. A successor with the same name or address has its own tracker.
#[derive(Debug)]
pub struct PodTracker {
    /// The pod's uid.
    pub uid: String,
    /// The pod's address.
    pub ip: IpAddr,
    /// When this process saw the address first.
    pub seen: Instant,
    /// The uid as the value of [`PROXIED_HEADER`].
    proxied: HeaderValue,
    in_flight: AtomicUsize,
    verified: OnceLock<Instant>,
    removed: CancellationToken,
}

// === impl PodTracker ===

impl PodTracker {
    /// A pod with an address that was just seen.
    pub fn new(uid: String, ip: IpAddr, now: Instant) -> Self {
        Self {
            proxied: proxied_value(&uid),
            uid,
            ip,
            seen: now,
            in_flight: AtomicUsize::new(0),
            verified: OnceLock::new(),
            removed: CancellationToken::new(),
        }
    }

    /// Marks a request with these headers as one of this process for this pod. A queue-proxy of
    /// another pod refuses it.
    pub(crate) fn mark(&self, headers: &mut HeaderMap) {
        headers.insert(PROXIED_HEADER, self.proxied.clone());
    }

    /// When it was first verified to take requests, by a probe or by its Ready condition.
    pub fn verified(&self) -> Option<Instant> {
        self.verified.get().copied()
    }

    /// Requests on it from this activator.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Counts a request that is sent to it.
    pub(crate) fn enter(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a request on it.
    pub(crate) fn leave(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Marks it as verified; later calls change nothing.
    pub(crate) fn mark_verified(&self, now: Instant) {
        self.verified.get_or_init(|| now);
    }

    /// Marks it as removed, which ends its probes.
    pub(crate) fn mark_removed(&self) {
        self.removed.cancel();
    }

    /// Completes when the pod is removed.
    pub async fn removed(&self) {
        self.removed.cancelled().await;
    }
}

/// A pod of a workloads file may have no uid.
fn proxied_value(uid: &str) -> HeaderValue {
    let value = HeaderValue::from_str(uid).ok().filter(|value| !value.is_empty());
    let Some(mut value) = value else { return HeaderValue::from_static(PROXIED_WITHOUT_UID) };
    // Not logged, and not in HTTP/2's table of headers, which all requests of a connection share.
    value.set_sensitive(true);
    value
}
