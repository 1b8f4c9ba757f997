//! Asleep: the way to an app that has no pod, until a test says that it has.

use std::net::SocketAddr;
use std::time::Duration;

use conformance::runner::{ProxySettings, RunningProxy};

use super::Activator;

/// More than a wake takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// An activator that knows of no pod, and the queue-proxy that it is to find; they end when this is
/// dropped.
pub(crate) struct Asleep {
    /// Where callers go.
    pub(crate) address: SocketAddr,
    activator: Activator,
    _sidecar: RunningProxy,
}

// === impl Asleep ===

impl Asleep {
    pub(crate) async fn in_front_of(app: SocketAddr) -> Self {
        let setup = |app| ProxySettings { app, header_timeout: DEADLINE };
        let sidecar = super::queue_proxy(setup(app)).await;
        let activator = Activator::start(setup(sidecar.address), DEADLINE).await;
        activator.listening().await;
        Self { address: activator.address, activator, _sidecar: sidecar }
    }

    /// Comes back when a request waits for a pod.
    pub(crate) async fn until_held(&self) {
        let held = async {
            while self.activator.held() < 1.0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(DEADLINE, held).await.expect("a request is held");
    }

    /// There is a pod from now on, of which nothing but its address is known.
    pub(crate) async fn wakes(&self) {
        self.activator.pod_seen(false).await;
    }
}
