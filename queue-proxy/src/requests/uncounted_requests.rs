//! UncountedRequests: requests that are not load of the app: health checks, and requests that match
//! `no-wake` rules.
//!
//! They are forwarded at once, past limit and queue. If they counted, an uptime monitor would keep
//! the workload above zero.

use autoscaler::settings::NoWakeRules;
use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use proxy::health_checks::HealthChecks;

/// Which requests are not counted.
#[derive(Debug)]
pub(crate) struct UncountedRequests {
    pub(crate) health_checks: HealthChecks,
    pub(crate) no_wake: NoWakeRules,
}

// === impl UncountedRequests ===

impl UncountedRequests {
    /// Whether the request is not counted.
    pub(crate) fn contain<B>(&self, request: &Request<B>) -> bool {
        self.health_checks.matches(request.headers()) || self.excludes(request)
    }

    fn excludes<B>(&self, request: &Request<B>) -> bool {
        if self.no_wake.is_empty() {
            return false;
        }
        let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
        self.no_wake.matches(request.method().as_str(), request.uri().path(), agent)
    }
}
