//! Command line and environment of the process.

use std::num::NonZeroU32;
use std::path::PathBuf;

use autoscaler::contract::{ADMIN_PORT, STATS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE};
use clap::{Parser, Subcommand};

use crate::kubernetes::rate_limit::Rate;

/// A wake and the following scale-to-zero sequence take about 20 requests, an adoption 10.
const QPS: NonZeroU32 = NonZeroU32::new(100).unwrap();
/// Requests at once after a pause, for each one in a second: a crowd that wakes many workloads at
/// the same time.
const BURST: NonZeroU32 = NonZeroU32::new(2).unwrap();
/// A fifth of all activator ports.
const PORTS_PER_NAMESPACE: NonZeroU32 = NonZeroU32::new(2000).unwrap();

/// Scales workloads to and from zero and routes their Services to pods or activators.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// What the process does instead.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Arguments of the zero-scaler.
    #[command(flatten)]
    pub args: Args,
}

/// What the process does instead of scaling workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Prepare the deletion of Rouse: wake all workloads and make their Services independent. The
    /// zero-scalers must run.
    Uninstall,
}

/// The arguments of the zero-scaler.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Accept HPA metrics of type Object on a Service; needs a metrics-adapter that serves
    /// custom.metrics.k8s.io.
    #[arg(long, env = "ROUSE_CUSTOM_METRICS")]
    pub custom_metrics: bool,
    /// Average rate of requests to the API server, per second; twice as many at once after a pause.
    /// Writes of scales, endpoints and leased ports are exempt.
    #[arg(long, env = "ROUSE_KUBE_API_QPS", default_value_t = QPS)]
    pub kube_api_qps: NonZeroU32,
    /// Activator ports that the workloads of one namespace may lease: one for each port of a
    /// Service, of 10000 in the cluster.
    #[arg(long, env = "ROUSE_PORTS_PER_NAMESPACE", default_value_t = PORTS_PER_NAMESPACE)]
    pub ports_per_namespace: NonZeroU32,
    /// Namespace of the installation.
    #[arg(long, hide = true, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Name of this replica in events and in the Lease; must be unique.
    #[arg(long, hide = true, env = "POD_NAME", default_value = "zero-scaler")]
    pub pod_name: String,
    /// File with the token for connections to metrics-adapters; read again for each connection.
    #[arg(long, hide = true, default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,
    /// Port for reports of activators.
    #[arg(long, hide = true, default_value_t = STATS_PORT)]
    pub stats_port: u16,
    /// Accept reports without a token. For tests on one machine.
    #[arg(long, hide = true)]
    pub open_stats_port: bool,
    /// Port for /metrics, /ready and /live.
    #[arg(long, hide = true, default_value_t = ADMIN_PORT)]
    pub admin_port: u16,
    /// Log format and level.
    #[command(flatten)]
    pub telemetry: component_base::telemetry::LogArgs,
}

// === impl Args ===

impl Args {
    /// The rate limit of requests to the API server.
    pub(crate) fn rate(&self) -> Rate {
        Rate { qps: self.kube_api_qps, burst: self.kube_api_qps.saturating_mul(BURST) }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn allows_twice_the_rate_after_a_pause() {
        let rate = Args::parse_from(["zero-scaler"]).rate();
        assert_eq!((rate.qps.get(), rate.burst.get()), (100, 200));
    }

    #[test]
    fn accepts_command_line_definition() {
        Cli::command().debug_assert();
    }
}
