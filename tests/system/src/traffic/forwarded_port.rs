//! Requests to a port of one pod, forwarded by the kubelet.
//!
//! The kubelet connects inside of the pod's network, where no NetworkPolicy applies.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;

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
