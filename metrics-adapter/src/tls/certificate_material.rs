//! CertificateMaterial: a CA, a leaf for the Service's DNS names, and their keys, as stored in a
//! Secret.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Validity of a leaf; renewed when a third of the validity is left.
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Validity of a CA; replaced when less than the validity of a leaf is left.
const CA_LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Start of validity before now, because clients' clocks may be behind.
const BACKDATED: Duration = Duration::from_secs(3600);

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
/// Key of the leaf certificate, and name of its file.
pub(super) const CERTIFICATE: &str = "tls.crt";
/// Key of the leaf's private key, and name of its file.
pub(super) const KEY: &str = "tls.key";

/// A CA and a leaf, in PEM.
#[derive(Clone)]
pub struct CertificateMaterial {
    /// The CA, followed by the previous CA after a replacement.
    ca_bundle: String,
    ca_key: String,
    certificate: String,
    key: String,
    fields: CertificateFields,
}

/// The fields of the leaf and of the first CA that decide about renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CertificateFields {
    ca_name: String,
    ca_not_after: Duration,
    names: Vec<String>,
    not_after: Duration,
}

/// Why a certificate cannot be used or created.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A key of the Secret is missing or not UTF-8.
    #[error("{0} is missing or not UTF-8")]
    Missing(&'static str),
    /// A PEM block is invalid.
    #[error("{0} is not valid PEM: {1}")]
    Pem(&'static str, rustls_pki_types::pem::Error),
    /// A certificate is invalid.
    #[error("{0} is not a valid certificate: {1}")]
    X509(&'static str, x509_parser::nom::Err<x509_parser::error::X509Error>),
    /// The certificate could not be created.
    #[error(transparent)]
    Make(#[from] rcgen::Error),
    /// The leaf and its key do not match, or their type is not supported.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

// === impl CertificateMaterial ===

impl CertificateMaterial {
    /// A new CA, and a leaf for these DNS names.
    ///
    /// # Errors
    /// When a name is not valid in a certificate.
    pub fn new(names: &[String], now: Duration) -> Result<Self, CertificateError> {
        Self::with_new_ca(names, now, "")
    }

    /// A new leaf of the same CA, or of a new CA if that one expires too soon.
    ///
    /// # Errors
    /// When the CA's key is invalid.
    pub fn renewed(&self, names: &[String], now: Duration) -> Result<Self, CertificateError> {
        if self.fields.ca_not_after < now + LEAF_LIFE {
            let old = first_certificate(&self.ca_bundle);
            return Self::with_new_ca(names, now, old);
        }
        let issuer = Issuer::new(ca_params(&self.fields.ca_name, now), KeyPair::from_pem(&self.ca_key)?);
        Self::with_leaf(self.ca_bundle.clone(), self.ca_key.clone(), &issuer, names, now)
    }

    fn with_new_ca(names: &[String], now: Duration, old_ca: &str) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let key_pem = key.serialize_pem();
        // The time makes the name unique: clients select the issuer by name.
        let params = ca_params(&format!("rouse-metrics-adapter-ca@{}", now.as_secs()), now);
        let certificate = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Self::with_leaf(format!("{certificate}{old_ca}"), key_pem, &issuer, names, now)
    }

    fn with_leaf(
        ca_bundle: String,
        ca_key: String,
        issuer: &Issuer<'_, KeyPair>,
        names: &[String],
        now: Duration,
    ) -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(names)?;
        let common_name = names.first().map_or("metrics-adapter", String::as_str);
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        set_life(&mut params, now, LEAF_LIFE);
        let certificate = params.signed_by(&key, issuer)?.pem();
        Self::parse(ca_bundle, ca_key, certificate, key.serialize_pem())
    }

    fn parse(
        ca_bundle: String,
        ca_key: String,
        certificate: String,
        key: String,
    ) -> Result<Self, CertificateError> {
        let fields = CertificateFields::read(&ca_bundle, &certificate)?;
        Ok(Self { ca_bundle, ca_key, certificate, key, fields })
    }

    /// Parses a Secret.
    ///
    /// # Errors
    /// When a key is missing or invalid.
    pub fn from_secret(secret: &Secret) -> Result<Self, CertificateError> {
        let text = |key: &'static str| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(key));
            let text = bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
            text.ok_or(CertificateError::Missing(key))
        };
        let material = Self::parse(text(CA_CERTIFICATE)?, text(CA_KEY)?, text(CERTIFICATE)?, text(KEY)?)?;
        // Also rejects a leaf and key that do not match.
        material.certified_key()?;
        Ok(material)
    }

    /// A Secret of this name.
    pub fn to_secret(&self, name: &str) -> Secret {
        let data = [
            (CA_CERTIFICATE, &self.ca_bundle),
            (CA_KEY, &self.ca_key),
            (CERTIFICATE, &self.certificate),
            (KEY, &self.key),
        ];
        let data: BTreeMap<_, _> =
            data.map(|(key, pem)| (key.to_owned(), ByteString(pem.clone().into_bytes()))).into();
        Secret {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            type_: Some("kubernetes.io/tls".to_owned()),
            data: Some(data),
            ..Secret::default()
        }
    }

    /// Whether it covers these names and does not expire soon.
    pub fn is_fresh(&self, names: &[String], now: Duration) -> bool {
        names.iter().all(|name| self.fields.names.contains(name))
            && self.fields.not_after > now + LEAF_LIFE / 3
            && self.fields.ca_not_after > now + LEAF_LIFE / 3
    }

    /// Expiry of the leaf, in Unix time.
    pub fn not_after(&self) -> Duration {
        self.fields.not_after
    }

    /// The CA bundle that clients must trust.
    pub fn ca_bundle(&self) -> &str {
        &self.ca_bundle
    }

    /// The leaf and its key, for handshakes.
    ///
    /// # Errors
    /// When leaf and key do not match.
    pub fn certified_key(&self) -> Result<CertifiedKey, CertificateError> {
        certified_key(&self.certificate, &self.key)
    }
}

impl std::fmt::Debug for CertificateMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The private keys stay out of logs.
        self.fields.fmt(f)
    }
}

