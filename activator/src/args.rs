//! What an activator can be told.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use autoscaler::contract::{ADMIN_PORT, SLOTS_PORT, STATS_TOKEN_FILE, SYSTEM_NAMESPACE};
use clap::Parser;
use proxy::health_checks;
use proxy::tcp::IdleTimeouts;
use proxy::workers;

use crate::workloads::Workload;

/// Holds requests of sleeping workloads, wakes them, and forwards.
#[derive(Clone, Debug, Parser)]
#[command(version)]
// The group would have the name of the telemetry's arguments.
#[group(skip)]
pub struct Args {
    /// Runs without Kubernetes: workloads, ports and pods come from this file (YAML or JSON; docs/standalone.md has an example).
    /// It is read again when it changes.
    #[arg(long, value_name = "FILE")]
    pub workloads: Option<PathBuf>,

    /// Namespace in which metrics-adapter and zero-scaler are found.
    #[arg(long, env = "ROUSE_SYSTEM_NAMESPACE", default_value = SYSTEM_NAMESPACE)]
    pub system_namespace: String,

    /// Port of /metrics, /ready and /live.
    #[arg(long, default_value_t = ADMIN_PORT)]
    pub admin_port: u16,

    /// Directory in which to remember workloads and pods, for a restart while the API server is away. Without one, such a
    /// restart knows nobody until it is back.
    #[arg(long, env = "ROUSE_STATE_DIRECTORY", value_name = "DIRECTORY")]
    pub state_directory: Option<PathBuf>,

    /// Name of this pod, by which it reports.
    #[arg(long, env = "POD_NAME", default_value = "activator")]
    pub pod_name: String,

    /// File with the token by which the receivers of reports and other activators know us; read anew for each connection.
    #[arg(long, env = "ROUSE_TOKEN_FILE", default_value = STATS_TOKEN_FILE)]
    pub token_file: PathBuf,

    /// How the user agents of health checks begin, by comma. They neither wake a workload nor count: while it sleeps, they are
    /// told that all is well. With an empty list nobody is one.
    #[arg(long, env = "ROUSE_HEALTH_CHECK_AGENTS", value_delimiter = ',', default_value = health_checks::WELL_KNOWN)]
    pub health_check_agents: Vec<String>,

    /// Address of this pod, by which other activators know it. Without it there is nobody to share pods with.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,

    /// Port on which other activators connect, to lend slots.
    #[arg(long, default_value_t = SLOTS_PORT)]
    pub slots_port: u16,

    /// Let other activators connect without a token. For trials on one machine.
    #[arg(long, env = "ROUSE_OPEN_SLOTS_PORT")]
    pub open_slots_port: bool,

    #[command(flatten)]
    pub limits: Limits,

    #[command(flatten)]
    pub telemetry: runtime::telemetry::LogArgs,
}

/// Bounds and times.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Limits {
    /// Requests that may wait for one workload, unless it says otherwise; never more than all together.
    #[arg(long, default_value_t = 10_000)]
    pub queue_depth: usize,

    /// Requests that may wait for all workloads together.
    #[arg(long, default_value_t = 100_000)]
    pub total_queue_depth: usize,

    /// Bytes that they may keep together: their connections' buffers, their heads, and the beginnings of their bodies. Of both
    /// totals each workload has a share that no other can take.
    #[arg(long, default_value_t = 600 << 20)]
    pub total_queue_bytes: u64,

    /// Threads that carry the traffic, at most 64. As many as there are processors for this process, unless told.
    #[arg(long, env = "ROUSE_WORKERS")]
    pub workers: Option<NonZeroUsize>,

    /// How long a request may wait for a pod, unless its workload says otherwise: a number with the unit ms or s (s if there
    /// is none).
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub wake_timeout: Duration,

    /// The longest time that a workload may say.
    #[arg(long, default_value = "3600s", value_parser = duration)]
    pub longest_wake_timeout: Duration,

    /// A request that was held so long is logged with all parts of its way, once for each wake; 0 logs none.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub slow_wake: Duration,

    /// How long no zero-scaler may be connected until a workload that sleeps while requests are held for it is taken to one
    /// pod from here.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub guard_after: Duration,

    /// Time a caller has for the head of a request, the time before it included: a connection rests no longer than that.
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub header_timeout: Duration,

    /// On ports that are not HTTP's: how long nothing may pass after the app's word until a connection counts no more.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub tcp_silence: Duration,

    /// The same after the caller's word, when the app may be at work on an answer.
    #[arg(long, default_value = "900s", value_parser = duration)]
    pub tcp_answer_time: Duration,

    /// How long new connections are still taken after SIGTERM, while others learn to connect elsewhere.
    #[arg(long, default_value = "5s", value_parser = duration)]
    pub drain_grace: Duration,

    /// How long requests may take to end after that.
    #[arg(long, default_value = "60s", value_parser = duration)]
    pub drain_timeout: Duration,
}

// === impl Limits ===

impl Limits {
    /// Requests that may wait for this workload.
    pub fn queue_depth(&self, workload: &Workload) -> usize {
        workload.queue_depth.unwrap_or(self.queue_depth).min(self.total_queue_depth)
    }

    /// How long each of them may.
    pub fn wake_timeout(&self, workload: &Workload) -> Duration {
        workload.wake_timeout.map_or(self.wake_timeout, |asked| asked.min(self.longest_wake_timeout))
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

/// A text that is no duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a whole number with the unit ms or s")]
struct ParseDurationError(String);

fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    let fail = |_| ParseDurationError(text.to_owned());
    match text.strip_suffix("ms") {
        Some(number) => number.parse().map(Duration::from_millis).map_err(fail),
        None => text.strip_suffix('s').unwrap_or(text).parse().map(Duration::from_secs).map_err(fail),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["activator", "--wake-timeout", "1500ms"]);
        assert_eq!(args.limits.wake_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("7s"), Ok(Duration::from_secs(7)));
        for bad in ["", "s", "-1", "1.5s", "1m"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
