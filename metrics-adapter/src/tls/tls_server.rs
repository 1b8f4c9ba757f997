//! TLS server: the listener of the metrics API.
//!
//! It requests a client certificate and accepts any, or none. The handshake verifies that the
//! client holds the key; each request verifies the certificate against the CA published at that
//! time. So a rotated CA needs no restart and closes no connection.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ResolvesServerCert, ServerConfig};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::external_metrics::Api;
use crate::external_metrics::auth::PeerCertificates;

/// Concurrent connections. Each kube-apiserver opens a few.
const MAX_CONNECTIONS: usize = 1024;
/// Timeout of a client's handshake, and then of its headers.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that running requests have to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The TLS configuration of the API.
///
/// # Errors
/// When the TLS provider lacks the default protocol versions.
pub fn config(resolver: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyCertificate(provider)))
        .with_cert_resolver(resolver);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves the API until `stop`, then lets running requests finish.
pub async fn serve(listener: TcpListener, config: ServerConfig, api: Arc<Api>, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let graceful = GracefulShutdown::new();
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        let (stream, peer, permit) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed, retrying");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let (acceptor, api, watcher) = (acceptor.clone(), api.clone(), graceful.watcher());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, api, watcher).await {
                // Mostly clients that closed, or that do not trust the certificate yet.
                tracing::debug!(%peer, %error, "connection ended with an error");
            }
            drop(permit);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_err() {
        tracing::warn!(timeout = ?DRAIN_TIMEOUT, "running requests aborted at shutdown");
    }
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed.
    let permit = connections.clone().acquire_owned().await.ok();
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, permit))
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    api: Arc<Api>,
    watcher: Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::time::timeout(CLIENT_TIMEOUT, acceptor.accept(stream)).await??;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = PeerCertificates::new(chain.iter().map(|certificate| certificate.clone().into_owned()));
    let service = service_fn(move |request: Request<Incoming>| {
        let (api, peer) = (api.clone(), peer.clone());
        async move {
            let (parts, _body) = request.into_parts();
            Ok::<_, Infallible>(api.serve(&parts, &peer).await)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(64 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}

/// Accepts any client certificate whose key the client holds, and clients without one.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

// === impl AnyCertificate ===

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints: they would fix the CA for the lifetime of a connection, and clients work without.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
