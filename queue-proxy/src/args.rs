//! What the pod's spec tells the sidecar: flags, or environment variables that start with `QUEUE_PROXY_`.
//!
//! Everything has a default, so flags alone are enough, or nothing at all. A variable that is set but empty counts as
//! absent: the injected ones copy annotations by the downward API, which gives "" for an annotation that is not there.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use autoscaler::breaker::Limit;
use autoscaler::settings::parse_duration;
use autoscaler::{Protocol, contract};
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use proxy::health_checks;
use proxy::tcp::IdleTimeouts;
use proxy::workers;

use crate::timeouts::Timeouts;

/// Callers that may wait for each slot of the app, unless told otherwise.
const QUEUED_PER_SLOT: usize = 10;

/// Threads unless told otherwise: two carry more than most apps, and each costs memory in every pod.
const MOST_WORKERS: usize = 2;

/// Limits, queues, counts and forwards the requests of the app beside it.
#[derive(Clone, Debug, Parser)]
#[command(name = "queue-proxy", version)]
// The group would be called Args, as that of the flattened ones is.
#[group(skip)]
pub struct Args {
    /// Address for the pod's traffic: HTTP/1.1 and h2c.
    #[arg(long, env = "QUEUE_PROXY_LISTEN", default_value_t = everywhere(contract::QUEUE_PROXY_PORT))]
    pub listen: SocketAddr,

    /// Address for /stat and /metrics.
    #[arg(long, env = "QUEUE_PROXY_STATS_LISTEN", default_value_t = everywhere(contract::QUEUE_PROXY_STATS_PORT))]
    pub stats_listen: SocketAddr,

    /// Address for /ready, /app-ready and /wait-for-drain.
    #[arg(long, env = "QUEUE_PROXY_ADMIN_LISTEN", default_value_t = everywhere(contract::QUEUE_PROXY_ADMIN_PORT))]
    pub admin_listen: SocketAddr,

    /// Address of the app.
    #[arg(long, env = "QUEUE_PROXY_UPSTREAM", default_value = "127.0.0.1:8080")]
    pub upstream: SocketAddr,

    /// Port of the app, if only that differs from --upstream.
    #[arg(long, env = "QUEUE_PROXY_APP_PORT")]
    pub app_port: Option<u16>,

    /// What is spoken to the app: http, or tcp for bytes that are passed as they are. What is said of requests then holds for
    /// connections; timeouts do not, but for --idle-timeout.
    #[arg(long, env = "QUEUE_PROXY_PROTOCOL", default_value_t = Protocol::Http)]
    pub protocol: Protocol,

    /// With --protocol tcp: how long nothing may pass after the app's word until a connection counts no more.
    #[arg(long, env = "QUEUE_PROXY_TCP_SILENCE", default_value = "5s", value_parser = duration)]
    pub tcp_silence: Duration,

    /// The same after the caller's word, when the app may be at work on an answer.
    #[arg(long, env = "QUEUE_PROXY_TCP_ANSWER_TIME", default_value = "15m", value_parser = duration)]
    pub tcp_answer_time: Duration,

    /// Requests that the app gets at a time; 0 is no limit.
    #[arg(long, env = "QUEUE_PROXY_CONTAINER_CONCURRENCY", default_value_t = 0)]
    pub container_concurrency: u32,

    /// Requests that may wait for the app; more are answered 503. Ten times the container concurrency by default.
    #[arg(long, env = "QUEUE_PROXY_QUEUE_DEPTH")]
    pub queue_depth: Option<usize>,

    /// Longest time of a request, from its arrival to the end of its response, waiting and streaming included; 0 is for
    /// ever. Without an answer until then it gets 504; a response that has begun is cut. Long streams need more of it or
    /// 0. What is upgraded (websockets) may last longer.
    #[arg(long, env = "QUEUE_PROXY_TIMEOUT", default_value = "300s", value_parser = duration)]
    pub timeout: Duration,

    /// Longest time until the app's response begins, waiting included, if that is less than --timeout; 0 is no bound.
    #[arg(long, env = "QUEUE_PROXY_RESPONSE_START_TIMEOUT", default_value = "300s", value_parser = duration)]
    pub response_start_timeout: Duration,

    /// Longest time for which nothing of a request or its response is sent either way, upgraded connections included; 0
    /// is for ever.
    #[arg(long, env = "QUEUE_PROXY_IDLE_TIMEOUT", default_value = "0s", value_parser = duration)]
    pub idle_timeout: Duration,

    /// Path that the app answers with 200 to 399 once it is ready. Without it, an accepted connection is enough.
    #[arg(long, env = "QUEUE_PROXY_READINESS_PATH", conflicts_with = "readiness_probe")]
    pub readiness_path: Option<String>,

    /// How to ask the app whether it is ready: a readinessProbe as in a pod's container, in JSON. httpGet (plain HTTP),
    /// tcpSocket or grpc, with a number as port, and timeoutSeconds and successThreshold; when to ask is up to who calls
    /// /app-ready.
    #[arg(long, env = "QUEUE_PROXY_READINESS_PROBE")]
    pub readiness_probe: Option<String>,

    /// How the user agents of health checks begin, by comma. They pass beside the limit and are not counted; with an empty
    /// list nobody does.
    #[arg(long, env = "QUEUE_PROXY_HEALTH_CHECK_AGENTS", value_delimiter = ',', default_value = health_checks::WELL_KNOWN)]
    pub health_check_agents: Vec<String>,

