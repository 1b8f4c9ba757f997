//! Connections to the target, plain or with TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// A server that takes longer has no place for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection in both directions.
pub(crate) trait Connection: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Connection for T {}

/// Opens connections to one target.
#[derive(Clone)]
pub(crate) struct Connector {
    target: SocketAddr,
    tls: Option<TlsConnector>,
}

// === impl Connector ===

impl Connector {
    /// # Errors
    /// When no TLS version is available.
    pub(crate) fn new(target: SocketAddr, tls: bool, http2: bool) -> Result<Self, rustls::Error> {
        let tls = tls.then(|| tls_config(http2)).transpose()?;
        Ok(Self { target, tls: tls.map(|config| TlsConnector::from(Arc::new(config))) })
    }

    /// # Errors
    /// When the target refuses, or does not complete the connection in time.
    pub(crate) async fn connect(&self) -> io::Result<Box<dyn Connection>> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_without_timeout());
        connected.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn connect_without_timeout(&self) -> io::Result<Box<dyn Connection>> {
        let stream = TcpStream::connect(self.target).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            Some(tls) => {
                let name = ServerName::IpAddress(self.target.ip().into());
                Ok(Box::new(tls.connect(name, stream).await?))
            }
            None => Ok(Box::new(stream)),
        }
    }
}

fn tls_config(http2: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let verifier = Arc::new(AnyCertificate(provider));
    let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    let protocol: &[u8] = if http2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// An attacker does not care which server it attacks.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
