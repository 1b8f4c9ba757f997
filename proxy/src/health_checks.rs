//! Recognizes health checks by the User-Agent header, and scrapes of metrics.
//!
//! Kubelets, meshes and load balancers send probes all day long. Counted as load, they would keep
//! an unused workload above zero, or wake it. Queued, they would report a busy app as dead. So both
//! proxies forward them outside of limit and count, and the activator answers them itself while the
//! workload is at zero.
//!
//! A scrape has a header of its own. Its user agent is not enough: Prometheus has the same one when
//! it writes samples to a workload, which are load.
//!
//! A client can forge these headers. So in each pod a few of these requests run at a time, and
//! further ones count like any other.

use http::header::{self, HeaderMap, HeaderName};

/// User-Agent prefixes of well-known health checks, comma separated.
pub const WELL_KNOWN: &str = "kube-probe/,Envoy/HC,GoogleHC/,ELB-HealthChecker/,\
    Amazon-Route53-Health-Check-Service,Amazon Route 53 Health Check Service,Load Balancer Agent,Edge Health Probe,\
    Consul Health Check,Mozilla/5.0 (compatible;Cloudflare-Healthchecks/,\
    Mozilla/5.0 (compatible; Cloudflare-Healthchecks/,Mozilla/5.0 (compatible; Cloudflare-Traffic-Manager/";

/// Header of each scrape of Prometheus, and of the agents that scrape like it: Alloy, vmagent, the
/// OpenTelemetry collector.
const SCRAPE_TIMEOUT: HeaderName = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");

/// Least number of places of a pod for requests that do not count.
const UNCOUNTED_PLACES: usize = 4;

/// Places of a pod for requests that do not count: as many as it serves at a time, but at least
/// four.
pub fn uncounted_places(limit: Option<usize>) -> usize {
    limit.map_or(usize::MAX, |limit| limit.max(UNCOUNTED_PLACES))
}

/// Whether the headers are those of a scrape.
pub fn is_scrape(headers: &HeaderMap) -> bool {
    headers.contains_key(SCRAPE_TIMEOUT)
}

/// A set of User-Agent prefixes.
#[derive(Clone, Debug)]
pub struct HealthChecks {
    prefixes: Vec<Box<[u8]>>,
    /// First bytes of all prefixes: most requests differ in the first byte already.
    first: [bool; 256],
}

// === impl HealthChecks ===

impl HealthChecks {
    /// Matches User-Agents that begin with one of `prefixes`. Empty prefixes are ignored.
    pub fn new(prefixes: &[String]) -> Self {
        let prefixes = prefixes.iter().map(|prefix| prefix.trim()).filter(|prefix| !prefix.is_empty());
        let prefixes: Vec<Box<[u8]>> = prefixes.map(|prefix| prefix.as_bytes().into()).collect();
        let mut first = [false; 256];
        for byte in prefixes.iter().filter_map(|prefix| prefix.first()) {
            if let Some(begins) = first.get_mut(usize::from(*byte)) {
                *begins = true;
            }
        }
        Self { prefixes, first }
    }

    /// Whether the headers are a health check's.
    pub fn matches(&self, headers: &HeaderMap) -> bool {
        let Some(agent) = headers.get(header::USER_AGENT).map(|agent| agent.as_bytes()) else { return false };
        let begins = agent.first().and_then(|byte| self.first.get(usize::from(*byte)));
        begins == Some(&true) && self.prefixes.iter().any(|prefix| agent.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn sent_by(checks: &HealthChecks, agent: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        checks.matches(&headers)
    }

    #[test]
    fn matches_well_known_health_checks_and_no_other_clients() {
        let prefixes: Vec<String> = WELL_KNOWN.split(',').map(str::to_owned).collect();
        let checks = HealthChecks::new(&prefixes);
        for check in [
            "kube-probe/1.37",
            "kube-probe/1.37 grpc-go/1.72.2",
            "Envoy/HC",
            "GoogleHC/1.0",
            "ELB-HealthChecker/2.0",
            "Amazon-Route53-Health-Check-Service (ref 5a2; report http://amzn.to/1vsZADi)",
            "Load Balancer Agent",
            "Edge Health Probe",
            "Consul Health Check",
            "Mozilla/5.0 (compatible;Cloudflare-Healthchecks/1.0;+https://www.cloudflare.com/)",
            "Mozilla/5.0 (compatible; Cloudflare-Traffic-Manager/1.0; +https://www.cloudflare.com/)",
        ] {
            assert!(sent_by(&checks, check), "{check}");
        }
        for client in [
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "curl/8.14.1",
            "Go-http-client/2.0",
            "grpc-go/1.72.2",
            "kube-prober/1.0",
            "Envoy",
            "",
        ] {
            assert!(!sent_by(&checks, client), "{client}");
        }
        assert!(!checks.matches(&HeaderMap::new()));
    }

    #[test]
    fn scrape_is_recognized_and_samples_that_prometheus_writes_are_load() {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("Prometheus/3.5.0"));
        assert!(!is_scrape(&headers));
        headers.insert("X-Prometheus-Scrape-Timeout-Seconds", HeaderValue::from_static("10"));
        assert!(is_scrape(&headers));
    }

    #[test]
    fn empty_prefix_matches_nothing() {
        assert!(!sent_by(&HealthChecks::new(&[String::new()]), "kube-probe/1.37"));
    }
}
