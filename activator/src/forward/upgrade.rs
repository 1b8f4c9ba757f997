//! Upgrades (websocket): after a 101 the two connections become one tunnel.

use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// The caller's connection, in case the pod agrees to another protocol.
#[derive(Debug)]
pub struct Upgrade(OnUpgrade);

// === impl Upgrade ===

impl Upgrade {
    /// The request's connection, if it asks for an upgrade.
    pub fn of(head: &mut Parts) -> Option<Self> {
        wanted(head)?;
        head.extensions.remove::<OnUpgrade>().map(Self)
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

/// The protocol that a request asks to change to.
pub(super) fn wanted(head: &Parts) -> Option<HeaderValue> {
    let asks = || {
        let values = head.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"))
    };
    let protocol = head.headers.get(UPGRADE).filter(|_| head.version == Version::HTTP_11)?;
    asks().then(|| protocol.clone())
}
