//! Deletion costs: a scale-down deletes the pods without requests.
//!
//! ```text
//!  busy_pods, decisions ─► marker ─ survivors ─► cost_writer ─► annotation of a pod
//! ```
//!
//! A ReplicaSet that gets smaller selects its victims by age, whatever they work on. While a
//! workload's decision is below its ready pods, a scale-down by the HPA or by the zero-scaler is
//! near. Then the leader sets Kubernetes' `pod-deletion-cost` on the pods with requests: at the
//! moment of the first such decision, before an HPA can follow it, and again every two seconds.
//!
//! Each cost is a write to the API server, and an event for each watch of pods. So it is written
//! rarely: only while some pods are idle and others were busy twice in a row, on at most 16 pods of
//! a workload, with at most 8 writes of a workload in ten seconds, and 20 a second in all. A cost
//! stays until another pod is busy, or until no scale-down is near for minutes.

pub mod cost_writer;
pub mod marker;
pub mod survivors;
mod write_budget;
