//! A GET request over plain HTTP.

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// Returns the status and the body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(StatusCode, String)> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::get(format!("http://{address}{path}")).body(Empty::<Bytes>::new())?;
    let response = client.request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
