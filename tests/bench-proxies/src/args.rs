//! The command line, which selects a mode and its extent.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Compares queue-proxy and the activator with nginx, haproxy and Envoy on this machine.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// Release binary of queue-proxy.
    #[arg(long, value_name = "FILE", required_unless_present = "activator")]
    pub(crate) queue_proxy: Option<PathBuf>,

    /// Cache directory for Debian packages and wheels.
    #[arg(long, env = "ROUSE_CACHE", value_name = "DIRECTORY")]
    pub(crate) cache: PathBuf,

    /// Run one short round to check that everything works; its figures mean little.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Exit with an error if a bound is missed.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Instead of the comparison, measure bodies of 1 MiB, streams of events, a connection for each
    /// request, and idle websockets.
    #[arg(long)]
    pub(crate) exchanges: bool,

    /// Instead of the comparison, profile this proxy under saturating load with perf.
    #[arg(long, value_name = "PROXY")]
    pub(crate) profile: Option<String>,

    /// Instead of the comparison, run one proxy at half of its capacity for so many seconds beside
    /// misbehaving clients, and check for leaks. The proxy is queue-proxy, or the activator without
    /// --queue-proxy.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(8..))]
    pub(crate) soak: Option<u64>,

    /// Release binary of the activator, which joins the comparison in front of a Ready pod.
    #[arg(long, value_name = "FILE")]
    pub(crate) activator: Option<PathBuf>,

    /// Binary of another version of queue-proxy, which joins the comparison.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline_queue_proxy: Option<PathBuf>,

    /// Binary of another version of the activator, which joins the comparison.
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline_activator: Option<PathBuf>,

    /// Instead of the comparison, measure the activator's memory with held requests, and how fast
    /// it releases them.
    #[arg(long, requires = "activator")]
    pub(crate) held: bool,

    /// Instead of the comparison, measure two activators that carry so many workloads without
    /// sidecars, each with 50 requests a second.
    #[arg(long, value_name = "WORKLOADS", requires = "activator", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) without_sidecars: Option<u16>,

    /// Rounds of the comparison.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Duration of one measurement; a round has two for each proxy and each number of connections.
    #[arg(long, default_value_t = 1600, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) milliseconds: u64,

    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1000], value_parser = connections)]
    pub(crate) connections: Vec<usize>,

    /// Versions of HTTP to compare.
    #[arg(long, value_enum, default_value_t = Versions::Both)]
    pub(crate) versions: Versions,
}

/// Which versions of HTTP are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Versions {
    /// HTTP/1.1, then HTTP/2
    Both,
    /// HTTP/1.1
    Http1,
    /// HTTP/2
    Http2,
}

/// Extent of a comparison.
#[derive(Clone, Debug)]
pub(crate) struct MeasurementPlan {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    /// Load before each measurement.
    pub(crate) warm_up: Duration,
    pub(crate) connections: Vec<usize>,
    /// Starts of each proxy for the measurement of the start time.
    pub(crate) starts: u32,
}

// === impl Args ===

impl Args {
    pub(crate) fn plan(&self) -> MeasurementPlan {
        let full = MeasurementPlan {
            rounds: self.rounds,
            duration: Duration::from_millis(self.milliseconds),
            warm_up: Duration::from_millis(300),
            connections: self.connections.clone(),
            starts: 11,
        };
        if !self.quick {
            return full;
        }
        let (duration, warm_up) = (Duration::from_millis(400), Duration::from_millis(100));
        MeasurementPlan { rounds: 1, duration, warm_up, starts: 3, ..full }
    }
}

/// The peers' configurations allow 1000 connections.
fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        _ => Err("must be a number from 1 to 1000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(flags: &[&str]) -> Result<Args, clap::Error> {
        let always = ["bench-proxies", "--queue-proxy=q", "--cache=c"];
        Args::try_parse_from(always.iter().chain(flags))
    }

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn full_run_has_enough_rounds_for_a_median() {
        let plan = parse(&[]).unwrap().plan();
        assert!(plan.rounds >= 3);
        assert_eq!(plan.connections, [1, 64, 1000]);
        assert_eq!(parse(&["--quick"]).unwrap().plan().rounds, 1);
    }

    #[test]
    fn rejects_invalid_values() {
        for bad in [
            "--rounds=0",
            "--milliseconds=5",
            "--connections=0",
            "--connections=1,1001",
            "--connections=many",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
