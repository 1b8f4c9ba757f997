//! TLS server: the listener of the metrics API and of the sidecar's webhook.
//!
//! It requests a client certificate and accepts any, or none. The handshake verifies that the
//! client holds the key; each request verifies the certificate against the CA published at that
//! time. So a rotated CA needs no restart and closes no connection.

use std::sync::Arc;
use std::time::Duration;

use component_base::server::{
    self, ConnectionBounds, ConnectionError, ConnectionSlot, Http2Limits, HttpHandler, ServerLimits,
};
use http::Request;
use hyper::body::Incoming;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ResolvesServerCert, ServerConfig};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::external_metrics::Api;
use crate::external_metrics::auth::PeerCertificates;
use crate::sidecar_injection::{Webhook, webhook};

/// The connections of kube-apiservers are authenticated by the first request. Each opens a few,
/// uses them for all queries, and is never idle for as long as this while there is an HPA.
const LIMITS: ServerLimits = ServerLimits {
    connections: ConnectionBounds { total: 512, per_peer: 128, authenticated: 512 },
    header_read_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(120),
    drain_timeout: Duration::from_secs(5),
    http2: Some(Http2Limits { max_streams: 200, ping: Duration::from_secs(20) }),
};

/// What the listener serves. Each has bounds of its own.
#[derive(Clone, Debug)]
pub struct Services {
    /// The metrics API.
    pub api: Arc<Api>,
    /// The sidecar's webhook.
    pub webhook: Arc<Webhook>,
}

/// The TLS configuration of the listener.
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

/// Serves until `stop`, then lets running requests finish.
pub async fn serve(listener: TcpListener, config: ServerConfig, services: Services, stop: CancellationToken) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let open = move |stream, slot| {
        let (acceptor, services) = (acceptor.clone(), services.clone());
        async move { open(stream, slot, acceptor, services).await }
    };
    server::serve_with(listener, open, LIMITS, stop).await;
}

/// Makes the handshake; returns the stream and the handler of its requests.
async fn open(
    stream: TcpStream,
    slot: Arc<ConnectionSlot>,
    acceptor: TlsAcceptor,
    services: Services,
) -> Result<(TlsStream<TcpStream>, impl HttpHandler), ConnectionError> {
    let stream = acceptor.accept(stream).await.map_err(|error| ConnectionError::Failed(error.into()))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = PeerCertificates::new(chain.iter().map(|certificate| certificate.clone().into_owned()));
    let handler = move |request: Request<Incoming>| {
        let (services, peer, slot) = (services.clone(), peer.clone(), slot.clone());
        async move {
            if request.uri().path() == webhook::PATH {
                return services.webhook.serve(request, slot.peer()).await;
            }
            let (parts, _body) = request.into_parts();
            let response = services.api.serve(&parts, &peer).await;
            if peer.is_front_proxy() {
                slot.authenticated();
            }
            response
        }
    };
    Ok((stream, handler))
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
