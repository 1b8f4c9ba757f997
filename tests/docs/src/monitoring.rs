//! What `deploy/monitoring` gives to operators: alerts, dashboards, and what is scraped.
//!
//! Input: the manifests and dashboards of that folder. The tests of this crate compare their
//! queries with the metrics of the code and run promtool; the system tests run them on a Prometheus
//! that scrapes a cluster.

pub mod alert;
pub mod dashboard;
pub mod pod_monitor;
pub mod program;
pub mod query;
