//! Command line.

use std::path::PathBuf;

use clap::Parser;

/// Measure CPU time, memory and latency of the metrics-adapter by number of workloads.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Binary of the metrics-adapter.
    #[arg(long)]
    pub(crate) metrics_adapter: PathBuf,
    /// Directory for logs.
    #[arg(long)]
    pub(crate) cache: PathBuf,
    /// Numbers of workloads, measured one after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    pub(crate) workloads: Vec<usize>,
    /// Duration of a measurement, in seconds.
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// Warm-up before a measurement, in seconds. The default fills the windows and excludes the
    /// cost of the start.
    #[arg(long, default_value_t = 62)]
    pub(crate) settle: u64,
    /// HPA queries per second.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) queries: u32,
    /// Whether targets are learned: the key `learn-target` of the settings.
    #[arg(long, default_value = "Recommend", value_parser = ["Off", "Recommend", "Apply"])]
    pub(crate) learn_target: String,
    /// Check the responses of two replicas while they are restarted one after the other, instead of
    /// measuring.
    #[arg(long)]
    pub(crate) restarts: bool,
    /// Let pods answer by HTTP only.
    #[arg(long)]
    pub(crate) http: bool,
}
