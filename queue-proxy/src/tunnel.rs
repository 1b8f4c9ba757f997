//! Tunnel: what is left of a request whose connection switched protocols (a websocket, mostly).
//!
//! It counts, and holds its slot of the app, until either side has closed it: such a caller keeps the app busy as any other.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::request_counter::InFlight;

/// Copies both ways until either end fails or both have finished, then lets go of the request.
pub(crate) async fn carry(caller: OnUpgrade, app: OnUpgrade, request: InFlight) {
    match tokio::try_join!(caller, app) {
        Ok((caller, app)) => {
            let (mut caller, mut app) = (TokioIo::new(caller), TokioIo::new(app));
            if let Err(error) = tokio::io::copy_bidirectional(&mut caller, &mut app).await {
                tracing::debug!(%error, "upgraded connection ended");
            }
        }
        Err(error) => tracing::debug!(%error, "the connection was not upgraded"),
    }
    drop(request);
}
