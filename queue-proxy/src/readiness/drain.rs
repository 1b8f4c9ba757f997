//! Drain: ends a pod without losing a request.
//!
//! ```text
//!            begin (preStop hook, SIGTERM)       quiet, or timeout
//!  Serving ──────────────────────────► Draining ──────────────────► Drained ─► exit after SIGTERM
//!     ▲                                                                │
//!     └───────────────────── the pod is not terminating ───────────────┘
//! ```
//!
//! A terminating pod receives requests until every proxy in the cluster has been updated. A
//! draining sidecar is therefore unready but continues to serve. It is drained when no request is
//! in flight and none that counts has arrived during the quiet period.
//!
//! A native sidecar receives SIGTERM only after the app has ended. So the preStop hook of its own
//! container begins the drain (`queue-proxy start-drain`). The kubelet runs the hooks of all
//! containers when the termination begins, before it considers their order. The app's hook calls
//! `/wait-for-drain`, which begins no drain, and the kubelet stops the app after the response. If
//! the sidecar's hook fails, SIGTERM begins the drain, when the app has ended.
//!
//! A drain that was begun by hand (`kubectl exec`) is not followed by SIGTERM, and the sidecar must
//! serve again.
//!
//! One task, [`Drain::supervise`], makes all transitions but the first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::app_probe::AppProbe;
use crate::stats::request_counter::RequestCounter;
use crate::stats::uncounted_places::UncountedPlaces;

/// How often a drain polls the counter and the app. Polling costs nothing outside of a drain,
/// unlike a notification by each request.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// If the app still succeeds its probe this long after a drain, the pod is not terminating, and the
/// sidecar serves again. An app that closes slowly may exceed it; ready again does no harm then.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);

