//! External metrics: the API `external.metrics.k8s.io/v1beta1`, which the HPA reads through the
//! aggregation layer of kube-apiserver.
//!
//! ```text
//! request ─► method ─► authenticate ─► authorize ─► route ─► discovery | value ─► JSON
//!                      auth            auth                            └─► ApiError ─► Status JSON
//! ```
//!
//! MetricValues come from the collector and from decisions, in memory; a follower forwards the
//! query to the leader. Nothing else waits for I/O but access reviews, which are cached.
//!
//! Missing data is an error and never 0, because the HPA would act on a 0. No response carries
//! `Retry-After`, because the HPA would sleep on it.

pub mod api;
pub mod auth;
mod discovery;
mod error;
mod history;
pub mod leader_forwarder;
mod metric_selector;
mod response;
mod route;
mod trace;
pub mod value;
mod why;

pub use api::Api;
pub use error::ApiError;
pub use response::ApiResponse;
pub use value::MetricValues;

#[cfg(test)]
mod tests;
