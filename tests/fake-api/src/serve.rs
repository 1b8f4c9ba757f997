//! The API over sockets, without TLS, for processes with a kubeconfig.

use std::io;
use std::net::SocketAddr;

use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

use crate::api::FakeApi;

// === impl FakeApi ===

impl FakeApi {
    /// Serves all connections until it is dropped or the listener fails.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(self.clone().serve_connection(stream));
        }
    }

    async fn serve_connection(self, stream: TcpStream) {
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let mut api = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let response = api.call(http::Request::from_parts(parts, Body::from(body))).await;
                Ok::<_, hyper::Error>(response.unwrap_or_else(|never| match never {}))
            }
        });
        // A connection error concerns its client alone.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// A kubeconfig for a served API.
pub fn kubeconfig(address: SocketAddr) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "users": [{"name": "fake", "user": {}}],
    })
}