/// The drain of this process.
#[derive(Debug)]
pub(crate) struct Drain {
    state: watch::Sender<DrainState>,
    counter: Arc<RequestCounter>,
    uncounted: Arc<UncountedPlaces>,
    quiet_period: Duration,
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DrainState {
    phase: DrainPhase,
    /// The process received SIGTERM, so it never serves again.
    is_final: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DrainPhase {
    Serving,
    Draining,
    Drained,
}

// === impl Drain ===

impl Drain {
    pub(crate) fn new(
        counter: Arc<RequestCounter>,
        uncounted: Arc<UncountedPlaces>,
        quiet_period: Duration,
        timeout: Duration,
    ) -> Self {
        let state = watch::Sender::new(DrainState { phase: DrainPhase::Serving, is_final: false });
        Self { state, counter, uncounted, quiet_period, timeout }
    }

    /// Begins a drain, unless one has begun; SIGTERM mostly follows.
    pub(crate) fn begin(&self) {
        self.start(false);
    }

    /// Begins a drain, unless one has begun; the process ends afterwards.
    pub(crate) fn begin_final(&self) {
        self.start(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.borrow().phase != DrainPhase::Serving
    }

    /// Waits until the drain has begun.
    pub(crate) async fn begun(&self) {
        self.reached(|phase| phase != DrainPhase::Serving).await;
    }

    /// Waits until the drain has ended.
    pub(crate) async fn done(&self) {
        self.reached(|phase| phase == DrainPhase::Drained).await;
    }

    /// Waits until no request is in flight.
    pub(crate) async fn idle(&self) {
        while self.in_flight() > 0 {
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Ends each drain, and serves again if the pod is not terminating. Never returns.
    pub(crate) async fn supervise(&self, app: &AppProbe) {
        loop {
            self.begun().await;
            if timeout(self.timeout, self.quiet()).await.is_err() {
                tracing::warn!(after = ?self.timeout, in_flight = self.in_flight(), "drain timed out");
            }
            tracing::info!("drain ended");
            self.state.send_modify(|state| state.phase = DrainPhase::Drained);
            wait_for_restart(app).await;
            self.serve_again().await;
        }
    }

    fn start(&self, is_final: bool) {
        self.state.send_if_modified(|state| {
            let before = *state;
            state.is_final |= is_final;
            if state.phase == DrainPhase::Serving {
                tracing::info!(is_final, "drain began");
                state.phase = DrainPhase::Draining;
            }
            *state != before
        });
    }

    async fn serve_again(&self) {
        let resumed = self.state.send_if_modified(|state| {
            if !state.is_final {
                state.phase = DrainPhase::Serving;
            }
            !state.is_final
        });
        if !resumed {
            std::future::pending::<()>().await;
        }
        tracing::info!("pod is not terminating after a drain, serving again");
    }

    async fn quiet(&self) {
        let began = Instant::now();
        loop {
            let since = began.max(Instant::from_std(self.counter.last_arrival()));
            if since.elapsed() >= self.quiet_period && self.in_flight() == 0 {
                return;
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Also those that do not count: the app must not end in the middle of them.
    fn in_flight(&self) -> u64 {
        self.counter.in_flight() + self.uncounted.running() as u64
    }

    async fn reached(&self, wanted: impl Fn(DrainPhase) -> bool) {
        // An error means that the sender is dropped, but self owns it.
        let _ = self.state.subscribe().wait_for(|state| wanted(state.phase)).await;
    }
}

/// Waits until the app's probe has failed, at most [`RESTART_TIMEOUT`], and succeeds again.
async fn wait_for_restart(app: &AppProbe) {
    let deadline = Instant::now() + RESTART_TIMEOUT;
    while Instant::now() < deadline && app.succeeds().await {
        sleep(CHECK_INTERVAL).await;
    }
    while !app.succeeds().await {
        sleep(CHECK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::time::{Duration, advance};

    use autoscaler::Protocol;
    use autoscaler::routing::breaker::ConcurrencyLimit;

    use super::*;
    use crate::app_connection::PodAddresses;
    use crate::readiness::readiness_probe::ReadinessProbe;
    use crate::stats::metrics::Metrics;

    const QUIET: Duration = Duration::from_secs(3);
    const TIMEOUT: Duration = Duration::from_secs(25);

    fn drain() -> (Arc<Drain>, Arc<RequestCounter>, Arc<UncountedPlaces>) {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        let counter =
            Arc::new(RequestCounter::new(Instant::now().into_std(), std::time::Duration::ZERO, metrics));
        let uncounted = Arc::new(UncountedPlaces::new(ConcurrencyLimit::AtMost(1)));
        (Arc::new(Drain::new(counter.clone(), uncounted.clone(), QUIET, TIMEOUT)), counter, uncounted)
    }

    /// A probe of an address without a listener.
    fn absent_app() -> AppProbe {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        AppProbe::new(address, ReadinessProbe::tcp(address), PodAddresses::find(Protocol::Http))
    }

    fn supervise(drain: &Arc<Drain>, app: AppProbe) {
        let drain = drain.clone();
        tokio::spawn(async move { drain.supervise(&app).await });
    }

    #[tokio::test(start_paused = true)]
    async fn ends_a_quiet_period_after_the_last_request() {
        let (drain, counter, _) = drain();
        supervise(&drain, absent_app());
        drain.begin_final();
        advance(Duration::from_secs(2)).await;
        drop(counter.enter(false));
        let last = Instant::now();
        drain.done().await;
        let quiet = last.elapsed();
        assert!(quiet >= QUIET && quiet < QUIET + 2 * CHECK_INTERVAL, "{quiet:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_a_request_that_does_not_count_but_not_for_its_tunnel() {
        for is_tunnel in [false, true] {
            let (drain, _, uncounted) = drain();
            supervise(&drain, absent_app());
            let download = uncounted.enter().unwrap();
            let (_download, _tunnel) =
                if is_tunnel { (None, Some(download.into_place())) } else { (Some(download), None) };
            drain.begin();
            assert_eq!(timeout(2 * QUIET, drain.done()).await.is_ok(), is_tunnel);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ends_after_the_timeout_with_a_request_in_flight() {
        let (drain, counter, _) = drain();
        supervise(&drain, absent_app());
        let _endless = counter.enter(false);
        let began = Instant::now();
        drain.begin();
        drain.done().await;
        assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());
    }
}
