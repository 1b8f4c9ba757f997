//! The metrics-adapter, as a library so that tests can build its parts.
//!
//! ```text
//!  activators ── /push ──► stat_server ─┐               ┌─► DecisionStore ─ stream ─► zero-scaler
//!                                       ├─► collector ─► multi_scaler ◄── learning
//!  queue-proxies ◄── stats_scraper ─────┘       ▲       └─► external_metrics ─► API server ─► HPA
//!                                               │
//!  Metric, PodAutoscaler, ConfigMap ─► metric_watch ─► workloads          Pods ─► ready_pods
//! ```
//!
//! Beside them, `sidecar_injection` is a webhook on the listener of the metrics API.
//!
//! The process writes three things to the cluster: its serving certificate, the certificate's CA in
//! its APIServices and in the configuration of the webhook, and the deletion costs of busy pods
//! before a scale-down.

pub mod app;
pub mod args;
pub mod collection;
pub mod decisions;
pub mod deletion_costs;
pub mod external_metrics;
pub mod learning;
pub mod metrics;
pub mod sidecar_injection;
pub mod stat_server;
pub mod tls;
pub mod watches;

/// Name of the component in its Lease, events and metrics.
const COMPONENT: &str = "metrics-adapter";
