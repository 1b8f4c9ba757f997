//! The sidecar's settings: flags, or environment variables that begin with `QUEUE_PROXY_`.
//!
//! Every setting has a default. A variable that is set but empty counts as absent, because the
//! injected variables copy annotations through the downward API, which yields "" for an absent
//! annotation.
//!
//! Flags that are hidden from `--help` are for tests and benchmarks of the compiled program.

use std::ffi::{OsStr, OsString};
use std::net::{AddrParseError, IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use autoscaler::routing::breaker::ConcurrencyLimit;
use autoscaler::settings::{NoWakeRules, parse_duration};
use autoscaler::{Protocol, contract};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use proxy::health_checks;
use proxy::server::IDLE_TIMEOUT;
use proxy::tcp::IdleTimeouts;
use proxy::timeouts::request_timer::Timeouts;
use proxy::workers;

use crate::readiness::pod_identity::PodUid;

/// Default queue places for each slot of the app.
const QUEUED_PER_SLOT: usize = 10;

/// Default bound of worker threads: two serve more than most apps, and each costs memory in every
/// pod.
const MOST_WORKERS: usize = 2;

/// Sidecar that limits, queues, counts and forwards a pod's requests.
#[derive(Clone, Debug, Parser)]
#[command(name = "queue-proxy", version)]
// The default name of the group, Args, is also the name of the flattened group.
#[group(skip)]
pub struct Args {
    /// What to do instead of running the sidecar.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Address for the pod's traffic (HTTP/1.1 and h2c). A port alone means all addresses, for
    /// --stats-listen and --admin-listen too.
    #[arg(long, env = "QUEUE_PROXY_LISTEN", default_value_t = any_address(contract::QUEUE_PROXY_PORT), value_parser = parse_listen)]
    pub listen: SocketAddr,

    /// Address for /stat and /metrics.
    #[arg(long, env = "QUEUE_PROXY_STATS_LISTEN", default_value_t = any_address(contract::QUEUE_PROXY_STATS_PORT), value_parser = parse_listen)]
    pub stats_listen: SocketAddr,

    /// Address for /ready, /app-ready, /start-drain and /wait-for-drain.
    #[arg(long, env = "QUEUE_PROXY_ADMIN_LISTEN", default_value_t = any_address(contract::QUEUE_PROXY_ADMIN_PORT), value_parser = parse_listen)]
    pub admin_listen: SocketAddr,

    /// Address of the app. 0.0.0.0 is this pod: its own addresses and, if the app does not listen
    /// there, loopback.
    #[arg(long, env = "QUEUE_PROXY_UPSTREAM", default_value = "0.0.0.0:8080")]
    pub upstream: SocketAddr,

    /// Port of the app; overrides the port of --upstream.
    #[arg(long, env = "QUEUE_PROXY_APP_PORT")]
    pub app_port: Option<u16>,

    /// Protocol of the app: http, or tcp for unmodified bytes. With tcp the limits apply to
    /// connections instead of requests, and of the timeouts only --idle-timeout applies.
    #[arg(long, env = "QUEUE_PROXY_PROTOCOL", default_value_t = Protocol::Http)]
    pub protocol: Protocol,

    /// With --protocol tcp, time without bytes after the app has sent the last ones until the
    /// connection stops counting as active.
    #[arg(long, env = "QUEUE_PROXY_TCP_SILENCE", default_value = "5s", value_parser = parse_duration)]
    pub tcp_silence: Duration,

    /// With --protocol tcp, the same time after the client has sent the last bytes, when the app
    /// may be working on a response.
    #[arg(long, env = "QUEUE_PROXY_TCP_ANSWER_TIME", default_value = "15m", value_parser = parse_duration)]
    pub tcp_answer_time: Duration,

    /// Requests that the app serves at a time; 0 means no limit.
    #[arg(long, env = "QUEUE_PROXY_CONTAINER_CONCURRENCY", default_value_t = 0)]
    pub container_concurrency: u32,

    /// Requests that may wait for the app; further requests get 503. The default is ten times the
    /// container concurrency.
    #[arg(long, env = "QUEUE_PROXY_QUEUE_DEPTH")]
    pub queue_depth: Option<usize>,

    /// Longest time of a request from its arrival to the end of its response, including queueing
    /// and streaming; 0 means no limit. A request without a response gets 504, and a response that
    /// has begun is cut. Increase it for long streams, or set 0. Upgraded connections (websockets)
    /// may last longer.
    #[arg(long, env = "QUEUE_PROXY_TIMEOUT", default_value = "300s", value_parser = parse_duration)]
    pub timeout: Duration,

    /// Longest time from a request's arrival to the start of its response, including queueing; 0
    /// means no limit. It has no effect unless it is below --timeout.
    #[arg(long, env = "QUEUE_PROXY_RESPONSE_START_TIMEOUT", default_value = "300s", value_parser = parse_duration)]
    pub response_start_timeout: Duration,

    /// Longest time without a byte in either direction of a request or an upgraded connection; 0
    /// means no limit.
    #[arg(long, env = "QUEUE_PROXY_IDLE_TIMEOUT", default_value = "0s", value_parser = parse_duration)]
    pub idle_timeout: Duration,

    /// Path of an HTTP readiness probe of the app, which succeeds with a status of 200 to 399.
    /// Without it the app is ready when it accepts a connection.
    #[arg(long, env = "QUEUE_PROXY_READINESS_PATH", conflicts_with = "readiness_probe")]
    pub readiness_path: Option<String>,

    /// Readiness probe of the app: a container's readinessProbe as JSON with httpGet (plain HTTP),
    /// tcpSocket or grpc and a numeric port. timeoutSeconds and successThreshold apply; the caller
    /// of /app-ready determines the period.
    #[arg(long, env = "QUEUE_PROXY_READINESS_PROBE")]
    pub readiness_probe: Option<String>,

    /// Prefixes of the user agents of health checks, separated by commas. Health checks are not
    /// limited and not counted. With an empty list no request counts as a health check.
    #[arg(long, env = "QUEUE_PROXY_HEALTH_CHECK_AGENTS", value_delimiter = ',', default_value = health_checks::WELL_KNOWN)]
    pub health_check_agents: Vec<String>,

    /// Requests that are neither limited nor counted, as the annotation no-wake of the workload:
    /// rules, separated by commas, such as GET /healthz, HEAD, /static/*, or User-Agent:
    /// *UptimeRobot*.
    #[arg(long, env = "QUEUE_PROXY_NO_WAKE", value_name = "RULES")]
    pub no_wake: Option<NoWakeRules>,

    /// Time without a new request, and with none in flight, after which a drain ends.
    #[arg(long, hide = true, default_value = "3s", value_parser = parse_duration)]
    pub drain_quiet_period: Duration,

    /// Longest drain; requests that are in flight after it are cut. Keep it below the pod's
    /// termination grace period.
    #[arg(long, env = "QUEUE_PROXY_DRAIN_TIMEOUT", default_value = "25s", value_parser = parse_duration)]
    pub drain_timeout: Duration,

    /// Connections open at a time on the traffic port; further ones wait in the kernel's backlog.
    #[arg(long, hide = true, default_value_t = 65_536)]
    pub max_connections: usize,

    /// Memory of all connections and requests together, in bytes. The default is three fifths of
    /// the container's memory limit, or of 1 GiB without one.
    #[arg(long, env = "QUEUE_PROXY_MEMORY_BUDGET", value_name = "BYTES")]
    pub memory_budget: Option<u64>,

    /// Longest time from the first byte of a request's head to its end, and until the first byte of
    /// a connection. An idle connection is closed after 620 s.
    #[arg(long, hide = true, default_value = "30s", value_parser = parse_duration)]
    pub header_timeout: Duration,

    /// Time without a request after which a connection is closed. Not a flag; tests set it.
    #[arg(skip = IDLE_TIMEOUT)]
    pub connection_idle_timeout: Duration,

    /// Worker threads for the traffic, at most 64. The default is the number of processors
    /// available to the process, but at most 2.
    #[arg(long, hide = true)]
    pub workers: Option<NonZeroUsize>,

    /// Name of the pod in its stats.
    #[arg(long, hide = true, env = "HOSTNAME", default_value = "")]
    pub pod: String,

    /// UID of the pod. Only requests that carry it count as requests of activators. Without it, all
    /// requests count as direct, and activators report theirs as well.
    #[arg(long, env = "QUEUE_PROXY_POD_UID", hide_env_values = true)]
    pub pod_uid: Option<PodUid>,

    /// Settings of the log.
    #[command(flatten)]
    pub telemetry: component_base::telemetry::LogArgs,
}

/// What the process does instead of running the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Start the drain of the sidecar that runs in the same pod with the same settings. The preStop
    /// hook of the sidecar's container executes this.
    StartDrain,
}

