//! FrontProxy: kube-apiserver's aggregation layer, which says in headers for whom it asks.
//!
//! Which certificates may do so, and in which headers, is published in ConfigMap
//! `kube-system/extension-apiserver-authentication` and may change at any time. A ConfigMap that makes no sense changes
//! nothing; without one, nobody is believed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::{StreamExt, pin_mut};
use http::{HeaderMap, HeaderName};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use runtime::auth::User;
use runtime::readiness::ReadinessLatch;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Found, PeerCertificates};

/// Where the cluster publishes it.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const CONFIG_MAP: &str = "extension-apiserver-authentication";
/// For how long a certificate is not looked at again, unless what the cluster publishes changes.
const BELIEVED: Duration = Duration::from_secs(10);

/// Whom to believe, and where to read who asks.
#[derive(Debug, Default)]
pub struct FrontProxy {
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// Common names; if empty, every certificate of the CA will do.
    allowed_names: Vec<String>,
    username_headers: Vec<HeaderName>,
    uid_headers: Vec<HeaderName>,
    group_headers: Vec<HeaderName>,
    extra_prefixes: Vec<String>,
}

/// Why a ConfigMap makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum FrontProxyError {
    /// A list that is none.
    #[error("{key} is no JSON list of strings: {source}")]
    List {
        /// The ConfigMap's key.
        key: &'static str,
        /// Why.
        source: serde_json::Error,
    },
    /// A header that cannot be one.
    #[error("{key}: {name:?} is no header name")]
    Header {
        /// The ConfigMap's key.
        key: &'static str,
        /// The name.
        name: String,
    },
    /// A CA that is none.
    #[error("requestheader-client-ca-file: {0}")]
    Ca(String),
}

// === impl FrontProxy ===

impl FrontProxy {
    /// What the ConfigMap's `data` says.
    ///
    /// # Errors
    /// When a value is not what it must be.
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

    /// For whom the front proxy asks; `None` if it is not the front proxy, or does not say.
    pub fn authenticate(this: &Arc<Self>, headers: &HeaderMap, peer: &PeerCertificates) -> Option<User> {
        if !Self::believes(this, peer) {
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

    /// As [`trusts`](Self::trusts), which takes longer than all else of a request, but not with each request of a connection.
    fn believes(this: &Arc<Self>, peer: &PeerCertificates) -> bool {
        let now = runtime::clock::since_epoch();
        let fresh = |found: &Found| Arc::ptr_eq(&found.by, this) && now < found.until;
        if peer.found.load().as_deref().is_some_and(fresh) {
            return true;
        }
        let trusted = this.trusts(peer, now);
        if trusted {
            peer.found.store(Some(Arc::new(Found { by: this.clone(), until: now + BELIEVED })));
        }
        trusted
    }

    fn trusts(&self, peer: &PeerCertificates, now: Duration) -> bool {
        let (Some(verifier), Some((leaf, chain))) = (&self.verifier, peer.shown.split_first()) else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(now);
        if let Err(error) = verifier.verify_client_cert(leaf, chain, now) {
            tracing::debug!(%error, "a client certificate is not the front proxy's");
            return false;
        }
        self.allowed_names.is_empty()
            || common_name(leaf).is_some_and(|name| self.allowed_names.contains(&name))
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for name in headers.keys() {
            // Header names are lower case here, and so are the prefixes.
            let key =
                self.extra_prefixes.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let Some(key) = key.filter(|key| !key.is_empty()) {
                extra.entry(percent_decode(key)).or_default().extend(values(headers, name));
            }
        }
        extra
    }
}

/// Keeps `front_proxy` as the cluster publishes it.
pub async fn follow(client: Client, front_proxy: Arc<ArcSwap<FrontProxy>>, latch: ReadinessLatch) {
    let only_it = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let events = watcher(Api::<ConfigMap>::namespaced(client, NAMESPACE), only_it).default_backoff();
    pin_mut!(events);
    let mut latch = Some(latch);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => {
                match FrontProxy::parse(&map.data.unwrap_or_default()) {
                    Ok(new) => front_proxy.store(Arc::new(new)),
                    Err(error) => {
                        tracing::error!(config_map = CONFIG_MAP, %error, "the last good one stays in force");
                    }
                }
            }
            Ok(Event::Delete(_)) => {
                tracing::error!(config_map = CONFIG_MAP, "deleted; its last content stays in force");
            }
            Ok(Event::InitDone) => drop(latch.take()),
            Ok(Event::Init) => {}
            Err(error) => tracing::warn!(config_map = CONFIG_MAP, %error, "watch failed; it is tried again"),
        }
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

/// `%xx` decoded; what is no such thing, or no UTF-8 then, stays as it is.
fn percent_decode(text: &str) -> String {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        match escaped {
            Some(byte) => {
                decoded.push(byte);
                rest = rest.get(3..).unwrap_or_default();
            }
            None => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
