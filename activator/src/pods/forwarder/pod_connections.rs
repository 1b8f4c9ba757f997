//! PodConnections: the connections to each pod, by its address.
//!
//! Idle connections to a pod close by age. The empty entry of such a pod is removed when the next
//! new pod is added.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_client::{Http2Options, Http2Pool, Pool, PoolOptions};
use parking_lot::Mutex;

/// The idle time is shorter than the pods' own, so that no connection is used while the pod closes
/// it.
const POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_secs(15), max_idle: 1024 };
/// The same for apps: servers close idle connections after 2 s (gunicorn) or 5 s (Node.js).
const APP_POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_millis(1500), max_idle: 1024 };
const HTTP2: Http2Options = Http2Options {
    ping: Some(Duration::from_secs(10)),
    idle_timeout: Duration::from_secs(15),
    stream_timeout: Duration::from_secs(10),
};

/// The connections to all pods.
#[derive(Debug, Default)]
pub(super) struct PodConnections {
    /// Each request looks its pod up; a hash of the address costs more than some comparisons.
    by_pod: Mutex<BTreeMap<SocketAddr, Arc<PodConnection>>>,
}

/// The connections to one pod.
#[derive(Debug)]
pub(super) struct PodConnection {
    pub(super) http1: Pool,
    pub(super) http2: Http2Pool,
}

// === impl PodConnections ===

impl PodConnections {
    /// The connections to the pod at `address`: to its queue-proxy, or to its app.
    pub(super) fn to(&self, address: SocketAddr, is_queue_proxy: bool) -> Arc<PodConnection> {
        let mut by_pod = self.by_pod.lock();
        if let Some(pod) = by_pod.get(&address) {
            return pod.clone();
        }
        by_pod.retain(|_, pod| Arc::strong_count(pod) > 1 || pod.is_used());
        let connection = || Arc::new(PodConnection::new(if is_queue_proxy { POOL } else { APP_POOL }));
        by_pod.entry(address).or_insert_with(connection).clone()
    }
}

// === impl PodConnection ===

impl PodConnection {
    fn new(options: PoolOptions) -> Self {
        Self { http1: Pool::new(options), http2: Http2Pool::new(HTTP2) }
    }

    fn is_used(&self) -> bool {
        !(self.http1.is_unused() && self.http2.is_unused())
    }
}
