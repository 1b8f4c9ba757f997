//! Upgrades (websocket): after a 101 the two connections become one tunnel.

use http::{Request, Response};
use http_client::ResponseBody;
use hyper::upgrade::OnUpgrade;
use proxy::{gateway, tcp};

/// The caller's connection, in case the pod agrees to another protocol.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

// === impl Upgrade ===

impl Upgrade {
    /// The request's connection, if it asks for an upgrade. To be asked before the request is made ready for the next hop.
    pub fn of<B>(request: &mut Request<B>) -> Option<Self> {
        gateway::is_upgrade_request(request).then(|| Self(hyper::upgrade::on(request)))
    }

    /// If the pod agreed, passes bytes both ways until both sides are done, and drops `guard` then; gives it back if not.
    pub fn tunnel<G: Send + 'static>(self, response: &mut Response<ResponseBody>, guard: G) -> Option<G> {
        let Some(pod) = response.body_mut().take_switched() else { return Some(guard) };
        tokio::spawn(tcp::relay_upgraded(self.0, pod, guard, None));
        None
    }
}
