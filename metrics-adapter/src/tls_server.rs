//! TlsServer: the API's listener.
//!
//! It asks every client for a certificate and takes any, or none: the handshake proves that the client holds the key, and
//! whether the certificate means anything is decided for each request, against the CA of that moment. So a rotated CA needs
//! no restart and cuts no connection.

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

/// Connections open at a time: a few from each kube-apiserver.
const MAX_CONNECTIONS: usize = 1024;
/// Time for a client's handshake, and then for its headers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time that running requests have at the end.
const DRAIN: Duration = Duration::from_secs(5);
/// Wait after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The API's TLS.
///
/// # Errors
/// When the TLS provider lacks the protocol versions, which it does not.
pub fn config(certificates: Arc<dyn ResolvesServerCert>) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(AnyCertificate(provider)))
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Serves the API until `stop`, then lets running requests finish.
pub async fn serve(listener: TcpListener, config: ServerConfig, api: Arc<Api>, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        let (stream, peer, slot) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let (acceptor, api, watcher) = (acceptor.clone(), api.clone(), graceful.watcher());
        tokio::spawn(async move {
            if let Err(error) = connection(stream, acceptor, api, watcher).await {
                // Mostly clients that went away, or do not trust our certificate yet.
                tracing::debug!(%peer, %error, "connection ended");
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!(after = ?DRAIN, "requests were cut: they did not end in time");
    }
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, Option<tokio::sync::OwnedSemaphorePermit>)> {
    // The semaphore is never closed.
    let slot = slots.clone().acquire_owned().await.ok();
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer, slot))
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    api: Arc<Api>,
    watcher: Watcher,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await??;
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = PeerCertificates::new(shown.iter().map(|certificate| certificate.clone().into_owned()));
    let service = service_fn(move |request: Request<Incoming>| {
        let (api, peer) = (api.clone(), peer.clone());
        async move {
            let (parts, _body) = request.into_parts();
            Ok::<_, Infallible>(api.answer(&parts, &peer).await)
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).max_header_list_size(64 * 1024);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    watcher.watch(connection).await
}

/// Takes any client certificate whose key the client holds, and also none.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

// === impl AnyCertificate ===

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// No hints: they would fix a CA for the length of a connection, and clients do without.
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
