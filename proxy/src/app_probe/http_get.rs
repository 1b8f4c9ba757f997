//! The request of an `httpGet` probe.

use std::net::SocketAddr;
use std::pin::pin;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use http_client::BoxError;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The status of a GET over `stream`, which is closed afterwards. The host is the address that the
/// app was reached at, as with the kubelet.
pub(super) async fn get(
    stream: TcpStream,
    path: &Uri,
    headers: &HeaderMap,
    user_agent: &'static str,
) -> Result<StatusCode, BoxError> {
    let peer = stream.peer_addr()?;
    // The zone of a link-local address has a meaning on this host alone (RFC 9844).
    let host = HeaderValue::try_from(SocketAddr::new(peer.ip(), peer.port()).to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::get(path.clone()).body(Empty::<Bytes>::new())?;
    let to = request.headers_mut();
    to.clone_from(headers);
    to.entry(header::HOST).or_insert(host);
    to.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(user_agent));
    to.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    to.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let mut response = pin!(sender.send_request(request));
    // The connection future drives the exchange. When it ends first, the response is complete.
    let response = tokio::select! {
        response = &mut response => response?,
        _ = connection => response.await?,
    };
    Ok(response.status())
}
