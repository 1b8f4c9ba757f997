//! The clients that wake a workload or keep it awake, as `why` shows them.

use std::fmt::Write as _;

use autoscaler::history::ClientVisits;
use serde_json::{Value, json};

use super::utc::time;

/// A line for each client, and the setting by which its requests no longer count. A client with an
/// interval of at most `window_ms` keeps the workload awake.
pub(super) fn text(clients: &[ClientVisits], window_ms: i64, now: i64) -> String {
    let mut text = String::new();
    for visits in clients {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", line(visits, window_ms, now));
    }
    if let Some(visits) = clients.first().filter(|visits| visits.count > 1) {
        let _ = writeln!(text, "{}", fix(visits));
    }
    text
}

pub(super) fn json(clients: &[ClientVisits]) -> Value {
    let client = |visits: &ClientVisits| {
        let request = &visits.request;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        json!({
            "client": request.client,
            "userAgent": given(request.agent.as_str()),
            "request": given(request.target.as_str()),
            "count": visits.count,
            "intervalSeconds": visits.interval().map(seconds),
            "last": time(visits.last),
        })
    };
    clients.iter().map(client).collect()
}

fn line(visits: &ClientVisits, window_ms: i64, now: i64) -> String {
    let request = &visits.request;
    let (agent, target) = (request.agent.as_str(), request.target.as_str());
    let sender = match (agent, target) {
        ("", "") => "a connection".to_owned(),
        ("", _) => "a request without a user agent".to_owned(),
        // Quoted, because a client chooses it.
        _ => format!("{agent:?}"),
    };
    let target = if target.is_empty() { String::new() } else { format!("{target:?}, ") };
    let ago = seconds(now.saturating_sub(visits.last).max(0));
    let interval = visits.interval();
    let effect = if interval.is_some_and(|ms| ms <= window_ms) { "kept awake by" } else { "woken by" };
    let each = interval.map(|ms| format!(", each {} s", seconds(ms))).unwrap_or_default();
    let times = if visits.count == 1 { "once".to_owned() } else { format!("{} times", visits.count) };
    format!("{effect} {sender} from {}{each} ({target}{times}, {ago} s ago)", request.client)
}

fn fix(visits: &ClientVisits) -> String {
    let (agent, target) = (visits.request.agent.as_str(), visits.request.target.as_str());
    if target.is_empty() {
        return "  if that is a check of a port: let it check nodes by HTTP instead (docs/howto/requests-at-zero.md)"
            .to_owned();
    }
    // All browsers have this product, and users have browsers.
    let product = agent.split_once('/').map(|(product, _)| product);
    let rule = match product.filter(|product| *product != "Mozilla" && !product.contains(',')) {
        Some(product) => format!("User-Agent: {product}/*"),
        None => target.to_owned(),
    };
    format!("  if that is not a user: annotation autoscaling.rouse.dev/no-wake: {rule:?}")
}

/// Rounded.
fn seconds(millis: i64) -> i64 {
    millis.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use autoscaler::history::{FirstRequest, FirstRequests};

    use super::*;

    /// The clients of requests at these seconds.
    fn clients(requests: &[(&FirstRequest, i64)]) -> Vec<ClientVisits> {
        let mut all = FirstRequests::default();
        requests.iter().for_each(|(request, second)| drop(all.record((*request).clone(), second * 1000)));
        all.clients(100_000)
    }

    fn of(path: &str, agent: &str) -> FirstRequest {
        FirstRequest::of_http([10, 1, 2, 3].into(), "GET", path, Some(agent.as_bytes()))
    }

    #[test]
    fn names_the_scraper_its_interval_and_the_rule_that_ends_it() {
        let (scrape, user) = (of("/metrics", "Prometheus/3.5.0"), of("/", "Mozilla/5.0 (X11)"));
        let clients = clients(&[(&scrape, 0), (&user, 20), (&scrape, 30), (&scrape, 60), (&scrape, 90)]);
        let expected = "\
            kept awake by \"Prometheus/3.5.0\" from 10.1.2.3, each 30 s (\"GET /metrics\", 4 times, 10 s ago)\n\
            woken by \"Mozilla/5.0 (X11)\" from 10.1.2.3 (\"GET /\", once, 80 s ago)\n  \
            if that is not a user: annotation autoscaling.rouse.dev/no-wake: \"User-Agent: Prometheus/*\"\n";
        assert_eq!(text(&clients, 60_000, 100_000), expected);
        let client = &json(&clients)[0];
        assert_eq!(
            (&client["userAgent"], &client["intervalSeconds"]),
            (&json!("Prometheus/3.5.0"), &json!(30))
        );
        assert_eq!(
            (&client["client"], &client["last"]),
            (&json!("10.1.2.3"), &json!("1970-01-01T00:01:30Z"))
        );
    }

    #[test]
    fn rule_for_a_browser_is_its_path_and_a_rare_client_wakes() {
        let page = of("/status", "Mozilla/5.0 (compatible; Monitor/2)");
        let shown = text(&clients(&[(&page, 0), (&page, 90)]), 60_000, 100_000);
        assert!(shown.starts_with("woken by"), "{shown}");
        assert!(shown.ends_with("no-wake: \"GET /status\"\n"), "{shown}");
    }

    #[test]
    fn connection_without_http_and_hostile_agent_have_one_line_each() {
        let connection = FirstRequest::of_connection([10, 1, 2, 3].into());
        let shown = text(&clients(&[(&connection, 0), (&connection, 10)]), 60_000, 100_000);
        assert!(shown.starts_with("kept awake by a connection from 10.1.2.3, each 10 s (2 times"), "{shown}");
        let forged = of("/", "x\" from 10.9.9.9\n\u{1b}[2J");
        let shown = text(&clients(&[(&forged, 0)]), 60_000, 100_000);
        assert!(shown.starts_with("woken by \"x\\\" from 10.9.9.9??[2J\" from 10.1.2.3 ("), "{shown}");
        assert_eq!(shown.lines().count(), 1);
        assert_eq!(text(&[], 60_000, 100_000), "");
    }
}
