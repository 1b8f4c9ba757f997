//! Learning: the learned target of each workload, from the seconds that its pods report.
//!
//! ```text
//!  stats_scraper ─► observations ─┐             ┌─► target_in_force ─► decider, the HPA's value
//!  pods: template, kills ─────────┼─► learners ─┤
//!  status.learning ─► stored ─────┤             └─► learning_report ─► Decision ─► status.learning
//!  resources: CPU and memory ─────┘
//! ```
//!
//! The rules are the crate `learning`. Only the leader learns: replicas sample different pods. Its
//! state is stored in the PodAutoscaler's status by the zero-scaler, and the next leader continues
//! from there.

pub mod learners;
pub(crate) mod learning_report;
pub mod observations;
pub mod resources;
pub mod target_in_force;
