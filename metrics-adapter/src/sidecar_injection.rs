//! Sidecar injection: adds the sidecar to labelled pods, as a mutating admission webhook for
//! clusters without MutatingAdmissionPolicy v1 (before Kubernetes 1.36).
//!
//! ```text
//!  kube-apiserver ── POST /mutate-pods ──► webhook ──► review ──► pod_patch ──► sidecar, app_probe
//!                    AdmissionReview       bounds      JSON       JSON patch
//! ```
//!
//! The policy of `deploy/queue-proxy.yaml` makes the same pods in CEL. Both are tested with the
//! pods in `tests/cluster/policies/testdata`, so a change of only one fails.
//!
//! The API server does not authenticate itself to webhooks, so any client is served. A response
//! depends on nothing but the request and the flags.

mod app_pod;
mod app_probe;
mod list_lengths;
pub mod pod_patch;
pub mod review;
mod review_places;
pub mod settings;
mod sidecar;
pub mod webhook;

pub use settings::SidecarSettings;
pub use webhook::Webhook;

#[cfg(test)]
mod tests;
