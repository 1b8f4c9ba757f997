//! Upgrades (websocket): after a 101 the two connections become one tunnel.

use chassis::gateway;
use http::{Request, Response, StatusCode};
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
    pub fn tunnel<B, G: Send + 'static>(self, response: &mut Response<B>, guard: G) -> Option<G> {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Some(guard);
        }
        let pod = hyper::upgrade::on(response);
        tokio::spawn(async move {
            match tokio::try_join!(self.0, pod) {
                Ok((caller, pod)) => {
                    let (mut caller, mut pod) = (TokioIo::new(caller), TokioIo::new(pod));
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
