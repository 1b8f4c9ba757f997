//! FrontProxy: kube-apiserver's aggregation layer, which names the user of a request in headers.
//!
//! The cluster publishes its CA, its allowed certificate names and its header names in ConfigMap
//! `kube-system/extension-apiserver-authentication`, and may change them at any time. Verification
//! costs more than the rest of a request, so a connection caches it for a few seconds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use component_base::auth::User;
use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

/// How long a verified certificate is trusted without another check, while the ConfigMap is
/// unchanged.
const VERIFIED_TTL: Duration = Duration::from_secs(10);

/// The certificate chain that a client presented; empty without one. The handshake has verified
/// only that the client holds the key. Clones belong to the same connection.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates {
    chain: Arc<[CertificateDer<'static>]>,
    /// The last successful verification.
    verified: Arc<ArcSwapOption<VerifiedPeer>>,
}

/// A certificate chain that was verified as the front proxy's.
#[derive(Debug)]
struct VerifiedPeer {
    by: Arc<FrontProxy>,
    until: Duration,
}

/// Which certificates are the front proxy's, and which headers name the user.
#[derive(Debug, Default)]
pub struct FrontProxy {
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Common names; if empty, every certificate of the CA is accepted.
    allowed_names: Vec<String>,
    username_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    extra_prefixes: Vec<String>,
}

/// Why the ConfigMap is invalid.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// A value is not a list.
    #[error("{key} is not a JSON list of strings: {source}")]
    List {
        /// The ConfigMap's key.
        key: &'static str,
        /// The parse error.
        source: serde_json::Error,
    },
    /// A name is not a valid header name.
    #[error("{key}: {name:?} is not a header name")]
    Header {
        /// The ConfigMap's key.
        key: &'static str,
        name: String,
    },
    /// The CA cannot be parsed.
    #[error("requestheader-client-ca-file: {0}")]
    Ca(String),
}

// === impl PeerCertificates ===

impl PeerCertificates {
    /// The chain that a client presented in its handshake, its own certificate first.
    pub fn new(chain: impl IntoIterator<Item = CertificateDer<'static>>) -> Self {
        Self { chain: chain.into_iter().collect(), verified: Arc::default() }
    }

    /// True if a request of this client was authenticated as the front proxy's.
    pub fn is_front_proxy(&self) -> bool {
        self.verified.load().is_some()
    }
}

// === impl FrontProxy ===

impl FrontProxy {
    /// Parses the `data` of the ConfigMap.
    ///
    /// # Errors
    /// When a value is invalid.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, FrontProxyError> {
        let verifier = match data.get("requestheader-client-ca-file") {
            Some(pem) if !pem.trim().is_empty() => Some(verifier(pem)?),
            _ => None,
        };
        let extra_prefixes = list(data, "requestheader-extra-headers-prefix")?;
        Ok(Self {
            verifier,
            allowed_names: list(data, "requestheader-allowed-names")?,
            username_headers: headers(data, "requestheader-username-headers")?,
            uid_headers: headers(data, "requestheader-uid-headers")?,
            group_headers: headers(data, "requestheader-group-headers")?,
            extra_prefixes: extra_prefixes.into_iter().map(|prefix| prefix.to_ascii_lowercase()).collect(),
        })
    }

    /// Whether the cluster has a front proxy. Without one each request is anonymous.
    pub fn is_configured(&self) -> bool {
        self.verifier.is_some()
    }

    /// The user that the front proxy names; `None` if the peer is not the front proxy or names no
    /// user.
    pub fn authenticate(this: &Arc<Self>, headers: &HeaderMap, peer: &PeerCertificates) -> Option<User> {
        if !Self::trusts(this, peer) {
            return None;
        }
        let name = this.username_headers.iter().flat_map(|name| values(headers, name)).next()?;
        Some(User {
            name,
            uid: this.uid_headers.iter().flat_map(|name| values(headers, name)).next(),
            groups: this.group_headers.iter().flat_map(|name| values(headers, name)).collect(),
            extra: this.extra(headers),
        })
    }

    /// Whether the peer is the front proxy. Cached per connection.
    pub fn trusts(this: &Arc<Self>, peer: &PeerCertificates) -> bool {
        let now = component_base::clock::since_epoch();
        let fresh = |peer: &VerifiedPeer| Arc::ptr_eq(&peer.by, this) && now < peer.until;
        if peer.verified.load().as_deref().is_some_and(fresh) {
            return true;
        }
        let verified = this.verify(peer, now);
        if verified {
            peer.verified.store(Some(Arc::new(VerifiedPeer { by: this.clone(), until: now + VERIFIED_TTL })));
        }
        verified
    }

    fn verify(&self, peer: &PeerCertificates, now: Duration) -> bool {
        let (Some(verifier), Some((leaf, chain))) = (&self.verifier, peer.chain.split_first()) else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(now);
        if let Err(error) = verifier.verify_client_cert(leaf, chain, now) {
            tracing::debug!(%error, "client certificate is not the front proxy's");
            return false;
        }
        self.allowed_names.is_empty()
            || common_name(leaf).is_some_and(|name| self.allowed_names.contains(&name))
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys() {
            // Both header names and prefixes are lower case.
            let key =
                self.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let Some(key) = key.filter(|key| !key.is_empty()) {
                extra.entry(percent_decode(key)).or_default().extend(values(headers, name));
            }
        }
        extra
    }
}

fn verifier(pem: &str) -> Result<Arc<dyn ClientCertVerifier>, FrontProxyError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| FrontProxyError::Ca(error.to_string()))?;
        roots.add(certificate).map_err(|error| FrontProxyError::Ca(error.to_string()))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| FrontProxyError::Ca(error.to_string()))
}

fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.as_str().ok()?;
    Some(name.to_owned())
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, FrontProxyError> {
    match data.get(key) {
        Some(text) if !text.trim().is_empty() => {
            serde_json::from_str(text).map_err(|source| FrontProxyError::List { key, source })
        }
        _ => Ok(Vec::new()),
    }
}

fn headers(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<HeaderName>, FrontProxyError> {
    let parse = |name: String| match HeaderName::from_bytes(name.as_bytes()) {
        Ok(header) => Ok(header),
        Err(_) => Err(FrontProxyError::Header { key, name }),
    };
    list(data, key)?.into_iter().map(parse).collect()
}

fn values(headers: &HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok()).filter(|value| !value.is_empty()).map(str::to_owned)
}

/// Text that would not be UTF-8 stays as it is, and so do invalid escapes.
fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Cow::into_owned)
}
