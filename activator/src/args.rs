//! Command line and environment, and the bounds that follow from them.
//!
//! Flags that are hidden from `--help` belong to manifests (what a pod is, and its ports), or to
//! benchmarks of the compiled program. [`Limits`] has what no deployment changes: tests set it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use autoscaler::contract::{ADMIN_PORT, SLOTS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE, WAKE_PORT};
use autoscaler::routing::proximity::Location;
use autoscaler::settings::{DEFAULT_WAKE_TIMEOUT, parse_duration};
use clap::Parser;
use proxy::health_checks;
use proxy::server::IDLE_TIMEOUT;
use proxy::tcp::IdleTimeouts;
use proxy::workers;

use crate::workloads::Workload;

/// Names what is configured by variables alone, under the names of the OpenTelemetry specification.
const TRACES: &str = "Traces of held requests are on with the variable OTEL_EXPORTER_OTLP_ENDPOINT.";

/// Holds requests for workloads at zero, wakes the workloads, and forwards the requests to their
/// pods.
#[derive(Clone, Debug, Parser)]
#[command(version, after_help = TRACES)]
pub struct Args {
    /// Run without Kubernetes: read workloads, ports and pods from this file (YAML or JSON, see
    /// docs/standalone.md). The file is read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub workloads: Option<PathBuf>,

    /// Directory in which to persist workloads and pods, for a restart while the API server is
    /// unavailable. Without it, such a restart begins with an empty cache.
    #[arg(long, env = "ROUSE_STATE_DIRECTORY", value_name = "DIRECTORY")]
    pub state_directory: Option<PathBuf>,

    /// Prefixes of the user agents of health checks, comma-separated. A health check neither wakes
    /// a workload nor counts as a request; while the workload is at zero, it gets 200. An empty
    /// list disables this.
    #[arg(long, env = "ROUSE_HEALTH_CHECK_AGENTS", value_delimiter = ',', default_value = health_checks::WELL_KNOWN)]
    pub health_check_agents: Vec<String>,

    /// Template of the waiting page, in place of the built-in one, which is also used while the
    /// file does not exist. The file is read again when it changes.
    #[arg(long, env = "ROUSE_WAITING_PAGE", value_name = "FILE")]
    pub waiting_page: Option<PathBuf>,

    /// Bytes that connections and requests may take together: 16 KiB for a connection, 24 KiB more
    /// for an HTTP/2 connection, 8 KiB for each HTTP/2 stream, and what a held request brings. Each
    /// namespace has a share that others cannot use, and divides it among its workloads. Defaults
    /// to three fifths of the container's memory limit, and without a limit to three fifths of 1
    /// GiB.
    #[arg(long, env = "ROUSE_MEMORY_BUDGET", value_name = "BYTES")]
    pub memory_budget: Option<u64>,

    /// How long requests may take to end after SIGTERM, from the time at which no new connection is
    /// accepted: at most 50 s after the signal. Both together are less than
    /// terminationGracePeriodSeconds.
    #[arg(long, env = "ROUSE_DRAIN_TIMEOUT", default_value = "60s", value_parser = parse_duration)]
    pub drain_timeout: Duration,

    /// Time for the head of a request, see [`Limits::header_timeout`].
    #[arg(long, hide = true, default_value = "30s", value_parser = parse_duration)]
    pub header_timeout: Duration,

    /// See [`Limits::drain_grace`].
    #[arg(long, hide = true, default_value = "5s", value_parser = parse_duration)]
    pub drain_grace: Duration,

    /// Namespace of the Services metrics-adapter, zero-scaler and activator.
    #[arg(long, hide = true, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,

    /// Name of this pod, used in its reports.
    #[arg(long, hide = true, env = "POD_NAME", default_value = "activator")]
    pub pod_name: String,

    /// Address of this pod, at which other activators reach it. Without it, this activator uses the
    /// slots of all pods.
    #[arg(long, hide = true, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,

    /// Name of the node of this pod. Of pods that are equally free, one on the same node gets a
    /// request first.
    #[arg(long, hide = true, env = "NODE_NAME")]
    pub node_name: Option<String>,

    /// Zone of this pod. Pods in the same one come after those on the same node, and before others.
    #[arg(long, hide = true, env = "ZONE")]
    pub zone: Option<String>,

    /// File with the token that authenticates this process to the receivers of reports and to other
    /// activators. It is read for each connection.
    #[arg(long, hide = true, default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,

    /// Port of /metrics, /ready and /live.
    #[arg(long, hide = true, default_value_t = ADMIN_PORT)]
    pub admin_port: u16,

    /// Port on which other activators connect to exchange slots.
    #[arg(long, hide = true, default_value_t = SLOTS_PORT)]
    pub slots_port: u16,

