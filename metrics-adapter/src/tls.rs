//! TLS: the listener of the metrics API, the certificate that it serves, and the trust in that
//! certificate.
//!
//! The certificate is either our own, kept in a Secret ([`serving_certificate`]), or mounted
//! ([`mounted_certificate`]). With our own, [`ca_bundle`] keeps its CA in the APIServices and in
//! the configuration of the sidecar's webhook.

pub mod api_service;
pub mod ca_bundle;
pub mod certificate_material;
pub mod certificate_resolver;
pub mod mounted_certificate;
pub mod serving_certificate;
pub mod tls_server;
pub mod webhook_configuration;
mod write_pace;
