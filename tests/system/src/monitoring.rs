//! Prometheus on a cluster: what it scrapes there by the PodMonitors of `deploy/monitoring`, and
//! what its queries return.

pub mod discovery;
pub mod prometheus;
pub mod scrape_config;
pub mod service_targets;