// === impl Args ===

impl Args {
    /// Parses the process's arguments; exits with a usage message if they are invalid.
    pub fn from_environment() -> Self {
        let mut command = ignoring_empty_variables(Self::command(), |name| std::env::var_os(name));
        let matches: ArgMatches = command.get_matches_mut();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
    }

    /// Address of the app.
    pub fn app_address(&self) -> SocketAddr {
        // A link-local address keeps its zone.
        let mut address = self.upstream;
        if let IpAddr::V4(canonical) = address.ip().to_canonical() {
            address.set_ip(canonical.into());
        }
        if let Some(port) = self.app_port {
            address.set_port(port);
        }
        address
    }

    /// Number of worker threads.
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
            half_closed: Duration::MAX,
            close_after: Some(self.idle_timeout).filter(|idle| !idle.is_zero()),
        }
    }

    pub(crate) fn limit(&self) -> ConcurrencyLimit {
        ConcurrencyLimit::of_container_concurrency(self.container_concurrency)
    }

    /// Queue places; without a limit no request waits, so the value has no effect.
    pub(crate) fn queue_bound(&self) -> usize {
        let default = (self.container_concurrency as usize).saturating_mul(QUEUED_PER_SLOT);
        self.queue_depth.unwrap_or(default)
    }
}

