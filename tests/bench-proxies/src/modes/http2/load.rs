//! Runs of h2load, and what they print.

use std::fmt;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench_proxies::debian::Unpacked;

use crate::proxies::H2LOAD;

/// Connections, and concurrent streams of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    connections: u32,
    streams: u32,
}

/// Few connections as of a proxy in front, many of clients of their own, and two of gRPC channels.
pub(crate) const SHAPES: [Shape; 3] = [
    Shape { connections: 8, streams: 8 },
    Shape { connections: 64, streams: 1 },
    Shape { connections: 2, streams: 100 },
];

/// What a run printed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Requests a second.
    pub(crate) rate: f64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

/// Sends as many requests as the target answers, for `duration`.
///
/// # Errors
/// When the program fails.
pub(crate) fn saturate(
    tools: &Unpacked,
    target: SocketAddr,
    shape: Shape,
    threads: usize,
    duration: Duration,
) -> Result<Outcome> {
    let Shape { connections, streams } = shape;
    let threads = threads.min(connections as usize);
    let flags = [
        format!("--duration={}ms", duration.as_millis()),
        format!("--clients={connections}"),
        format!("--max-concurrent-streams={streams}"),
        format!("--threads={threads}"),
    ];
    run(tools, target, &flags)
}

/// Sends one request, and returns whether it succeeded.
///
/// # Errors
/// When the program cannot be run.
pub(crate) fn succeeds_once(tools: &Unpacked, target: SocketAddr) -> Result<bool> {
    Ok(run(tools, target, &["--requests=1".to_owned()])?.succeeded == 1)
}

fn run(tools: &Unpacked, target: SocketAddr, flags: &[String]) -> Result<Outcome> {
    let mut command = Command::new(tools.root.join(H2LOAD));
    command.envs(tools.environment()).args(flags).arg(format!("http://{target}/index.html"));
    let output = command.output().context("cannot run h2load")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "h2load: {}: {printed}", output.status);
    parse(&printed).with_context(|| format!("unknown output of h2load: {printed}"))
}

/// Reads the two lines
///
/// ```text
/// finished in 514.66ms, 6048.00 req/s, 309.13KB/s
/// requests: 3024 total, 3088 started, 3024 done, 3024 succeeded, 0 failed, 0 errored, 0 timeout
/// ```
fn parse(printed: &str) -> Option<Outcome> {
    let line = |start: &str| printed.lines().find_map(|line| line.strip_prefix(start));
    let rate = line("finished in ")?.split(", ").find_map(|part| part.strip_suffix(" req/s"))?;
    let requests = line("requests: ")?;
    let count = |name: &str| -> Option<u64> {
        requests.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
    };
    let failed = count("failed")? + count("errored")? + count("timeout")?;
    Some(Outcome { rate: rate.parse().ok()?, succeeded: count("succeeded")?, failed })
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {}", self.connections, self.streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rate_and_counts() {
        let printed = "Stopped all clients\n\nfinished in 514.66ms, 6048.00 req/s, 309.13KB/s\n\
            requests: 3030 total, 3088 started, 3024 done, 3024 succeeded, 1 failed, 2 errored, 3 timeout\n";
        assert_eq!(parse(printed), Some(Outcome { rate: 6048.0, succeeded: 3024, failed: 6 }));
        assert_eq!(parse("could not connect"), None);
    }
}
