//! zero-scaler: scales workloads to and from zero and routes their Services.
//!
//! ```text
//!  HPA ──► hpa ──► PodAutoscaler ──► pod_autoscaler ──┬──► Metric
//!                                    ▲    │           ├──► ServerlessService ──► EndpointSlices
//!            metrics-adapter ── decisions │           └──► /scale
//!            activator ── push ──► wake ──┴──────────────► /scale   0 to n at once
//! ```
//!
//! Pure decisions are in the crate `autoscaler`; this crate observes, calls it, and writes. All
//! state is in objects of the cluster. State in memory (decisions, last requests) is rebuilt from
//! the next connection. The replica that holds the Lease reconciles; all replicas have the same
//! caches and wake workloads. Writes of two replicas do not conflict: each is idempotent or has a
//! resource version as precondition.
//!
//! [`uninstall`] is another process: the subcommand that ends an installation. It uses nothing of
//! the modules beside it.

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
pub mod uninstall;

/// Name of the component in managed fields, events and metrics.
pub const FIELD_MANAGER: &str = "zero-scaler";
