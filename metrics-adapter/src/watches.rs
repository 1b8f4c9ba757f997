//! Watches: what the process reads from the cluster, as tables in memory.
//!
//! [`metric_watch`] fills the table of [`workloads`] from Metrics, PodAutoscalers and the settings;
//! [`ready_pods`] indexes the pods of workloads: those with the inject label, and the other pods of
//! [`plain_namespaces`].

pub(crate) mod app_containers;
pub mod deletion_cost;
pub mod metric_watch;
pub mod observed_object;
pub mod plain_namespaces;
pub mod pod;
mod pod_index;
pub(crate) mod pod_template;
pub mod ready_pods;
pub mod stored_learning;
pub mod workloads;
