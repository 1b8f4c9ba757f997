//! Availability: whether requests may come to this pod, for activators and for the kubelet.
//!
//! Checks are held open until the app is ready, so that a client sees the end of a start at once
//! and not with its next attempt. The wait is bounded, because a client may disappear silently.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::PROBE_QUEUE_PROXY;
use http::HeaderValue;
use tokio::time::timeout;

use super::app_probe::ProbeResult;
use super::app_readiness::AppReadiness;
use super::drain::Drain;

/// Longest wait of an activator's probe, or of an early request, for the app's start.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The app's readiness and the drain together. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Availability {
    app: AppReadiness,
    drain: Arc<Drain>,
}

/// Why requests may not come to this pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("the pod is shutting down; retry on another pod")]
    Draining,
    #[error("the app has not started yet: its readiness probe has not succeeded")]
    AppNotReady,
    #[error("the app's readiness probe fails")]
    AppUnready,
    #[error("this process is a queue-proxy, but the probe is for another component")]
    ProbeForOtherComponent,
}

// === impl Availability ===

impl Availability {
    pub(crate) fn new(app: AppReadiness, drain: Arc<Drain>) -> Self {
        Self { app, drain }
    }

    /// Waits up to `limit` until requests may come to this pod; fails at once during a drain.
    pub(crate) async fn wait_until_available(&self, limit: Duration) -> Result<(), Unavailable> {
        tokio::select! {
            biased;
            () = self.drain.begun() => Err(Unavailable::Draining),
            started = self.wait_for_start(limit) => started,
        }
    }

    /// Handles the probe of an activator, whose header names the probed component. The response
    /// waits for the app's start, so that it announces the start without a delay.
    pub(crate) async fn handle_probe(&self, component: &HeaderValue) -> Result<(), Unavailable> {
        if component != PROBE_QUEUE_PROXY {
            return Err(Unavailable::ProbeForOtherComponent);
        }
        self.wait_until_available(START_TIMEOUT).await
    }

    /// Waits up to `limit` for the app's start, during a drain as well: accepted requests are
    /// served.
    pub(crate) async fn wait_for_start(&self, limit: Duration) -> Result<(), Unavailable> {
        if self.app.has_started() {
            return Ok(());
        }
        Box::pin(timeout(limit, self.app.started())).await.map_err(|_| Unavailable::AppNotReady)
    }

    /// As [`wait_until_available`](Self::wait_until_available), and probes an app that has started.
    pub(crate) async fn probe_app(&self, limit: Duration) -> Result<(), Unavailable> {
        if !self.app.has_started() || self.is_draining() {
            return self.wait_until_available(limit).await;
        }
        match self.app.probe().await {
            ProbeResult::Ready => Ok(()),
            ProbeResult::Unready => Err(Unavailable::AppUnready),
            ProbeResult::Unreachable => self.wait_until_available(limit).await,
        }
    }

    /// Whether the app has started, by the last probe.
    pub(crate) fn has_started(&self) -> bool {
        self.app.has_started()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_draining()
    }
}
