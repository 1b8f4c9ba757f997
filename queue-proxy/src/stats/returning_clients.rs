//! ReturningClients: the clients that keep the pod awake by requests straight to it, in the log.
//!
//! Activators report the clients of requests that come through them. Port 9090 authenticates no
//! reader, so addresses are not among the statistics.

use autoscaler::history::{ClientVisits, FirstRequest, FirstRequests};
use component_base::clock;
use parking_lot::Mutex;

/// The visit that is logged: one or two are not yet a habit.
const LOGGED_VISIT: u32 = 3;
/// After so many more it is logged again, because logs are rotated.
const LOGGED_AGAIN: u32 = 100;

/// The last few clients that ended idleness of the pod.
#[derive(Debug, Default)]
pub(crate) struct ReturningClients(Mutex<FirstRequests>);

// === impl ReturningClients ===

impl ReturningClients {
    /// Records a request that ended idleness. Returns what was logged.
    pub(crate) fn record(&self, request: FirstRequest) -> Option<ClientVisits> {
        let visits = self.0.lock().record(request, clock::unix_millis());
        if visits.count % LOGGED_AGAIN != LOGGED_VISIT {
            return None;
        }
        tracing::info!(
            client = %visits.request.client,
            user_agent = visits.request.agent.as_str(),
            request = visits.request.target.as_str(),
            count = visits.count,
            interval_ms = visits.interval(),
            "pod kept awake by a client that connects to it"
        );
        Some(visits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_logged_when_it_returns_and_seldom_after_that() {
        let clients = ReturningClients::default();
        let scrape = || FirstRequest::of_http([10, 1, 2, 3].into(), "GET", "/metrics", Some(b"agent/1"));
        let logged = (1..=250).filter(|_| clients.record(scrape()).is_some()).count();
        assert_eq!(logged, 3, "visits 3, 103 and 203");
        let visitors = (0..200).map(|host| FirstRequest::of_connection([10, 1, 3, host].into()));
        assert_eq!(visitors.filter_map(|visitor| clients.record(visitor)).count(), 0);
    }
}
