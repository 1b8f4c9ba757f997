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

pub mod activator_probe;
pub mod activators;
pub mod app;
pub mod args;
mod backoff;
pub mod claim;
pub mod cluster_config;
pub mod conditions;
pub mod context;
pub mod decisions;
mod departure;
pub mod events;
pub mod hpa;
pub mod known;
pub mod leases;
pub mod metrics;
pub mod objects;
pub mod obstacle;
pub mod orphans;
pub mod pace;
pub mod pod_autoscaler;
pub mod pod_endpoints;
pub mod proofs;
pub mod push;
pub mod reconciler;
pub mod referrers;
pub mod scale_target;
pub mod server_side_apply;
pub mod serverless_service;
pub mod service;
mod sidecar;
pub mod slice_index;
pub mod start_watch;
mod starting_pod;
pub mod told;
pub mod triggers;
pub mod wake;
pub mod watches;

/// Our name in managed fields, events and metrics.
pub const FIELD_MANAGER: &str = "zero-scaler";
