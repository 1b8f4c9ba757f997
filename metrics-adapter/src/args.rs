//! Command line and environment.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use autoscaler::contract::{ADMIN_PORT, API_PORT, STATS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE};
use autoscaler::settings::parse_duration;
use clap::Parser;

use crate::sidecar_injection::settings::SidecarArgs;

/// Collects request load, decides on the number of pods per workload, and serves
/// external.metrics.k8s.io.
#[derive(Clone, Debug, Parser)]
#[command(name = "metrics-adapter", version)]
pub struct Args {
    /// Directory with tls.crt and tls.key, maintained by another program such as cert-manager,
    /// which also has to maintain the caBundle of the APIServices and of the webhook. By default
    /// the metrics-adapter creates and renews its own certificate in Secret
    /// metrics-adapter-serving.
    #[arg(long, env = "ROUSE_SERVING_CERTIFICATE", value_name = "DIR")]
    pub serving_certificate: Option<PathBuf>,
    /// Also serve custom.metrics.k8s.io/v1beta2, for clusters where another server owns
    /// external.metrics.k8s.io.
    #[arg(long, env = "ROUSE_CUSTOM_METRICS")]
    pub custom_metrics: bool,
    /// The sidecar of the webhook.
    #[command(flatten)]
    pub sidecar: SidecarArgs,
    /// Namespace of the installation, with the settings and the serving certificate.
    #[arg(long, hide = true, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Name of this replica in the Lease. Must be unique.
    #[arg(long, hide = true, env = "POD_NAME", default_value = "metrics-adapter")]
    pub pod_name: String,
    /// Address of this replica for the other replicas.
    #[arg(long, hide = true, env = "POD_IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub pod_ip: IpAddr,
    /// File with the token for requests to other replicas. Read for each request.
    #[arg(long, hide = true, default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,
    /// Port of the Kubernetes metrics API (TLS).
    #[arg(long, hide = true, default_value_t = API_PORT)]
    pub api_port: u16,
    /// Port for the activators' pushes, the decision stream and forwarded queries.
    #[arg(long, hide = true, default_value_t = STATS_PORT)]
    pub stats_port: u16,
    /// Accept clients of the stats port without a token. For benchmarks on one machine.
    #[arg(long, hide = true)]
    pub open_stats_port: bool,
    /// Port of /metrics, /ready and /live.
    #[arg(long, hide = true, default_value_t = ADMIN_PORT)]
    pub admin_port: u16,
    /// How long to keep serving after the stop signal, until clients have moved to other replicas.
    #[arg(long, hide = true, default_value = "5s", value_parser = parse_duration)]
    pub shutdown_delay: Duration,
    /// Logging options.
    #[command(flatten)]
    pub telemetry: component_base::telemetry::LogArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn parses_defaults_without_flags() {
        Args::command().debug_assert();
        let args = Args::try_parse_from(["metrics-adapter"]).unwrap();
        assert_eq!((args.api_port, args.stats_port, args.admin_port), (10250, 8080, 9090));
        assert!(args.sidecar.settings().is_none(), "no webhook without an image");
        assert!(Args::try_parse_from(["metrics-adapter", "--shutdown-delay", "soon"]).is_err());
        for quantity in ["--sidecar-memory-limit=a lot", "--sidecar-cpu-request=-1m"] {
            assert!(Args::try_parse_from(["metrics-adapter", quantity]).is_err(), "{quantity}");
        }
    }
}
