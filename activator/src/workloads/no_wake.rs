//! NoWake: the requests that a workload's `no-wake` rules exclude from its load.
//!
//! The rules come from the ServerlessService. Uptime monitors and crawlers would wake a workload
//! each minute, or keep it above zero.

use autoscaler::settings::{NoWakeResponse, NoWakeRules};
use http::header::USER_AGENT;
use http::{HeaderValue, Request};

/// Rules of one workload, and what these requests get while it has no pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NoWake {
    pub rules: NoWakeRules,
    pub response: NoWakeResponse,
}

// === impl NoWake ===

impl NoWake {
    /// Whether a rule matches the request.
    pub fn matches<B>(&self, request: &Request<B>) -> bool {
        let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
        self.rules.matches(request.method().as_str(), request.uri().path(), agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_path_without_query_and_user_agent() {
        let rules = NoWakeRules::parse("GET /healthz, User-Agent: *UptimeRobot*").unwrap();
        let no_wake = NoWake { rules, ..NoWake::default() };
        let request = |uri: &str, agent: &str| Request::get(uri).header(USER_AGENT, agent).body(()).unwrap();
        assert!(no_wake.matches(&request("/healthz?verbose", "curl")));
        assert!(no_wake.matches(&request("http://web.example/healthz", "curl")));
        assert!(no_wake.matches(&request("/", "Mozilla/5.0+(compatible; UptimeRobot/2.0)")));
        assert!(!no_wake.matches(&request("/", "curl")));
        assert!(!NoWake::default().matches(&request("/healthz", "UptimeRobot")));
    }
}
