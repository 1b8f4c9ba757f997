//! PodProber: asks a pod until it takes requests.
//!
//! Only pods of workloads with requests here are asked: an idle cluster costs nothing. The answer of a queue-proxy is held
//! back until its app is ready, so one probe is mostly enough once the sidecar runs; before that, connections are refused
//! and tried again after a few milliseconds.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::forward::Forwarder;

/// Wait between tries at the start.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
/// Wait between tries of a pod that has not come up for long, for a large image mostly.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A wait is this part of the time tried so far, so that asking rarely adds no more than that to any start.
const PAUSE_PART: u32 = 100;
/// A pod whose node is lost never answers; the probe is then repeated, on a new connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks until the pod at `address` answers (`true`) or nobody wants to know any more.
pub async fn prove(forwarder: &Forwarder, address: SocketAddr, wanted: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while wanted() {
        match tokio::time::timeout(PATIENCE, forwarder.probe(address)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => tracing::trace!(%address, %error, "probe"),
            Err(_) => tracing::debug!(%address, after = ?PATIENCE, "probe not answered"),
        }
        tokio::time::sleep(pause(start.elapsed())).await;
    }
    false
}

fn pause(tried: Duration) -> Duration {
    (tried / PAUSE_PART).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_gets_rarer_with_time() {
        assert_eq!(pause(Duration::ZERO), SHORTEST_PAUSE);
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_millis(20));
        assert_eq!(pause(Duration::from_secs(3600)), LONGEST_PAUSE);
    }
}