    /// Port on which front doors wait until a workload has a pod.
    #[arg(long, hide = true, default_value_t = WAKE_PORT)]
    pub wake_port: u16,

    #[command(flatten)]
    pub telemetry: component_base::telemetry::LogArgs,
}

/// Bounds and timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that may wait for one workload, unless its `wake-queue-depth` is set. The memory
    /// budget ends a flood earlier where requests are large.
    pub queue_depth: usize,
    /// See [`Args::memory_budget`].
    pub memory_budget: Option<u64>,
    /// How long a request may wait for a pod, unless its workload has a `wake-timeout`.
    pub wake_timeout: Duration,
    /// Upper bound of the wake timeout that a workload may set. Longer ones would keep the memory
    /// of requests whose clients have left without closing the connection.
    pub longest_wake_timeout: Duration,
    /// How long a browser is held before it gets the waiting page, on workloads that have one. Most
    /// wakes end earlier, and a page that is replaced at once is worse than a short wait.
    pub waiting_page_after: Duration,
    /// Hold time from which a wake is slow: it is logged once, with the duration of each phase, and
    /// becomes an event. 0 disables this.
    pub slow_wake: Duration,
    /// Time without a connected zero-scaler after which the activator itself scales a workload with
    /// held requests from 0 to 1. A rollout of the zero-scalers takes less.
    pub fallback_wake_after: Duration,
    /// Time for a client to send the head of a request, from its first byte, and until the first
    /// byte of a connection.
    pub header_timeout: Duration,
    /// Time without a request after which a connection is closed.
    pub connection_idle_timeout: Duration,
    /// On TCP ports: a connection stops to count as concurrency when it was silent for this time
    /// after data from the app. The sidecar's default.
    pub tcp_silence: Duration,
    /// On TCP ports: the same after data from the client, when the app may be working on a
    /// response. The sidecar's default.
    pub tcp_answer_time: Duration,
    /// After SIGTERM, new connections are accepted until none has arrived for this time: by then
    /// this pod is in no EndpointSlice, and all nodes have read them.
    pub drain_grace: Duration,
    /// How long new connections are accepted after SIGTERM, whatever arrives.
    pub longest_drain_grace: Duration,
    /// See [`Args::drain_timeout`].
    pub drain_timeout: Duration,
}

// === impl Args ===

impl Args {
    pub(crate) fn location(&self) -> Location {
        Location::new(self.node_name.clone(), self.zone.clone())
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            memory_budget: self.memory_budget,
            header_timeout: self.header_timeout,
            drain_grace: self.drain_grace,
            drain_timeout: self.drain_timeout,
            ..Limits::default()
        }
    }
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_depth: 10_000,
            memory_budget: None,
            wake_timeout: DEFAULT_WAKE_TIMEOUT,
            longest_wake_timeout: Duration::from_secs(3600),
            waiting_page_after: Duration::from_secs(2),
            slow_wake: Duration::from_secs(10),
            fallback_wake_after: Duration::from_secs(30),
            header_timeout: Duration::from_secs(30),
            connection_idle_timeout: IDLE_TIMEOUT,
            tcp_silence: Duration::from_secs(5),
            tcp_answer_time: Duration::from_secs(900),
            drain_grace: Duration::from_secs(5),
            longest_drain_grace: Duration::from_secs(50),
            drain_timeout: Duration::from_secs(60),
        }
    }
}

impl Limits {
    /// Requests that may wait for this workload.
    pub fn queue_depth(&self, workload: &Workload) -> usize {
        workload.queue_depth.unwrap_or(self.queue_depth)
    }

    /// How long a request may wait for a pod of this workload.
    pub fn wake_timeout(&self, workload: &Workload) -> Duration {
        workload.wake_timeout.map_or(self.wake_timeout, |timeout| timeout.min(self.longest_wake_timeout))
    }

    pub(crate) fn idle_timeouts(&self) -> IdleTimeouts {
        IdleTimeouts {
            after_response: self.tcp_silence,
            after_request: self.tcp_answer_time,
            half_closed: Duration::MAX,
            close_after: None,
        }
    }
}

/// Threads that carry the traffic: one for each processor of this process.
pub(crate) fn worker_count() -> usize {
    workers::worker_count(None, usize::MAX)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["activator", "--drain-timeout", "1500ms"]);
        assert_eq!(args.limits().drain_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn defaults_of_flags_are_those_of_the_limits() {
        let (args, limits) = (Args::parse_from(["activator"]).limits(), Limits::default());
        let timeouts = |limits: Limits| [limits.header_timeout, limits.drain_grace, limits.drain_timeout];
        assert_eq!(timeouts(args), timeouts(limits));
    }
}
