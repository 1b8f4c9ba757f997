//! Drain: the end of a pod without a lost request.
//!
//! ```text
//!            begin (preStop hook, SIGTERM)         quiet, or timeout
//!  Serving ────────────────────────────► Draining ──────────────────► Drained ─► exit, once SIGTERM came
//!     ▲                                                                  │
//!     └──────────────── the app went away and came back ─────────────────┘
//! ```
//!
//! A pod that terminates keeps getting requests until every proxy in the cluster has heard of it. So a draining sidecar
//! is unready, yet serves on; it is drained when nothing is in flight and nothing new came for the quiet period.
//!
//! A native sidecar gets its SIGTERM only after the app is gone. What starts the drain in time is the app's preStop hook:
//! it calls `/wait-for-drain`, and the kubelet leaves the app alone until that is answered. The same hook runs when only
//! the app restarts (a failed liveness probe); then no SIGTERM follows and the sidecar must serve again with the new app.
//!
//! One task, [`Drain::supervise`], makes all transitions but the first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::app_readiness::AppProbe;
use crate::request_counter::RequestCounter;

/// How often a draining process looks at its counter. Only while it drains, so that requests need not notify anybody.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// How long after a drain the app may go on to accept connections before the hook is taken for a false alarm. An app that
/// closes slowly in a terminating pod may exceed it: being ready again does no harm there.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);

/// The drain of this process.
#[derive(Debug)]
pub(crate) struct Drain {
    state: watch::Sender<State>,
    counter: Arc<RequestCounter>,
    quiet_period: Duration,
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    phase: Phase,
    /// The process itself was told to stop; there is no way back.
    for_good: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
    Drained,
}

// === impl Drain ===

impl Drain {
    pub(crate) fn new(counter: Arc<RequestCounter>, quiet_period: Duration, timeout: Duration) -> Self {
        let state = watch::Sender::new(State { phase: Phase::Serving, for_good: false });
        Self { state, counter, quiet_period, timeout }
    }

    /// Starts to drain, unless that has happened; the app may come back.
    pub(crate) fn begin(&self) {
        self.start(false);
    }

    /// Starts to drain, unless that has happened; the process ends.
    pub(crate) fn begin_for_good(&self) {
        self.start(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.state.borrow().phase != Phase::Serving
    }

    /// Waits until the drain has begun.
    pub(crate) async fn begun(&self) {
        self.reached(|phase| phase != Phase::Serving).await;
    }

    /// Waits until everything has been served.
    pub(crate) async fn done(&self) {
        self.reached(|phase| phase == Phase::Drained).await;
    }

    /// Brings each drain to its end, and the sidecar back when only the app restarted. Never returns.
    pub(crate) async fn supervise(&self, app: &AppProbe) {
        loop {
            self.begun().await;
            if timeout(self.timeout, self.quiet()).await.is_err() {
                tracing::warn!(after = ?self.timeout, in_flight = self.counter.in_flight(), "drain timed out");
            }
            tracing::info!("drained");
            self.state.send_modify(|state| state.phase = Phase::Drained);
            restarted(app).await;
            self.serve_again().await;
        }
    }

    fn start(&self, for_good: bool) {
        self.state.send_if_modified(|state| {
            let before = *state;
            state.for_good |= for_good;
            if state.phase == Phase::Serving {
                tracing::info!(for_good, "draining");
                state.phase = Phase::Draining;
            }
            *state != before
        });
    }

    async fn serve_again(&self) {
        let resumed = self.state.send_if_modified(|state| {
            if !state.for_good {
                state.phase = Phase::Serving;
            }
            !state.for_good
        });
        if !resumed {
            std::future::pending::<()>().await;
        }
        tracing::info!("the app is back: serving again");
    }

    async fn quiet(&self) {
        let began = Instant::now();
        loop {
            let since = began.max(Instant::from_std(self.counter.last_arrival()));
            if since.elapsed() >= self.quiet_period && self.counter.in_flight() == 0 {
                return;
            }
            sleep(CHECK_EVERY).await;
        }
    }

    async fn reached(&self, wanted: impl Fn(Phase) -> bool) {
        // An error means that the sender is gone, and it lives in self.
        let _ = self.state.subscribe().wait_for(|state| wanted(state.phase)).await;
    }
}

/// Waits until the app has stopped to answer (within bounds) and answers again.
async fn restarted(app: &AppProbe) {
    let deadline = Instant::now() + RESTART_PATIENCE;
    while Instant::now() < deadline && app.answers().await {
        sleep(CHECK_EVERY).await;
    }
    while !app.answers().await {
        sleep(CHECK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::time::{Duration, advance};

    use super::*;
    use crate::metrics::Metrics;
    use crate::readiness_probe::ReadinessProbe;

    const QUIET: Duration = Duration::from_secs(3);
    const TIMEOUT: Duration = Duration::from_secs(25);

    fn drain() -> (Arc<Drain>, Arc<RequestCounter>) {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        let counter =
            Arc::new(RequestCounter::new(Instant::now().into_std(), std::time::Duration::ZERO, metrics));
        (Arc::new(Drain::new(counter.clone(), QUIET, TIMEOUT)), counter)
    }

    /// An address on which nobody listens.
    fn nowhere() -> AppProbe {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        AppProbe::new(nowhere, ReadinessProbe::tcp(nowhere))
    }

    fn supervised(drain: &Arc<Drain>, app: AppProbe) {
        let drain = drain.clone();
        tokio::spawn(async move { drain.supervise(&app).await });
    }

    #[tokio::test(start_paused = true)]
    async fn is_done_a_quiet_period_after_the_last_request() {
        let (drain, counter) = drain();
        supervised(&drain, nowhere());
        drain.begin_for_good();
        advance(Duration::from_secs(2)).await;
        drop(counter.enter(false));
        let last = Instant::now();
        drain.done().await;
        let quiet = last.elapsed();
        assert!(quiet >= QUIET && quiet < QUIET + 2 * CHECK_EVERY, "{quiet:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_what_is_in_flight_but_not_for_ever() {
        let (drain, counter) = drain();
        supervised(&drain, nowhere());
        let _endless = counter.enter(false);
        let began = Instant::now();
        drain.begin();
        drain.done().await;
        assert!(began.elapsed() >= TIMEOUT, "{:?}", began.elapsed());
    }
}
