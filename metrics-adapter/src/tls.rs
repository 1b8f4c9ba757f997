//! TLS: the listener of the metrics API, the certificate that it serves, and the trust in that
//! certificate.
//!
//! The certificate is either our own, kept in a Secret ([`serving_certificate`]), or mounted
//! ([`mounted_certificate`]). With our own, [`api_service`] keeps its CA in the APIServices.

pub mod api_service;
pub mod certificate_material;
pub mod certificate_resolver;
pub mod mounted_certificate;
pub mod serving_certificate;
pub mod tls_server;
