//! UncountedRequests: requests that are not load of the app: health checks, scrapes of metrics, and
//! requests that match `no-wake` rules.
//!
//! They are forwarded at once, past limit and queue, while the pod has a place for them. If they
//! counted, an uptime monitor would keep the workload above zero.

use std::sync::Arc;

use autoscaler::settings::NoWakeRules;
use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use proxy::health_checks::{HealthChecks, is_scrape};

use crate::stats::uncounted_places::{UncountedPlaces, UncountedRequest};

/// Which requests are not counted.
#[derive(Debug)]
pub(crate) struct UncountedRequests {
    pub(crate) health_checks: HealthChecks,
    pub(crate) no_wake: NoWakeRules,
    pub(crate) places: Arc<UncountedPlaces>,
}

// === impl UncountedRequests ===

impl UncountedRequests {
    /// The place of a request that is not counted; `None` if it counts, also for lack of a place.
    pub(crate) fn enter<B>(&self, request: &Request<B>) -> Option<UncountedRequest> {
        let headers = request.headers();
        let is_uncounted =
            self.health_checks.matches(headers) || is_scrape(headers) || self.excludes(request);
        is_uncounted.then(|| self.places.enter()).flatten()
    }

    fn excludes<B>(&self, request: &Request<B>) -> bool {
        if self.no_wake.is_empty() {
            return false;
        }
        let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
        self.no_wake.matches(request.method().as_str(), request.uri().path(), agent)
    }
}
