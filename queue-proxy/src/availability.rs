//! Availability: the one answer to "may requests come here?", for activators and for the kubelet.
//!
//! The question is held open until the answer is yes, so that whoever asks during a start hears of it at once and not at
//! their next try. It is bounded, because a caller that goes away silently would otherwise be held for ever.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::PROBE_QUEUE_PROXY;
use http::HeaderValue;
use tokio::time::timeout;

use crate::app_readiness::{AppReadiness, Verdict};
use crate::drain::Drain;
use crate::error_response::Refusal;

/// Longest time for which a probe, or what arrives early, waits for the app's start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(crate) struct Availability {
    app: AppReadiness,
    drain: Arc<Drain>,
}

// === impl Availability ===

impl Availability {
    pub(crate) fn new(app: AppReadiness, drain: Arc<Drain>) -> Self {
        Self { app, drain }
    }

    /// Waits up to `patience` until requests may come here. Not while draining.
    pub(crate) async fn hold(&self, patience: Duration) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = self.drain.begun() => Err(Refusal::Draining),
            ready = self.app_within(patience) => ready,
        }
    }

    /// Answers the probe of an activator, which asks for a process of ours by its name. Held until the app takes requests, so
    /// that the answer is the announcement.
    pub(crate) async fn probe(&self, asked_for: &HeaderValue) -> Result<(), Refusal> {
        if asked_for != PROBE_QUEUE_PROXY {
            return Err(Refusal::OtherProbe);
        }
        self.hold(PATIENCE).await
    }

    /// Waits up to `patience` for the app's start. Draining or not: what has arrived is served.
    pub(crate) async fn app_within(&self, patience: Duration) -> Result<(), Refusal> {
        if self.app.has_started() {
            return Ok(());
        }
        Box::pin(timeout(patience, self.app.started())).await.map_err(|_| Refusal::AppNotReady)
    }

    /// As [`hold`](Self::hold), and what the app itself says now.
    pub(crate) async fn ask(&self, patience: Duration) -> Result<(), Refusal> {
        if !self.app.has_started() || self.is_draining() {
            return self.hold(patience).await;
        }
        match self.app.ask().await {
            Verdict::Ready => Ok(()),
            Verdict::Unready => Err(Refusal::AppUnready),
            // It starts again.
            Verdict::Away => self.hold(patience).await,
        }
    }

    /// Whether the app has started, as far as is known.
    pub(crate) fn has_started(&self) -> bool {
        self.app.has_started()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_draining()
    }
}
