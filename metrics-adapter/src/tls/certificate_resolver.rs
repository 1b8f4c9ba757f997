//! CertificateResolver: hands the current certificate to every TLS handshake.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The current serving certificate. Handshakes fail until the first one is set.
#[derive(Debug, Default)]
pub struct CertificateResolver {
    current: ArcSwapOption<CertifiedKey>,
}

// === impl CertificateResolver ===

impl CertificateResolver {
    /// Uses this certificate from the next handshake on.
    pub fn set(&self, key: CertifiedKey) {
        self.current.store(Some(Arc::new(key)));
    }

    /// The certificate that the next handshake gets.
    pub fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}
