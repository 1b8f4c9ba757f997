//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Compares queue-proxy with nginx and haproxy, in turn on this machine.
#[derive(Clone, Debug, Parser)]
#[command(version)]
pub(crate) struct Args {
    /// The release binary of queue-proxy.
    #[arg(long, value_name = "FILE", required_unless_present = "activator")]
    pub(crate) queue_proxy: Option<PathBuf>,

    /// Where Debian's packages are kept.
    #[arg(long, env = "ROUSE_CACHE", value_name = "DIRECTORY")]
    pub(crate) cache: PathBuf,

    /// One short round: shows that everything works, its figures mean little.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Fail if a bound is missed.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Instead: where this proxy spends its CPU time under saturating load, by perf.
    #[arg(long, value_name = "PROXY")]
    pub(crate) profile: Option<String>,

    /// Instead: half of one proxy's full load for so many seconds among callers that behave badly, to see whether it leaks.
    /// It is the activator if there is no queue-proxy.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(8..))]
    pub(crate) soak: Option<u64>,

    /// The release binary of the activator, to be compared as well: it passes on to a pod that is Ready.
    #[arg(long, value_name = "FILE")]
    pub(crate) activator: Option<PathBuf>,

    /// Instead: what the activator takes while it holds requests, and how fast it lets them go.
    #[arg(long, requires = "activator")]
    pub(crate) held: bool,

    /// Times that everything is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Duration of one measurement; there are two of each proxy for each number of connections in a round.
    #[arg(long, default_value_t = 1600, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) milliseconds: u64,

    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1000], value_parser = connections)]
    pub(crate) connections: Vec<usize>,
}

/// How much to measure.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) rounds: u32,
    pub(crate) duration: Duration,
    /// Load before each measurement that counts for nothing.
    pub(crate) warm_up: Duration,
    pub(crate) connections: Vec<usize>,
    /// Starts of each proxy, to see how long it takes.
    pub(crate) starts: u32,
}

// === impl Args ===

impl Args {
    pub(crate) fn extent(&self) -> Extent {
        let full = Extent {
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
        Extent { rounds: 1, duration, warm_up, starts: 3, ..full }
    }
}

/// More would not fit into the peers' configurations.
fn connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        _ => Err("from 1 to 1000 connections".to_owned()),
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
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_full_run_has_rounds_enough_for_a_median() {
        let extent = parse(&[]).unwrap().extent();
        assert!(extent.rounds >= 3);
        assert_eq!(extent.connections, [1, 64, 1000]);
        assert_eq!(parse(&["--quick"]).unwrap().extent().rounds, 1);
    }

    #[test]
    fn nonsense_is_refused() {
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
