//! Relays an upgraded connection, usually a websocket.
//!
//! It counts as its request, and holds the request's slot, until either side has closed it: it
//! keeps the app as busy as any request. Of the timeouts only the idle timeout applies, because the
//! protocol above decides how long it lasts. A stop does not close it: the drain has waited for it.

use std::io;
use std::time::Duration;

use http_client::SwitchedConnection;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use super::relay::{IdleTimeouts, TcpRelay};

/// Relays both ways until either end fails, both have closed, or no byte passes for `idle`. Then
/// drops `request`.
pub async fn relay_upgraded<G>(
    client: OnUpgrade,
    mut app: SwitchedConnection,
    request: G,
    idle: Option<Duration>,
) {
    let relayed = async {
        let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
        let idle_timeouts = IdleTimeouts::close_only(idle);
        let relay =
            TcpRelay { idle_timeouts, counted: Some(()), count: || (), stop: CancellationToken::new() };
        relay.run(&mut client, &mut app).await
    };
    if let Err(error) = relayed.await {
        tracing::debug!(%error, "upgraded connection ended");
    }
    drop(request);
}
