//! Requests to a port of one pod, forwarded by the kubelet.
//!
//! The kubelet connects inside of the pod's network, where no NetworkPolicy applies.

use std::convert::Infallible;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;

/// The body of a request over HTTP/2.
pub type RequestBody = UnsyncBoxBody<Bytes, Infallible>;

/// Bytes of a request that wait in the client for the server's window.
const SEND_BUFFER: usize = 64 << 10;
/// Unread bytes of a response, and of all responses of a connection. A few responses that are not
/// read leave most of the connection's to the others, so only the server can make these wait.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Sends a GET on a connection of its own.
///
/// # Errors
/// When the pod does not listen, or the connection ends before the response does.
pub async fn get(pods: &Api<Pod>, pod: &str, port: u16, path: &str) -> Result<Response<String>> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    let stream = forwarder.take_stream(port).context("no stream")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", pod).body(Empty::<Bytes>::new())?;
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = String::from_utf8(body.collect().await?.to_bytes().to_vec())?;
    Ok(Response::from_parts(head, body))
}

/// Opens a connection of HTTP/2 without TLS.
///
/// # Errors
/// When the pod does not listen, or does not begin HTTP/2.
pub async fn http2(pods: &Api<Pod>, pod: &str, port: u16) -> Result<SendRequest<RequestBody>> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    let stream = forwarder.take_stream(port).context("no stream")?;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_send_buf_size(SEND_BUFFER);
    builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
