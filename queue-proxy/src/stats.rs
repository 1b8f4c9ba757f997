//! What the sidecar counts, and the port that reports it to the metrics-adapter and to Prometheus.

pub(crate) mod metrics;
pub(crate) mod request_counter;
pub(crate) mod returning_clients;
pub(crate) mod stats_endpoint;
pub(crate) mod uncounted_places;

pub use metrics::registry_with_all_families;
