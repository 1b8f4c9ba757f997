//! Prober: probes a pod until it takes requests.
//!
//! Only pods of workloads with requests in this activator are probed, so an idle cluster costs
//! nothing. A queue-proxy holds its response back until its app is ready, so one probe is mostly
//! enough once the sidecar runs. Before that, connections are refused, and the probe is retried
//! after a few milliseconds.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

use crate::pods::forwarder::Forwarder;
use crate::pods::pod_tracker::PodTracker;

/// Wait between attempts at the start.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// Wait between attempts when a pod has not come up for long, mostly because it pulls a large
/// image.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// A pause is this fraction of the time since the first attempt, so that pauses add at most 1 % to
/// any start.
const PAUSE_FRACTION: u32 = 100;
/// A pod on a lost node never answers; the probe is then repeated on a new connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Probes `pod` at `address` until it answers (`true`), or until `wanted` returns false. A pod that
/// has the address of `pod` now refuses the probe.
pub async fn probe_until_ready(
    forwarder: &Forwarder,
    pod: &PodTracker,
    address: SocketAddr,
    wanted: impl Fn() -> bool,
) -> bool {
    let start = Instant::now();
    while wanted() {
        match tokio::time::timeout(PROBE_TIMEOUT, forwarder.probe(pod, address)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => tracing::trace!(%address, %error, "probe failed, retrying"),
            Err(_) => tracing::debug!(%address, timeout = ?PROBE_TIMEOUT, "probe timed out, retrying"),
        }
        tokio::time::sleep(pause(start.elapsed())).await;
    }
    false
}

fn pause(elapsed: Duration) -> Duration {
    (elapsed / PAUSE_FRACTION).clamp(MIN_PAUSE, MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_grows_with_elapsed_time_up_to_its_maximum() {
        assert_eq!(pause(Duration::ZERO), MIN_PAUSE);
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_millis(20));
        assert_eq!(pause(Duration::from_secs(3600)), MAX_PAUSE);
    }
}
