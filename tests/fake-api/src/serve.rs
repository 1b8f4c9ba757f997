//! The API over sockets, with TLS, for processes with a kubeconfig.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kube::client::Body;
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::api::FakeApi;

/// The protocols that a served API offers.
#[derive(Clone, Copy, Debug)]
pub enum Protocols {
    Http1,
    /// HTTP/1.1 as well.
    Http2 {
        /// Streams of a connection, at most.
        streams: u32,
    },
}

// === impl FakeApi ===

impl FakeApi {
    /// Serves all connections until it is dropped or the listener fails.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn serve(self, listener: TcpListener, protocols: Protocols) -> io::Result<()> {
        let tls = TlsAcceptor::from(Arc::new(tls(protocols).map_err(io::Error::other)?));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(self.clone().serve_connection(stream, tls.clone(), protocols));
        }
    }

    async fn serve_connection(self, stream: TcpStream, tls: TlsAcceptor, protocols: Protocols) {
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
        let Ok(stream) = tls.accept(stream).await else { return };
        let mut server = Builder::new(TokioExecutor::new());
        if let Protocols::Http2 { streams } = protocols {
            server.http2().max_concurrent_streams(streams);
        }
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    }
}

/// A certificate that no client can verify.
fn tls(protocols: Protocols) -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(["localhost".to_owned()])?.self_signed(&key)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let mut tls = builder
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())?;
    if matches!(protocols, Protocols::Http2 { .. }) {
        tls.alpn_protocols.push(b"h2".to_vec());
    }
    tls.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(tls)
}

/// A kubeconfig for a served API.
pub fn kubeconfig(address: SocketAddr) -> Value {
    let cluster = json!({"server": format!("https://{address}"), "insecure-skip-tls-verify": true});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "fake",
        "clusters": [{"name": "fake", "cluster": cluster}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "users": [{"name": "fake", "user": {}}],
    })
}