// === impl CertificateFields ===

impl CertificateFields {
    fn read(ca_bundle: &str, certificate: &str) -> Result<Self, CertificateError> {
        let ca_der = der(CA_CERTIFICATE, ca_bundle)?;
        let leaf_der = der(CERTIFICATE, certificate)?;
        let (ca, leaf) = (x509(CA_CERTIFICATE, &ca_der)?, x509(CERTIFICATE, &leaf_der)?);
        let ca_name = ca.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
        let names = leaf.subject_alternative_name().ok().flatten();
        let names = names.iter().flat_map(|names| &names.value.general_names);
        Ok(Self {
            ca_name: ca_name.unwrap_or_default().to_owned(),
            ca_not_after: not_after(&ca),
            names: names
                .filter_map(|name| match name {
                    GeneralName::DNSName(name) => Some((*name).to_owned()),
                    _ => None,
                })
                .collect(),
            not_after: not_after(&leaf),
        })
    }
}

/// Parses a PEM certificate chain and its PEM key, for handshakes.
pub(super) fn certified_key(certificate: &str, key: &str) -> Result<CertifiedKey, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| CertificateError::Pem(CERTIFICATE, error))?;
    let key =
        PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| CertificateError::Pem(KEY, error))?;
    Ok(CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider())?)
}

/// Expiry of the first certificate of a PEM chain, in Unix time.
pub(super) fn expiry(certificate: &str) -> Result<Duration, CertificateError> {
    Ok(not_after(&x509(CERTIFICATE, &der(CERTIFICATE, certificate)?)?))
}

fn der(what: &'static str, pem: &str) -> Result<CertificateDer<'static>, CertificateError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| CertificateError::Pem(what, error))
}

fn x509<'a>(
    what: &'static str,
    der: &'a CertificateDer<'_>,
) -> Result<X509Certificate<'a>, CertificateError> {
    let parsed = X509Certificate::from_der(der);
    parsed.map(|(_, certificate)| certificate).map_err(|error| CertificateError::X509(what, error))
}

