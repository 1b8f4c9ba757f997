//! Command line and environment.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use autoscaler::contract::{
    ADMIN_PORT, API_PORT, QUEUE_PROXY_STATS_PORT, STATS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE,
};
use autoscaler::settings::parse_duration;
use clap::{Parser, Subcommand};

/// Collects live requests, decides how many pods a workload needs, and serves external.metrics.k8s.io.
#[derive(Clone, Debug, Parser)]
#[command(name = "metrics-adapter", version, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// What to do; without it, serve.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How to serve.
    #[command(flatten)]
    pub serve: Args,
}

/// What to do other than serve.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Decides on a recorded workload, without a cluster, and says what was decided.
    Simulate(Simulate),
}

/// What to replay, and how to show it.
#[derive(clap::Args, Clone, Debug)]
pub struct Simulate {
    /// Trace to read, one JSON object a line; - for standard input.
    pub file: PathBuf,
    /// Print a table for people, with the rule that decided, instead of one JSON object a decision.
    #[arg(long, conflicts_with = "plot")]
    pub human: bool,
    /// Draw load, pods and panic over time, as wide as COLUMNS says (or 100).
    #[arg(long)]
    pub plot: bool,
}

/// How to serve.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub struct Args {
    /// Namespace of the installation: where the settings and the serving certificate are.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,
    /// Name of this process's own Service: the name in the serving certificate, and in the APIService that is ours.
    #[arg(long, env = "ROUSE_SERVICE", default_value = "metrics-adapter")]
    pub service: String,
    /// Directory with tls.crt and tls.key to serve with, made by somebody else (cert-manager, say), who then keeps the
    /// caBundle of the APIService as well. Without it we make and renew our own, in Secret metrics-adapter-serving.
    #[arg(long, env = "ROUSE_SERVING_CERTIFICATE", value_name = "DIR")]
    pub serving_certificate: Option<PathBuf>,
    /// Serve custom.metrics.k8s.io (v1beta2) as well, for clusters in which external.metrics.k8s.io is somebody else's.
    #[arg(long, env = "ROUSE_CUSTOM_METRICS")]
    pub custom_metrics: bool,
    /// Name of this replica, in the Lease; it must differ between replicas.
    #[arg(long, env = "POD_NAME", default_value = "metrics-adapter")]
    pub pod_name: String,
    /// Address at which the other replicas reach this one.
    #[arg(long, env = "POD_IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub pod_ip: IpAddr,
    /// File with the token by which the other replicas know this one; read anew for each request.
    #[arg(long, env = "ROUSE_TOKEN_FILE", default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,
    /// Port of the Kubernetes metrics API (TLS).
    #[arg(long, env = "ROUSE_API_PORT", default_value_t = API_PORT)]
    pub api_port: u16,
    /// Port for the activators' pushes and the decision stream (websockets).
    #[arg(long, env = "ROUSE_STATS_PORT", default_value_t = STATS_PORT)]
    pub stats_port: u16,
    /// Port on which the pods' sidecars answer for their load. For trials on one machine.
    #[arg(long, env = "ROUSE_POD_STATS_PORT", default_value_t = QUEUE_PROXY_STATS_PORT)]
    pub pod_stats_port: u16,
    /// Take pushes and readers of decisions without a token. For trials on one machine.
    #[arg(long, env = "ROUSE_OPEN_STATS_PORT")]
    pub open_stats_port: bool,
    /// Port of /metrics, /ready and /live.
    #[arg(long, env = "ROUSE_ADMIN_PORT", default_value_t = ADMIN_PORT)]
    pub admin_port: u16,
    /// How long to go on serving after the signal to stop, so that callers learn of it first.
    #[arg(long, env = "ROUSE_SHUTDOWN_DELAY", default_value = "5s", value_parser = duration)]
    pub shutdown_delay: Duration,
    /// Logs.
    #[command(flatten)]
    pub telemetry: runtime::telemetry::LogArgs,
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
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["metrics-adapter"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!((cli.serve.api_port, cli.serve.stats_port, cli.serve.admin_port), (6443, 8080, 9090));
        assert!(Cli::try_parse_from(["metrics-adapter", "--shutdown-delay", "soon"]).is_err());
    }

    #[test]
    fn a_simulation_has_one_file_and_one_form() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["metrics-adapter", "simulate"], args].concat());
        let Some(Command::Simulate(args)) = parse(&["-", "--plot"]).unwrap().command else { panic!() };
        assert_eq!((args.file.as_os_str().to_str(), args.plot, args.human), (Some("-"), true, false));
        for wrong in [&[] as &[_], &["a", "b"], &["a", "--human", "--plot"], &["a", "--api-port", "1"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(Cli::try_parse_from(["metrics-adapter", "--api-port", "1", "simulate", "-"]).is_err());
    }
}
