//! Upgrades (websocket): after a 101 the two connections become one tunnel.

use chassis::gateway;
use chassis::upstream::ResponseBody;
use http::{Request, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// The caller's connection, in case the pod agrees to another protocol.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

// === impl Upgrade ===

impl Upgrade {
    /// The request's connection, if it asks for an upgrade. To be asked before the request is made ready for the next hop.
    pub fn of<B>(request: &mut Request<B>) -> Option<Self> {
        gateway::asks_to_upgrade(request).then(|| Self(hyper::upgrade::on(request)))
    }

    /// If the pod agreed, passes bytes both ways until both sides are done, and drops `guard` then; gives it back if not.
    pub fn tunnel<G: Send + 'static>(self, response: &mut Response<ResponseBody>, guard: G) -> Option<G> {
        let Some(mut pod) = response.body_mut().take_switched() else { return Some(guard) };
        tokio::spawn(async move {
            match self.0.await {
                Ok(caller) => {
                    let mut caller = TokioIo::new(caller);
                    if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut pod).await {
                        tracing::debug!(%error, "tunnel ended");
                    }
                }
                Err(error) => tracing::debug!(%error, "upgrade failed"),
            }
            drop(guard);
        });
        None
    }
}
