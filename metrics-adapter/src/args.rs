//! Command line and environment.

use std::time::Duration;

use autoscaler::contract::{ADMIN_PORT, API_PORT, STATS_PORT, SYSTEM_NAMESPACE};
use autoscaler::settings::parse_duration;
use clap::Parser;

/// Collects live requests, decides how many pods a workload needs, and serves external.metrics.k8s.io.
#[derive(Clone, Debug, Parser)]
#[command(name = "metrics-adapter", version)]
pub struct Args {
    /// Namespace of the installation: where the settings and the serving certificate are.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Name of this process's own Service: the name in the serving certificate, and in the APIService that is ours.
    #[arg(long, env = "ROUSE_SERVICE", default_value = "metrics-adapter")]
    pub service: String,
    /// Port of the Kubernetes metrics API (TLS).
    #[arg(long, env = "ROUSE_API_PORT", default_value_t = API_PORT)]
    pub api_port: u16,
    /// Port for the activators' pushes and the decision stream (websockets).
    #[arg(long, env = "ROUSE_STATS_PORT", default_value_t = STATS_PORT)]
    pub stats_port: u16,
    /// Port of /metrics, /ready and /live.
    #[arg(long, env = "ROUSE_ADMIN_PORT", default_value_t = ADMIN_PORT)]
    pub admin_port: u16,
    /// How long to go on serving after the signal to stop, so that callers learn of it first.
    #[arg(long, env = "ROUSE_SHUTDOWN_DELAY", default_value = "5s", value_parser = duration)]
    pub shutdown_delay: Duration,
    /// Logs.
    #[command(flatten)]
    pub telemetry: chassis::telemetry::Args,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    parse_duration(text).ok_or("must be a duration such as 5s or 500ms")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound_and_needs_no_flags() {
        Args::command().debug_assert();
        let args = Args::try_parse_from(["metrics-adapter"]).unwrap();
        assert_eq!((args.api_port, args.stats_port, args.admin_port), (6443, 8080, 9090));
        assert!(Args::try_parse_from(["metrics-adapter", "--shutdown-delay", "soon"]).is_err());
    }
}
