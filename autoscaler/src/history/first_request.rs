//! FirstRequest: a request that ended a second without requests, which is what wakes a workload or
//! keeps it above zero.
//!
//! Activators report them, and the metrics-adapter keeps the last few clients of each workload for
//! `why`. A sidecar keeps those of requests straight to its pod, for its log. A path may have
//! secrets in its query, so the query is left out.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Longest text of a client that is kept, in bytes.
const MAX_TEXT: usize = 64;
/// Clients of one workload.
const MAX_CLIENTS: usize = 4;
/// A client that was away for longer begins anew, in milliseconds.
const FORGOTTEN_MS: i64 = 3_600_000;

/// A request, or a connection without HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstRequest {
    /// The address that the activator sees: of a proxy, if the client is behind one.
    pub client: IpAddr,
    /// The user agent; empty without one.
    #[serde(default)]
    pub agent: ClientText,
    /// Method and path; empty without HTTP.
    #[serde(default)]
    pub target: ClientText,
}

/// Text of a client: of visible ASCII, and bounded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String")]
pub struct ClientText(Box<str>);

/// The last few clients of first requests of one workload.
#[derive(Clone, Debug, Default)]
pub struct FirstRequests(Vec<ClientVisits>);

/// The first requests of one client with one user agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientVisits {
    /// The last one.
    pub request: FirstRequest,
    pub count: u32,
    /// Unix milliseconds of the first one.
    first: i64,
    /// Unix milliseconds of the last one.
    pub last: i64,
}

// === impl FirstRequest ===

impl FirstRequest {
    /// A connection of this client.
    pub fn of_connection(client: IpAddr) -> Self {
        Self { client, agent: ClientText::default(), target: ClientText::default() }
    }

    /// A request with this method, path and user agent.
    pub fn of_http(client: IpAddr, method: &str, path: &str, agent: Option<&[u8]>) -> Self {
        let agent = ClientText::new(agent.unwrap_or_default());
        Self { client, agent, target: ClientText::new(format!("{method} {path}").as_bytes()) }
    }

    fn is_of_client(&self, other: &Self) -> bool {
        self.client == other.client && self.agent == other.agent
    }
}

// === impl ClientText ===

impl ClientText {
    fn new(text: &[u8]) -> Self {
        let visible = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' };
        Self(text.iter().take(MAX_TEXT).map(visible).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for ClientText {
    fn from(text: String) -> Self {
        Self::new(text.as_bytes())
    }
}

// === impl FirstRequests ===

impl FirstRequests {
    /// Records a request at `now`, in Unix milliseconds. Returns all of its client.
    pub fn record(&mut self, request: FirstRequest, now: i64) -> ClientVisits {
        self.0.retain(|visits| visits.is_recent(now));
        let before = self.0.iter().position(|visits| visits.request.is_of_client(&request));
        let before = before.map(|index| self.0.swap_remove(index));
        if self.0.len() >= MAX_CLIENTS {
            let oldest = self.0.iter().enumerate().min_by_key(|(_, visits)| visits.last);
            oldest.map(|(index, _)| index).map(|index| self.0.swap_remove(index));
        }
        let visits = ClientVisits {
            request,
            count: before.as_ref().map_or(0, |before| before.count).saturating_add(1),
            first: before.as_ref().map_or(now, |before| before.first),
            last: before.map_or(now, |before| before.last.max(now)),
        };
        self.0.push(visits.clone());
        visits
    }

    /// The clients of the last hour, the most frequent first.
    pub fn clients(&self, now: i64) -> Vec<ClientVisits> {
        let mut clients: Vec<_> = self.0.iter().filter(|visits| visits.is_recent(now)).cloned().collect();
        clients.sort_by_key(|visits| std::cmp::Reverse((visits.count, visits.last)));
        clients
    }
}

// === impl ClientVisits ===

impl ClientVisits {
    /// Milliseconds between two of them on average; `None` of one alone.
    pub fn interval(&self) -> Option<i64> {
        let gaps = i64::from(self.count) - 1;
        (gaps > 0).then(|| self.last.saturating_sub(self.first) / gaps)
    }

    fn is_recent(&self, now: i64) -> bool {
        now.saturating_sub(self.last) <= FORGOTTEN_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(host: u8, agent: &str) -> FirstRequest {
        FirstRequest::of_http(IpAddr::from([10, 1, 2, host]), "GET", "/metrics", Some(agent.as_bytes()))
    }

    #[test]
    fn scraper_stays_named_with_its_interval_among_many_other_clients() {
        let mut requests = FirstRequests::default();
        for visit in 0..20_i64 {
            requests.record(request(3, "Prometheus/3.5.0"), visit * 30_000);
            let others = (10..12).map(|other| request(other + visit as u8 * 2, "Mozilla/5.0"));
            others.for_each(|other| drop(requests.record(other, visit * 30_000 + 10_000)));
        }
        let clients = requests.clients(600_000);
        assert_eq!(clients.len(), MAX_CLIENTS);
        assert_eq!(clients[0].request, request(3, "Prometheus/3.5.0"));
        assert_eq!((clients[0].count, clients[0].interval()), (20, Some(30_000)));
        assert_eq!(clients[1].interval(), None);
        assert_eq!(requests.clients(600_000 + FORGOTTEN_MS), []);
        requests.record(request(3, "Prometheus/3.5.0"), 600_000 + FORGOTTEN_MS);
        assert_eq!(requests.clients(600_000 + FORGOTTEN_MS)[0].count, 1, "a new series after a pause");
    }

    #[test]
    fn hostile_text_is_visible_ascii_and_bounded_also_when_received() {
        let agent = ["a\u{1b}[2J\nb\u{e9}", &"x".repeat(10_000)].concat();
        let sent = request(3, &agent);
        assert!(sent.agent.as_str().starts_with("a?[2J?b??xx"), "{sent:?}");
        assert_eq!(sent.agent.as_str().len(), MAX_TEXT);
        let json = serde_json::json!({"client": "10.1.2.3", "agent": agent, "target": "GET /metrics"});
        assert_eq!(serde_json::from_value::<FirstRequest>(json).unwrap(), sent);
    }

    #[test]
    fn clock_that_was_set_back_or_jumps_leaves_the_bound() {
        let mut requests = FirstRequests::default();
        for now in [i64::MAX, i64::MIN, 0, 1, -1] {
            (0..9).for_each(|host| drop(requests.record(request(host, ""), now)));
            assert!(requests.clients(now).len() <= MAX_CLIENTS);
        }
    }
}
