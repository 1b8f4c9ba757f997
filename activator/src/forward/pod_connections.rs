//! PodConnections: the connections to each pod, by its address.
//!
//! Those of a pod that nobody sends to any more close by age, and what is left of them is forgotten with the next new pod; so
//! there are never more than pods were asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use http_client::{Http2Connection, Pool};
use hyper::body::Incoming;
use parking_lot::Mutex;

use super::{PING, POOL};
use crate::held_body::LentBody;

/// The connections to all pods.
#[derive(Debug, Default)]
pub(super) struct PodConnections {
    by_pod: Mutex<HashMap<SocketAddr, Arc<PodConnection>>>,
}

/// The connections to one pod.
#[derive(Debug)]
pub(super) struct PodConnection {
    pub(super) http1: Pool,
    pub(super) http2: Http2Connection<LentBody<Incoming>>,
}

// === impl PodConnections ===

impl PodConnections {
    /// Those to the pod at `address`.
    pub(super) fn to(&self, address: SocketAddr) -> Arc<PodConnection> {
        // Every update is whole before anything can fail.
        let mut by_pod = self.by_pod.lock();
        if let Some(pod) = by_pod.get(&address) {
            return pod.clone();
        }
        by_pod.retain(|_, pod| Arc::strong_count(pod) > 1 || pod.is_used());
        by_pod.entry(address).or_default().clone()
    }
}

// === impl PodConnection ===

impl PodConnection {
    fn is_used(&self) -> bool {
        !self.http1.is_unused() || self.http2.is_open()
    }
}

impl Default for PodConnection {
    fn default() -> Self {
        Self { http1: Pool::new(POOL), http2: Http2Connection::new(Some(PING)) }
    }
}
