//! How the process is told what to do.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use autoscaler::contract::{ADMIN_PORT, STATS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE};
use clap::Parser;

use crate::kubernetes::rate_limit::Rate;

/// A workload that wakes and falls asleep again makes some twenty; one that is adopted, ten.
const QPS: NonZeroU32 = NonZeroU32::new(100).unwrap();
const BURST: NonZeroU32 = NonZeroU32::new(200).unwrap();

/// Rouse's writer: takes workloads to zero and back, and steers their Services.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub struct Args {
    /// Namespace of the installation.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Address to listen on.
    #[arg(long, env = "ROUSE_LISTEN", default_value_t = IpAddr::V4(Ipv4Addr::UNSPECIFIED))]
    pub listen: IpAddr,
    /// Port for the activators' pushes.
    #[arg(long, env = "ROUSE_STATS_PORT", default_value_t = STATS_PORT)]
    pub stats_port: u16,
    /// File with the token by which the metrics-adapters know us; read anew for each connection.
    #[arg(long, env = "ROUSE_TOKEN_FILE", default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,
    /// Take pushes without a token. For trials on one machine.
    #[arg(long, env = "ROUSE_OPEN_STATS_PORT")]
    pub open_stats_port: bool,
    /// The metrics-adapter serves custom.metrics.k8s.io: metrics of type Object on a Service are ours.
    #[arg(long, env = "ROUSE_CUSTOM_METRICS")]
    pub custom_metrics: bool,
    /// Requests to the API server in a second, on average. Sizes, endpoints and leased ports are written beyond it.
    #[arg(long, env = "ROUSE_KUBE_API_QPS", default_value_t = QPS)]
    pub kube_api_qps: NonZeroU32,
    /// Requests to the API server that may be made at once, after a rest.
    #[arg(long, env = "ROUSE_KUBE_API_BURST", default_value_t = BURST)]
    pub kube_api_burst: NonZeroU32,
    /// Port for /metrics, /ready and /live.
    #[arg(long, env = "ROUSE_ADMIN_PORT", default_value_t = ADMIN_PORT)]
    pub admin_port: u16,
    /// Name of this replica, in events and in the Lease; it must differ between replicas.
    #[arg(long, env = "POD_NAME", default_value = "zero-scaler")]
    pub pod_name: String,
    /// Logs.
    #[command(flatten)]
    pub telemetry: runtime::telemetry::LogArgs,
}

// === impl Args ===

impl Args {
    /// What the API server may be asked for.
    pub(crate) fn rate(&self) -> Rate {
        Rate { qps: self.kube_api_qps, burst: self.kube_api_burst }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Args::command().debug_assert();
    }
}
