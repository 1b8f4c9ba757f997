//! zero-scaler: the writer.
//!
//! ```text
//!  HPA ──► hpa ──► PodAutoscaler ──► pod_autoscaler ──┬──► Metric
//!                                    ▲    │           ├──► ServerlessService ──► serverless_service ──► EndpointSlices
//!            metrics-adapter ── decisions │           └──► /scale
//!            activator ── push ──► wake ──┴──────────────► /scale   0 to n at once
//! ```
//!
//! It decides nothing that the brain (`autoscaler`) could decide: it observes, asks there, and writes. All state is in
//! objects; what is held in memory (decisions, who asked last) comes anew with the next connection. The one of several
//! replicas that holds the Lease reconciles; all of them know the same and wake. What overlaps for a moment does no harm:
//! every write is idempotent or carries the version it was decided on.

pub mod activators;
pub mod app;
pub mod args;
pub mod cache;
pub mod clock;
pub mod controllers;
pub mod kubernetes;
pub mod metrics;
pub mod pods;
pub mod reports;
pub mod scaling;

/// Our name in managed fields, events and metrics.
pub const FIELD_MANAGER: &str = "zero-scaler";
