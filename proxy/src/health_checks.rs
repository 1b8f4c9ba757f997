//! HealthChecks: who asks only whether the app is alive, by the user agent.
//!
//! The probes of kubelets, meshes and load balancers come all day long. They are no load: counted, they would keep a
//! workload awake that nobody uses, or wake it; queued, they would call an app dead that is only busy. So both proxies let
//! them pass beside the limit and the count, and the activator answers them itself while the workload sleeps. A user agent
//! can be forged, and then gains no more than that: whoever is no friend of its app's callers should not reach the pod.

use http::header::{self, HeaderMap};

/// How the user agents of well-known health checks begin.
pub const WELL_KNOWN: &str = "kube-probe/,Envoy/HC,GoogleHC/,ELB-HealthChecker/,\
    Amazon-Route53-Health-Check-Service,Amazon Route 53 Health Check Service,Load Balancer Agent,Edge Health Probe,\
    Consul Health Check,Mozilla/5.0 (compatible;Cloudflare-Healthchecks/,\
    Mozilla/5.0 (compatible; Cloudflare-Healthchecks/,Mozilla/5.0 (compatible; Cloudflare-Traffic-Manager/";

/// A set of user agents.
#[derive(Clone, Debug)]
pub struct HealthChecks {
    prefixes: Vec<Box<[u8]>>,
    /// Bytes with which one of them begins: most requests differ in the first one already.
    first: [bool; 256],
}

// === impl HealthChecks ===

impl HealthChecks {
    /// Those whose user agent begins with one of `prefixes`. An empty one stands for nobody.
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

    /// Whether such a one sent a request with these headers.
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
    fn well_known_health_checks_are_known_and_callers_are_not_taken_for_one() {
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
        for caller in [
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
            "curl/8.14.1",
            "Go-http-client/2.0",
            "grpc-go/1.72.2",
            "kube-prober/1.0",
            "Envoy",
            "",
        ] {
            assert!(!sent_by(&checks, caller), "{caller}");
        }
        assert!(!checks.matches(&HeaderMap::new()));
    }

    #[test]
    fn nobody_is_one_if_told_so() {
        assert!(!sent_by(&HealthChecks::new(&[String::new()]), "kube-probe/1.37"));
    }
}
