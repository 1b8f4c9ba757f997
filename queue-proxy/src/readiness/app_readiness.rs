//! AppReadiness: whether the app takes requests.
//!
//! A wake from zero waits for the app's first successful probe, so until then the app is probed
//! every few milliseconds. Afterwards a request of the kubelet runs one probe, and requests that
//! arrive during it or soon after share its result: every pod of the cluster can send them. When
//! the app refuses connections it counts as restarting: it is probed every few milliseconds again,
//! and requests wait for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};

use super::app_probe::{AppProbe, ProbeResult};

/// Bounds of the pause between two probes of a starting app. A shorter pause would cost the app
/// noticeable time of its start.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// The pause is this fraction of the start's duration so far, so it delays the result by 5 %.
const PAUSE_FRACTION: u32 = 20;
/// How long requests share the result of a probe. The kubelet sends one a second at most.
const SHARED: Duration = Duration::from_millis(500);

/// The app's readiness. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct AppReadiness(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    probe: AppProbe,
    /// Whether the app has started to take requests.
    started: watch::Sender<bool>,
    /// The last result and its time. Locked while a probe runs.
    last: Mutex<Option<(Instant, ProbeResult)>>,
}

// === impl AppReadiness ===

impl AppReadiness {
    /// The app counts as not started until [`watch_starts`](Self::watch_starts) has probed it.
    pub(crate) fn new(probe: AppProbe) -> Self {
        Self(Arc::new(Shared { probe, started: watch::Sender::new(false), last: Mutex::new(None) }))
    }

    /// The probe, for callers that must not share its result.
    pub(crate) fn app_probe(&self) -> &AppProbe {
        &self.0.probe
    }

    pub(crate) fn has_started(&self) -> bool {
        *self.0.started.borrow()
    }

    /// Waits until the app has started to take requests.
    pub(crate) async fn started(&self) {
        self.wait_for_started(true).await;
    }

    /// Probes the app once. Calls during the probe and for a short time after it share its result.
    pub(crate) async fn probe(&self) -> ProbeResult {
        let mut last = self.0.last.lock().await;
        if let Some((at, result)) = *last
            && at.elapsed() < SHARED
        {
            return result;
        }
        let result = self.0.probe.run().await;
        *last = Some((Instant::now(), result));
        if result == ProbeResult::Unreachable && self.0.started.send_replace(false) {
            tracing::info!("app refuses connections, waiting for its restart");
        }
        result
    }

    /// Probes the app through each of its starts. Never returns.
    pub(crate) async fn watch_starts(&self) {
        loop {
            self.wait_for_started(false).await;
            let began = Instant::now();
            let mut successes = 0;
            while successes < self.0.probe.successes() {
                successes = if self.0.probe.succeeds().await { successes + 1 } else { 0 };
                if successes < self.0.probe.successes() {
                    sleep((began.elapsed() / PAUSE_FRACTION).clamp(PAUSE.0, PAUSE.1)).await;
                }
            }
            tracing::info!(after = ?began.elapsed(), "app ready");
            self.0.started.send_replace(true);
        }
    }

    async fn wait_for_started(&self, started: bool) {
        // An error means that the sender is dropped, but self owns it.
        let _ = self.0.started.subscribe().wait_for(|now| *now == started).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use autoscaler::Protocol;

    use super::*;
    use crate::app_connection::PodAddresses;
    use crate::readiness::readiness_probe::ReadinessProbe;

    #[tokio::test]
    async fn calls_at_the_same_time_and_soon_after_share_one_probe() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = app.local_addr().unwrap();
        let probe = ReadinessProbe::http(address, "/healthz").unwrap();
        let readiness = AppReadiness::new(AppProbe::new(address, probe, PodAddresses::find(Protocol::Http)));
        // The app responds once; a second probe would time out.
        let respond = async {
            let (mut stream, _) = app.accept().await.unwrap();
            let _ = stream.read(&mut [0; 256]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        };
        let (first, second, ()) = tokio::join!(readiness.probe(), readiness.probe(), respond);
        assert_eq!((first, second), (ProbeResult::Ready, ProbeResult::Ready));
        assert_eq!(readiness.probe().await, ProbeResult::Ready);
    }
}
