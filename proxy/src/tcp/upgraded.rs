//! What is left of a request whose connection switched protocols (a websocket, mostly).
//!
//! It counts, and holds its place on the app, until either side has closed it: such a caller keeps the app busy as any
//! other. Of the timeouts only silence holds for it: how long it may last is the matter of who speaks over it. A stop leaves
//! it alone, for a drain has waited for it.

use std::io;
use std::time::Duration;

use http_client::SwitchedConnection;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::relay::{IdleTimeouts, TcpRelay};

/// Carries both ways until either end fails, both have finished, or nothing passes for as long as `idle`; then lets go of
/// `request`.
pub async fn relay_upgraded<G>(
    caller: OnUpgrade,
    mut app: SwitchedConnection,
    request: G,
    idle: Option<Duration>,
) {
    let carried = async {
        let mut caller = TokioIo::new(caller.await.map_err(io::Error::other)?);
        let idle_timeouts = IdleTimeouts::close_only(idle);
        let relay =
            TcpRelay { idle_timeouts, counted: Some(()), count: || (), stop: CancellationToken::new() };
        relay.run(&mut caller, &mut app).await
    };
    if let Err(error) = carried.await {
        tracing::debug!(%error, "upgraded connection ended");
    }
    drop(request);
}
