//! Request statistics: from request events to averages over time windows.
//!
//! A queue-proxy sends a [`Stat`] in response to HTTP `GET /stat` or to a query by [`datagram`]. An
//! activator pushes an [`ActivatorReport`] of [`StatMessage`]s to each metrics-adapter and
//! zero-scaler. Both count with [`RequestStats`]. For a learned target they also count how requests
//! end, with [`RequestProgress`] and [`EndedRequests`]: the queue-proxy of its app, the activator
//! of pods without a sidecar. The metrics-adapter adds the stats to a [`collection`] per workload.
//! Both receivers check with [`reporters`] that no activator is missing; one that cannot report
//! publishes its [`CarriedWorkloads`].

mod app_stat;
mod carried_workloads;
pub mod collection;
pub mod datagram;
mod ended_requests;
mod plausible;
mod report_stream;
pub mod reporters;
mod request_progress;
mod request_stats;
mod sample_size;
mod stat;
pub mod window;

pub use app_stat::AppStat;
pub use carried_workloads::CarriedWorkloads;
pub use ended_requests::{EndedRequests, RequestEnd};
pub use plausible::is_plausible;
pub use report_stream::{ReportStream, StreamState};
pub use request_progress::RequestProgress;
pub use request_stats::{RequestStats, RequestStatsReport};
pub use sample_size::{extrapolate, outliers, sample_size, widened_sample};
pub use stat::{ActivatorReport, FirstRequestReport, PodStat, SlowWake, Stat, StatMessage, WakeReport};
