//! Prober: probes a pod until it takes requests.
//!
//! Only pods of workloads with requests in this activator are probed, so an idle cluster costs
//! nothing. A queue-proxy holds its response back until its app is ready, so one probe is mostly
//! enough once the sidecar runs. Before that, connections are refused, and the probe is retried
//! after a few milliseconds. A pod without a queue-proxy is probed as its own readiness probes do
//! ([`readiness`](crate::workloads::readiness)), with the same pauses.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::pods::connector::connect;
use crate::pods::forwarder::Forwarder;
use crate::pods::pod_tracker::PodTracker;
use crate::workloads::readiness::{ContainerProbe, PodProbe};

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

/// The user agent of probes of apps. It begins like the kubelet's, because some apps exclude that
/// one from their logs.
const USER_AGENT: &str = "kube-probe/rouse-activator";

/// The probes of one pod, one after the other.
struct PodProber<'a> {
    forwarder: &'a Forwarder,
    pod: &'a PodTracker,
    queue_proxy: Option<SocketAddr>,
    /// Successes in a row, by container.
    streaks: Vec<u32>,
}

/// Probes `pod` until it takes requests (`true`), until `wanted` returns false, or until nothing
/// but its Ready condition verifies it. `queue_proxy` is the address of its queue-proxy, if it has
/// one; a pod that has this address now refuses the probe.
pub async fn probe_until_ready(
    forwarder: &Forwarder,
    pod: &PodTracker,
    queue_proxy: Option<SocketAddr>,
    wanted: impl Fn() -> bool,
) -> bool {
    let start = Instant::now();
    let mut prober = PodProber { forwarder, pod, queue_proxy, streaks: Vec::new() };
    while wanted() {
        let Some(probe) = pod.probe() else { return false };
        if prober.succeeds(&probe).await {
            return true;
        }
        tokio::time::sleep(pause(start.elapsed())).await;
    }
    false
}

// === impl PodProber ===

impl PodProber<'_> {
    async fn succeeds(&mut self, probe: &PodProbe) -> bool {
        match probe {
            PodProbe::QueueProxy => self.queue_proxy_answers().await,
            PodProbe::Containers(probes) => self.containers_succeed(probes).await,
            PodProbe::Connection(address) => connect(*address).await.is_ok(),
        }
    }

    async fn queue_proxy_answers(&self) -> bool {
        let Some(address) = self.queue_proxy else { return false };
        match tokio::time::timeout(PROBE_TIMEOUT, self.forwarder.probe(self.pod, address)).await {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => tracing::trace!(%address, %error, "probe failed, retrying"),
            Err(_) => tracing::debug!(%address, timeout = ?PROBE_TIMEOUT, "probe timed out, retrying"),
        }
        false
    }

    /// Probes all containers at once; whether each has succeeded as often in a row as it has to.
    async fn containers_succeed(&mut self, probes: &[ContainerProbe]) -> bool {
        let succeeded = join_all(probes.iter().map(succeeds)).await;
        self.streaks.resize(probes.len(), 0);
        for (streak, succeeded) in self.streaks.iter_mut().zip(succeeded) {
            *streak = if succeeded { streak.saturating_add(1) } else { 0 };
        }
        self.streaks.iter().zip(probes).all(|(streak, probe)| *streak >= probe.successes)
    }
}

async fn succeeds(probe: &ContainerProbe) -> bool {
    let address = probe.action.address();
    let attempt = async {
        let stream = connect(address).await?;
        probe.action.succeeds_over(stream, USER_AGENT).await
    };
    match tokio::time::timeout(probe.timeout, attempt).await {
        Ok(Ok(succeeded)) => succeeded,
        Ok(Err(error)) => {
            tracing::trace!(%address, %error, "probe of the app failed, retrying");
            false
        }
        Err(_) => {
            tracing::debug!(%address, timeout = ?probe.timeout, "probe of the app timed out, retrying");
            false
        }
    }
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
