//! Resources: CPU and memory of the app's containers, from `metrics.k8s.io`.
//!
//! ```text
//!  metrics.k8s.io ─► resource_reader ─► list_items ─► pod_metrics ┐   ┌─► stats_scraper: PodSecond
//!                                                                 ├─► resource_readings
//!  Pods ─► app_containers: limits, starts ────────────────────────┘   └─► learners: the evidence
//! ```
//!
//! Only the leader reads, and only while a workload learns. One list of all pods with a sidecar
//! each 15 s: a request for each of ten thousand workloads would be 700 a second for the metrics
//! API. That API has no pages, so the list is decoded item by item while it arrives.
//!
//! Missing is never zero. Without `metrics.k8s.io`, a memory limit or a present reading, a pod has
//! no share of its memory limit, and the rules that use it are off. `metrics.k8s.io` does not
//! report throttling.

mod list_items;
mod pod_metrics;
pub mod resource_reader;
pub mod resource_readings;