    /// Drained means: so long without a new request, and none in flight.
    #[arg(long, env = "QUEUE_PROXY_DRAIN_QUIET_PERIOD", default_value = "3s", value_parser = duration)]
    pub drain_quiet_period: Duration,

    /// Longest drain; what is in flight then is cut. Keep it below the pod's termination grace period.
    #[arg(long, env = "QUEUE_PROXY_DRAIN_TIMEOUT", default_value = "25s", value_parser = duration)]
    pub drain_timeout: Duration,

    /// Connections open at a time on the traffic port; more wait in the kernel's backlog.
    #[arg(long, env = "QUEUE_PROXY_MAX_CONNECTIONS", default_value_t = 65_536)]
    pub max_connections: usize,

    /// Time a caller has for the head of a request, the time before it included: a connection rests no longer than that.
    #[arg(long, env = "QUEUE_PROXY_HEADER_TIMEOUT", default_value = "30s", value_parser = duration)]
    pub header_timeout: Duration,

    /// Threads that carry the traffic, at most 64. As many as there are processors for this process by default, but no more
    /// than 2.
    #[arg(long, env = "QUEUE_PROXY_WORKERS")]
    pub workers: Option<NonZeroUsize>,

    /// Name of the pod, as it stands in its stats.
    #[arg(long, env = "HOSTNAME", default_value = "")]
    pub pod: String,

    /// Logs.
    #[command(flatten)]
    pub telemetry: runtime::telemetry::LogArgs,
}

// === impl Args ===

impl Args {
    /// The process's arguments; ends the process with a usage message if they make no sense.
    pub fn from_environment() -> Self {
        let mut command = ignoring_empty_variables(Self::command(), |name| std::env::var_os(name));
        let matches: ArgMatches = command.get_matches_mut();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }

    /// Where the app listens.
    pub fn app_address(&self) -> SocketAddr {
        SocketAddr::new(self.upstream.ip(), self.app_port.unwrap_or(self.upstream.port()))
    }

    /// Threads that carry the traffic.
    pub(crate) fn workers(&self) -> usize {
        workers::worker_count(self.workers, MOST_WORKERS)
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts::new(self.timeout, self.response_start_timeout, self.idle_timeout)
    }

    pub(crate) fn idle_timeouts(&self) -> IdleTimeouts {
        IdleTimeouts {
            after_response: self.tcp_silence,
            after_request: self.tcp_answer_time,
            close_after: Some(self.idle_timeout).filter(|idle| !idle.is_zero()),
        }
    }

    pub(crate) fn limit(&self) -> Limit {
        Limit::of_container_concurrency(self.container_concurrency)
    }

    /// Without a limit nobody ever waits, so the bound is then of no account.
    pub(crate) fn queue_bound(&self) -> usize {
        let by_default = (self.container_concurrency as usize).saturating_mul(QUEUED_PER_SLOT);
        self.queue_depth.unwrap_or(by_default)
    }
}

fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a duration is written like 3s, 500ms or 1m30s".to_owned())
}

fn ignoring_empty_variables(command: Command, variable: impl Fn(&OsStr) -> Option<OsString>) -> Command {
    command.mut_args(|arg| {
        let empty = arg.get_env().and_then(&variable).is_some_and(|value| value.is_empty());
        if empty { arg.env(None::<&str>) } else { arg }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("queue-proxy").chain(flags.iter().copied()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_flag_is_in_the_readme_with_its_default() {
        let readme = include_str!("../../docs/reference/queue-proxy.md");
        let all = Args::command();
        let flags = all.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg.get_default_values())));
        for (flag, defaults) in flags {
            let row =
                readme.lines().find(|line| line.starts_with('|') && line.contains(&format!("`--{flag}`")));
            let row = row.unwrap_or_else(|| panic!("--{flag} is not in docs/reference/queue-proxy.md"));
            let default = defaults.first().and_then(|default| default.to_str()).unwrap_or_default();
            assert!(default == health_checks::WELL_KNOWN || row.contains(default), "{default}: {row}");
        }
    }

    #[test]
    fn nothing_said_means_the_contract() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.listen.port(), 8012);
        assert_eq!(args.app_address().to_string(), "127.0.0.1:8080");
        assert_eq!((args.limit(), args.queue_bound()), (Limit::Unlimited, 0));
        assert_eq!(args.drain_quiet_period, Duration::from_secs(3));
    }

    #[test]
    fn the_queue_follows_the_limit_unless_told() {
        let args = parse(&["--container-concurrency", "3", "--app-port", "9000"]).unwrap();
        assert_eq!((args.limit(), args.queue_bound()), (Limit::AtMost(3), 30));
        assert_eq!(args.app_address().port(), 9000);
        assert_eq!(parse(&["--container-concurrency=3", "--queue-depth=0"]).unwrap().queue_bound(), 0);
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "--container-concurrency=-1",
            "--drain-timeout=soon",
            "--upstream=app",
            "--queue-depth=",
            "--protocol=udp",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_empty_variable_counts_as_absent() {
        let depth = "QUEUE_PROXY_QUEUE_DEPTH";
        let command = ignoring_empty_variables(Args::command(), |name| match name.to_str() {
            Some(name) if name == depth => Some(OsString::new()),
            _ => Some("1".into()),
        });
        let read: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str()).collect();
        assert!(!read.contains(&depth), "{read:?}");
        assert!(read.contains(&"QUEUE_PROXY_CONTAINER_CONCURRENCY"), "{read:?}");
    }
}
