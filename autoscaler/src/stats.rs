//! Request statistics: from request events to averages over time windows.
//!
//! A queue-proxy sends a [`Stat`] in response to HTTP `GET /stat` or to a query by [`datagram`]. An
//! activator pushes an [`ActivatorReport`] of [`StatMessage`]s to each metrics-adapter and
//! zero-scaler. Both count with [`RequestStats`]. The metrics-adapter adds the stats to a
//! [`collection`] per workload.

pub mod collection;
pub mod datagram;
mod request_stats;
mod sample_size;
mod stat;
pub mod window;

pub use request_stats::{RequestStats, RequestStatsReport};
pub use sample_size::{extrapolate, outliers, sample_size, widened_sample};
pub use stat::{ActivatorReport, SlowWake, Stat, StatMessage};