fn not_after(certificate: &X509Certificate<'_>) -> Duration {
    let seconds = certificate.validity().not_after.timestamp();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

fn ca_params(name: &str, now: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_life(&mut params, now, CA_LIFE);
    params
}

fn set_life(params: &mut CertificateParams, now: Duration, life: Duration) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(BACKDATED);
    params.not_after = epoch + now + life;
}

/// The first certificate of a bundle. Only one old CA is kept, so a bundle has at most two.
fn first_certificate(bundle: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----";
    let end = bundle.find(END).map_or(bundle.len(), |at| at + END.len());
    bundle.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_000);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn names() -> Vec<String> {
        vec!["metrics-adapter.rouse-system.svc".to_owned()]
    }

    #[test]
    fn round_trips_through_a_secret() {
        let made = CertificateMaterial::new(&names(), NOW).unwrap();
        assert!(made.is_fresh(&names(), NOW));
        let read = CertificateMaterial::from_secret(&made.to_secret("x")).unwrap();
        assert_eq!(read.fields, made.fields);
        assert_eq!(read.not_after(), NOW + LEAF_LIFE);
        assert!(!read.is_fresh(&["another.svc".to_owned()], NOW));
    }

    #[test]
    fn renews_an_expiring_leaf_under_the_same_ca() {
        let old = CertificateMaterial::new(&names(), NOW).unwrap();
        let later = NOW + LEAF_LIFE * 3 / 4;
        assert!(!old.is_fresh(&names(), later));
        let new = old.renewed(&names(), later).unwrap();
        assert!(new.is_fresh(&names(), later));
        assert_eq!(new.ca_bundle, old.ca_bundle);
        assert_ne!(new.certificate, old.certificate);
        assert_trusted(&new, &new.ca_bundle, later);
    }

    #[test]
    fn replaces_an_expiring_ca_and_keeps_the_old_one_trusted() {
        let old = CertificateMaterial::new(&names(), NOW).unwrap();
        let later = NOW + CA_LIFE - 100 * DAY;
        let new = old.renewed(&names(), later).unwrap();
        assert!(new.is_fresh(&names(), later));
        assert_eq!(new.ca_bundle.matches("BEGIN CERTIFICATE").count(), 2);
        assert_trusted(&new, &new.ca_bundle, later);
        assert_trusted(&old, &new.ca_bundle, NOW + DAY);
        let newest = new.renewed(&names(), later + CA_LIFE).unwrap();
        assert_eq!(newest.ca_bundle.matches("BEGIN CERTIFICATE").count(), 2);
    }

    #[test]
    fn reports_the_invalid_key_of_a_secret() {
        let good = CertificateMaterial::new(&names(), NOW).unwrap().to_secret("x");
        let other = CertificateMaterial::new(&names(), NOW).unwrap().to_secret("x");
        let broken = |key: &str, value: Option<ByteString>| {
            let mut secret = good.clone();
            let data = secret.data.as_mut().unwrap();
            match value {
                Some(value) => data.insert(key.to_owned(), value),
                None => data.remove(key),
            };
            CertificateMaterial::from_secret(&secret)
        };
        assert!(matches!(broken(CA_KEY, None), Err(CertificateError::Missing(CA_KEY))));
        let garbage = Some(ByteString(b"garbage".to_vec()));
        assert!(matches!(broken(CERTIFICATE, garbage), Err(CertificateError::Pem(CERTIFICATE, _))));
        let foreign = other.data.unwrap().remove(KEY);
        assert!(matches!(broken(KEY, foreign), Err(CertificateError::Tls(_))));
    }

    fn assert_trusted(material: &CertificateMaterial, bundle: &str, at: Duration) {
        use rustls::client::WebPkiServerVerifier;
        use rustls::client::danger::ServerCertVerifier as _;
        use rustls_pki_types::{ServerName, UnixTime};
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            roots.add(certificate.unwrap()).unwrap();
        }
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let leaf = der(CERTIFICATE, &material.certificate).unwrap();
        let name = ServerName::try_from("metrics-adapter.rouse-system.svc").unwrap();
        verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::since_unix_epoch(at)).unwrap();
    }
}
