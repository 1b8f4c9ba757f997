//! The metrics-adapter, as a library so that tests can build its parts.
//!
//! ```text
//!  activators ─ws /push─► stat_server ──┐                     ┌─► decisions ─ws /decisions─► zero-scaler
//!                                       ├─► collector ─► multi_scaler
//!  queue-proxies ◄─ /stat ─ stats_scraper                 ▲   └─► external_metrics ─TLS─► kube-apiserver ─► HPA
//!                                                         │
//!  Metric, PodAutoscaler, ConfigMap ─► metric_watch ─► workloads        Pods ─► ready_pods
//! ```
//!
//! It writes nothing to the cluster but its own serving certificate and that certificate's CA in its APIService.
//!
//! [`simulate`] needs none of this: it decides on a recorded workload, in no time.

pub mod api_service;
pub mod app;
pub mod args;
pub mod clock;
pub mod collector;
pub mod decisions;
pub mod external_metrics;
pub mod history;
pub mod metric_watch;
pub mod metrics;
pub mod multi_scaler;
pub mod pokes;
mod readable;
pub mod ready_pods;
mod reason;
pub mod relay;
pub mod scrape_client;
pub mod scrape_schedule;
pub mod serving_certificate;
pub mod simulate;
pub mod stat_datagrams;
pub mod stat_server;
pub mod stats_scraper;
pub mod tls_server;
mod turns;
pub mod workloads;
