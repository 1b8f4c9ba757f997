//! The path to an app without a ready pod: an activator that holds requests until the test reports
//! the pod.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::Protocol;
use autoscaler::settings::SidecarMode;
use conformance::runner::{ProxySettings, RunningProxy};

use super::Activator;

/// Longer than a wake takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// An activator without pods, and the queue-proxy of the pod to come, if it has one. Drop stops
/// both.
pub(crate) struct WorkloadAtZero {
    /// Address for clients.
    pub(crate) address: SocketAddr,
    activator: Activator,
    _queue_proxy: Option<RunningProxy>,
}

// === impl WorkloadAtZero ===

impl WorkloadAtZero {
    /// The pod to come has a queue-proxy.
    pub(crate) async fn start(app: SocketAddr) -> Self {
        let queue_proxy = super::queue_proxy(setup(app)).await;
        Self::start_of(queue_proxy.address, SidecarMode::Required, Some(queue_proxy)).await
    }

    /// The pod to come is the app alone.
    pub(crate) async fn start_without_sidecar(app: SocketAddr) -> Self {
        Self::start_of(app, SidecarMode::None, None).await
    }

    async fn start_of(pod: SocketAddr, sidecar: SidecarMode, queue_proxy: Option<RunningProxy>) -> Self {
        let activator = Activator::start_of(setup(pod), DEADLINE, sidecar, Protocol::Http).await;
        activator.wait_until_listening().await;
        Self { address: activator.address, activator, _queue_proxy: queue_proxy }
    }

    /// Number of held requests.
    pub(crate) fn held(&self) -> f64 {
        self.activator.held()
    }

    /// Waits until the activator holds a request.
    pub(crate) async fn wait_until_held(&self) {
        let held = async {
            while self.activator.held() < 1.0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(DEADLINE, held).await.expect("a request is held");
    }

    /// Reports a pod with an address that is not ready yet, so the activator has to probe it.
    pub(crate) async fn report_pod(&self) {
        self.activator.report_pod(false).await;
    }
}

fn setup(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: DEADLINE, idle_timeout: DEADLINE }
}
