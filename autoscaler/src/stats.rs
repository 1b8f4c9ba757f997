//! From request events to what a process reports.
//!
//! A queue-proxy answers a [`Stat`] to whoever reads `/stat` or asks by a [`datagram`]; an activator pushes a [`Push`] of [`StatMessage`]s to every
//! metrics-adapter and zero-scaler. Both count with [`RequestStats`].

pub mod collection;
pub mod datagram;
mod request_stats;
mod sample_size;
mod stat;
pub mod window;

pub use request_stats::{RequestStats, RequestStatsReport};
pub use sample_size::{extrapolate, outliers, sample_size, widened_sample};
pub use stat::{ActivatorReport, SlowWake, Stat, StatMessage};
