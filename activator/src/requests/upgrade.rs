//! HTTP upgrades (websocket): after a 101 the connections of client and pod become one tunnel.

use std::time::Duration;

use http::{Request, Response};
use http_client::ResponseBody;
use hyper::upgrade::OnUpgrade;
use proxy::{gateway, tcp};

/// The client's connection, in case the pod accepts the upgrade.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

// === impl Upgrade ===

impl Upgrade {
    /// The client's connection, if the request is for an upgrade. To be called before the request
    /// is prepared for the next hop.
    pub fn of<B>(request: &mut Request<B>) -> Option<Self> {
        gateway::is_upgrade_request(request).then(|| Self(hyper::upgrade::on(request)))
    }

    /// If the pod accepted, relays bytes in both directions until both sides are done, or no
    /// byte passes for `idle`, and then drops `guard`. Otherwise returns `guard`.
    pub fn tunnel<G: Send + 'static>(
        self,
        response: &mut Response<ResponseBody>,
        guard: G,
        idle: Option<Duration>,
    ) -> Option<G> {
        let Some(pod) = response.body_mut().take_switched() else { return Some(guard) };
        tokio::spawn(tcp::relay_upgraded(self.0, pod, guard, response.headers(), idle));
        None
    }
}
