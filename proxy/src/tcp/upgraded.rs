//! Relays an upgraded connection, usually a websocket.
//!
//! It counts as its request, and holds the request's slot, until either side has closed it: it
//! keeps the app as busy as any request. Of the timeouts only the idle timeout applies, because the
//! protocol above decides how long it lasts. A stop does not close it: the drain has waited for it.
//!
//! A websocket whose one side has closed is over (RFC 6455, 7.1.1), even if the other side does not
//! close. Other protocols close one side and go on, as a shell without more input.

use std::io;
use std::time::Duration;

use http::HeaderMap;
use http::header::UPGRADE;
use http_client::headers::lists;
use http_client::{ReadAhead, SwitchedConnection};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::relay::{IdleTimeouts, TcpRelay};
use crate::client_stream::ClientStream;
use crate::client_stream::abort::Abort;

/// Time that the other side of a websocket has to close as well.
const WEBSOCKET_CLOSE: Duration = Duration::from_secs(5);

/// Relays both ways until either end fails, both have closed, or no byte passes for `idle`. Then
/// drops `request`. `response` is the head with which the app switched.
pub fn relay_upgraded<G>(
    client: OnUpgrade,
    mut app: SwitchedConnection,
    request: G,
    response: &HeaderMap,
    idle: Option<Duration>,
) -> impl Future<Output = ()> + use<G> {
    let is_websocket = lists(response, UPGRADE, "websocket");
    let half_closed = if is_websocket { WEBSOCKET_CLOSE } else { Duration::MAX };
    let idle_timeouts = IdleTimeouts { half_closed, ..IdleTimeouts::close_only(idle) };
    async move {
        let relayed = async {
            let client = client.await.map_err(io::Error::other)?;
            let mut client = upgraded_connection::<ClientStream<ReadAhead<TcpStream>>>(client)?;
            client.get_ref().switch_protocol();
            let relay =
                TcpRelay { idle_timeouts, counted: Some(()), count: || (), stop: CancellationToken::new() };
            relay.run(&mut client, &mut app).await
        };
        if let Err(error) = relayed.await {
            tracing::debug!(%error, "upgraded connection ended");
        }
        drop(request);
    }
}

/// The connection below an upgrade, from its first byte in the new protocol.
///
/// # Errors
/// When the connections of the server that upgraded it are not of type `S`.
pub fn upgraded_connection<S>(upgraded: Upgraded) -> io::Result<ReadAhead<S>>
where
    S: AsyncRead + AsyncWrite + Abort + Unpin + Send + 'static,
{
    let parts = upgraded
        .downcast::<TokioIo<S>>()
        .map_err(|_| io::Error::other("the upgraded connection has another type"))?;
    Ok(ReadAhead::new(parts.io.into_inner(), parts.read_buf))
}