/// All addresses, IPv6 and IPv4.
fn any_address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))
}

/// An address with a port, or a port of all addresses.
fn parse_listen(text: &str) -> Result<SocketAddr, AddrParseError> {
    text.parse::<u16>().map_or_else(|_| text.parse(), |port| Ok(any_address(port)))
}

fn ignoring_empty_variables(
    command: clap::Command,
    variable: impl Fn(&OsStr) -> Option<OsString>,
) -> clap::Command {
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
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_flag_is_in_the_reference_with_its_default() {
        let flags_page = include_str!("../../docs/reference/queue-proxy.md");
        let annotations_page = include_str!("../../docs/reference/pods.md");
        let all = Args::command();
        let shown = all.get_arguments().filter(|arg| !arg.is_hide_set());
        for (flag, defaults) in shown.filter_map(|arg| Some((arg.get_long()?, arg.get_default_values()))) {
            let row_of =
                |page: &'static str, start: String| page.lines().find(|line| line.starts_with(&start));
            let row = row_of(flags_page, format!("| `--{flag}`"))
                .or_else(|| row_of(annotations_page, format!("| `{flag}`")));
            let row = row.unwrap_or_else(|| panic!("--{flag} is in neither of the pages"));
            let default = defaults.first().and_then(|default| default.to_str()).unwrap_or_default();
            assert!(default == health_checks::WELL_KNOWN || row.contains(default), "{default}: {row}");
        }
    }

    #[test]
    fn uses_defaults_of_the_contract_without_flags() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.listen.port(), 8012);
        for listen in [args.listen, args.stats_listen, args.admin_listen] {
            assert!(listen.ip().is_unspecified() && listen.is_ipv6(), "{listen}: both families");
        }
        assert_eq!(args.app_address().to_string(), "0.0.0.0:8080");
        assert_eq!((args.limit(), args.queue_bound()), (ConcurrencyLimit::Unlimited, 0));
        assert_eq!(args.drain_quiet_period, Duration::from_secs(3));
    }

    #[test]
    fn port_alone_listens_on_all_addresses() {
        let args =
            parse(&["--listen=18012", "--stats-listen=127.0.0.1:19090", "--admin-listen=18022"]).unwrap();
        assert_eq!((args.listen, args.admin_listen), (any_address(18012), any_address(18022)));
        assert_eq!(args.stats_listen.to_string(), "127.0.0.1:19090");
    }

    #[test]
    fn reads_settings_beside_the_subcommand() {
        assert_eq!(parse(&[]).unwrap().command, None);
        let args = parse(&["--admin-listen=0.0.0.0:8100", "start-drain"]).unwrap();
        assert_eq!((args.command, args.admin_listen.port()), (Some(Command::StartDrain), 8100));
    }

    #[test]
    fn derives_queue_depth_from_the_limit_unless_set() {
        let args = parse(&["--container-concurrency", "3", "--app-port", "9000"]).unwrap();
        assert_eq!((args.limit(), args.queue_bound()), (ConcurrencyLimit::AtMost(3), 30));
        assert_eq!(args.app_address().port(), 9000);
        assert_eq!(parse(&["--container-concurrency=3", "--queue-depth=0"]).unwrap().queue_bound(), 0);
    }

    #[test]
    fn app_address_keeps_its_zone_and_is_of_its_own_family() {
        for (upstream, address) in [
            ("[fe80::1%2]:80", "[fe80::1%2]:9000"),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:9000"),
            ("[fd00::1]:80", "[fd00::1]:9000"),
        ] {
            let args = parse(&["--upstream", upstream, "--app-port=9000"]).unwrap();
            assert_eq!(args.app_address().to_string(), address);
        }
    }

    #[test]
    fn rejects_invalid_values() {
        for bad in [
            "--container-concurrency=-1",
            "--drain-timeout=soon",
            "--upstream=app",
            "--listen=65536",
            "--listen=localhost",
            "--queue-depth=",
            "--protocol=udp",
            "--no-wake=get /",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn treats_empty_variable_as_absent() {
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
