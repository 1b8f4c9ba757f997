//! Watches: what the process reads from the cluster, as tables in memory.
//!
//! [`metric_watch`] fills the table of [`workloads`] from Metrics, PodAutoscalers and the settings;
//! [`ready_pods`] indexes the pods that have a sidecar.

pub mod metric_watch;
pub mod observed_object;
pub mod ready_pods;
pub mod workloads;
