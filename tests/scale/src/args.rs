//! Command line.

use std::path::PathBuf;

use clap::Parser;

/// Measures what the metrics-adapter takes for how many workloads.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The metrics-adapter's binary.
    #[arg(long)]
    pub(crate) metrics_adapter: PathBuf,
    /// Directory for logs.
    #[arg(long)]
    pub(crate) cache: PathBuf,
    /// Workloads, in one run after the other.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    pub(crate) workloads: Vec<usize>,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// Seconds before that: by default the windows are full then, and what a start costs is over.
    #[arg(long, default_value_t = 62)]
    pub(crate) settle: u64,
    /// Queries a second.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) queries: u32,
    /// Instead: what two replicas answer while one after the other goes.
    #[arg(long)]
    pub(crate) restarts: bool,
    /// Pods answer by HTTP alone.
    #[arg(long)]
    pub(crate) http: bool,
}
