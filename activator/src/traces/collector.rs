//! The exporter to a collector: OTLP by HTTP with protocol buffers, and TLS if its URL has https.
//!
//! The `opentelemetry-otlp` crate encodes spans, retries, and reads
//! `OTEL_EXPORTER_OTLP_HEADERS` itself, so that no argument and no log has these secrets.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry::KeyValue;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{ExporterBuildError, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::EnvResourceDetector;
use opentelemetry_sdk::trace::SpanExporter as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{self, PemObject};

use crate::traces::settings::TraceSettings;
use crate::traces::span_export::EXPORT_TIMEOUT;

const SERVICE_NAME: &str = "rouse-activator";

/// Why there is no exporter.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The file of CA certificates cannot be read.
    #[error("CA certificates in {}: {error}", .path.display())]
    Certificates { path: PathBuf, error: pem::Error },
    /// TLS cannot be set up, or a certificate is invalid.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// A variable that the exporter reads is invalid.
    #[error(transparent)]
    Exporter(#[from] ExporterBuildError),
}

/// The exporter with these settings. It connects with the first batch.
///
/// # Errors
/// See [`CollectorError`].
pub fn exporter(settings: &TraceSettings) -> Result<SpanExporter, CollectorError> {
    let connector = connector(settings.certificate.as_deref())?;
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(HyperClient::new(connector, EXPORT_TIMEOUT, None))
        .with_endpoint(settings.endpoint.to_string())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(EXPORT_TIMEOUT)
        .build()?;
    exporter.set_resource(&resource(settings));
    Ok(exporter)
}

fn connector(certificate: Option<&Path>) -> Result<HttpsConnector<HttpConnector>, CollectorError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = certificate {
        let failed = |error| CollectorError::Certificates { path: path.to_owned(), error };
        for certificate in CertificateDer::pem_file_iter(path).map_err(failed)? {
            roots.add(certificate.map_err(failed)?)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    // As `component_base::listener::outbound`.
    http.set_reuse_address(true);
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(http))
}

/// Variables precede our names.
fn resource(settings: &TraceSettings) -> Resource {
    let resource = Resource::builder_empty()
        .with_service_name(SERVICE_NAME)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new("k8s.pod.name", settings.pod_name.clone()))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match &settings.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    }
}
