//! Learning: the learned target of each workload, from the seconds that its pods report.
//!
//! ```text
//!  stats_scraper ─► observations ─┐              ┌─► target_in_force ─► decider, value served to the HPA
//!  pods: template, kills ─────────┴─► learners ──┤
//!                                                └─► learning_report ─► Decision ─► zero-scaler
//! ```
//!
//! The rules are `autoscaler::learning`. Only the leader learns: replicas sample different pods.

pub mod learners;
pub(crate) mod learning_report;
pub mod observations;
pub(crate) mod pod_template;
pub mod target_in_force;
