//! Command line and environment.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use autoscaler::contract::{ADMIN_PORT, SLOTS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE};
use autoscaler::routing::proximity::Location;
use autoscaler::settings::parse_duration;
use clap::Parser;
use proxy::health_checks;
use proxy::tcp::IdleTimeouts;
use proxy::workers;

use crate::traces::args::TraceArgs;
use crate::workloads::Workload;

/// Holds requests for workloads at zero, wakes the workloads, and forwards the requests to their
/// pods.
#[derive(Clone, Debug, Parser)]
#[command(version)]
// The group would have the name of the telemetry's arguments.
#[group(skip)]
pub struct Args {
    /// Run without Kubernetes: read workloads, ports and pods from this file (YAML or JSON, see
    /// docs/standalone.md). The file is read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub workloads: Option<PathBuf>,

    /// Namespace of the Services metrics-adapter, zero-scaler and activator.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,

    /// Port of /metrics, /ready and /live.
    #[arg(long, default_value_t = ADMIN_PORT)]
    pub admin_port: u16,

    /// Directory in which to persist workloads and pods, for a restart while the API server is
    /// unavailable. Without it, such a restart begins with an empty cache.
    #[arg(long, env = "ROUSE_STATE_DIRECTORY", value_name = "DIRECTORY")]
    pub state_directory: Option<PathBuf>,

    /// Name of this pod, used in its reports.
    #[arg(long, env = "POD_NAME", default_value = "activator")]
    pub pod_name: String,

    /// File with the token that authenticates this process to the receivers of reports and to other
    /// activators. It is read for each connection.
    #[arg(long, env = "ROUSE_TOKEN_FILE", default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,

    /// Prefixes of the user agents of health checks, comma-separated. A health check neither wakes
    /// a workload nor counts as a request; while the workload is at zero, it gets 200. An empty
    /// list disables this.
    #[arg(long, env = "ROUSE_HEALTH_CHECK_AGENTS", value_delimiter = ',', default_value = health_checks::WELL_KNOWN)]
    pub health_check_agents: Vec<String>,

    /// Template of the waiting page, in place of the built-in one, which is also used while the file
    /// does not exist. The file is read again when it changes.
    #[arg(long, env = "ROUSE_WAITING_PAGE", value_name = "FILE")]
    pub waiting_page: Option<PathBuf>,

    /// Address of this pod, at which other activators reach it. Without it, this activator uses the
    /// slots of all pods.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,

    /// Name of the node of this pod. Of pods that are equally free, one on the same node gets a request
    /// first.
    #[arg(long, env = "NODE_NAME")]
    pub node_name: Option<String>,

    /// Zone of this pod. Pods in the same one come after those on the same node, and before others.
    #[arg(long, env = "ZONE")]
    pub zone: Option<String>,

    /// Port on which other activators connect to exchange slots.
    #[arg(long, default_value_t = SLOTS_PORT)]
    pub slots_port: u16,

    /// Accept connections of other activators without a token. For trials on one machine.
    #[arg(long, env = "ROUSE_OPEN_SLOTS_PORT")]
    pub open_slots_port: bool,

    #[command(flatten)]
    pub limits: Limits,

    #[command(flatten)]
    pub traces: TraceArgs,

    #[command(flatten)]
    pub telemetry: component_base::telemetry::LogArgs,
}

/// Bounds and timeouts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Limits {
    /// Requests that may wait for one workload, unless its wakeQueueDepth is set.
    #[arg(long, default_value_t = 10_000)]
    pub queue_depth: usize,

    /// Bytes that connections and requests may take together: 16 KiB for a connection, 24 KiB more
    /// for one of HTTP/2, 8 KiB for each of its streams, and what a held request brings. Each
    /// namespace has a share that others cannot use, and divides it among its workloads. Defaults to
    /// three fifths of the container's memory limit, and without a limit to those of 1 GiB.
    #[arg(long, env = "ROUSE_MEMORY_BUDGET", value_name = "BYTES")]
    pub memory_budget: Option<u64>,

    /// Worker threads of the data path, at most 64. Defaults to the processors available to this
    /// process.
    #[arg(long, env = "ROUSE_WORKERS")]
    pub workers: Option<NonZeroUsize>,

    /// How long a request may wait for a pod, unless its workload sets wakeTimeoutSeconds, such as
    /// 1m30s or 500ms.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub wake_timeout: Duration,

    /// Upper bound of the wake timeout that a workload may set.
    #[arg(long, default_value = "3600s", value_parser = parse_duration)]
    pub longest_wake_timeout: Duration,

    /// How long a browser is held before it gets the waiting page, on workloads that have one. Most
    /// wakes end earlier, and a page that is replaced at once is worse than a short wait.
    #[arg(long, default_value = "2s", value_parser = parse_duration)]
    pub waiting_page_after: Duration,

    /// Hold time from which a wake is slow: it is logged once, with the duration of each phase, and
    /// becomes an event. 0 disables this.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub slow_wake: Duration,

    /// Time without a connected zero-scaler after which the activator itself scales a workload with
    /// held requests from 0 to 1.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub fallback_wake_after: Duration,

    /// Time for a client to send the head of a request, counted from the end of the previous one:
    /// also the idle timeout of connections.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub header_timeout: Duration,

    /// On TCP ports: a connection stops to count as concurrency when it was silent for this time
    /// after data from the app.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub tcp_silence: Duration,

    /// On TCP ports: the same after data from the client, when the app may be working on a
    /// response.
    #[arg(long, default_value = "900s", value_parser = parse_duration)]
    pub tcp_answer_time: Duration,

    /// After SIGTERM, new connections are accepted until none has arrived for this time: by then
    /// this pod is in no EndpointSlice, and all nodes have read them.
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub drain_grace: Duration,

    /// How long new connections are accepted after SIGTERM, whatever arrives. Together with
    /// --drain-timeout less than terminationGracePeriodSeconds.
    #[arg(long, default_value = "50s", value_parser = parse_duration)]
    pub longest_drain_grace: Duration,

    /// How long requests may take to end after that.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub drain_timeout: Duration,
}

// === impl Args ===

impl Args {
    pub(crate) fn location(&self) -> Location {
        Location::new(self.node_name.clone(), self.zone.clone())
    }
}

// === impl Limits ===

impl Limits {
    /// Requests that may wait for this workload.
    pub fn queue_depth(&self, workload: &Workload) -> usize {
        workload.queue_depth.unwrap_or(self.queue_depth)
    }

    /// How long a request may wait for a pod of this workload.
    pub fn wake_timeout(&self, workload: &Workload) -> Duration {
        workload.wake_timeout.map_or(self.wake_timeout, |timeout| timeout.min(self.longest_wake_timeout))
    }

    pub(crate) fn workers(&self) -> usize {
        workers::worker_count(self.workers, usize::MAX)
    }

    pub(crate) fn idle_timeouts(&self) -> IdleTimeouts {
        IdleTimeouts {
            after_response: self.tcp_silence,
            after_request: self.tcp_answer_time,
            close_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["activator", "--wake-timeout", "1500ms"]);
        assert_eq!(args.limits.wake_timeout, Duration::from_millis(1500));
    }
}
