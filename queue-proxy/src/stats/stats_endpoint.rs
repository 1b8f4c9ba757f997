//! StatsEndpoint: `/stat` for the metrics-adapter and `/metrics` for Prometheus.
//!
//! A period ends at each whole second of the wall clock, and its [`Stat`] is stored. Reading it
//! does not change it, so several collectors get the same figures. A collector with very many pods
//! queries by UDP datagrams on the same port number instead.
//!
//! A query also sets the latency objective of the next period. Queries are not authenticated, so
//! any client can set it. The stat states the objective that was in force.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use autoscaler::Protocol;
use autoscaler::contract::OBJECTIVE_PARAMETER;
use autoscaler::routing::breaker::Breaker;
use autoscaler::stats::datagram::{MAX_LENGTH, StatQuery, StatResponse};
use autoscaler::stats::{AppStat, RequestStatsReport, Stat};
use bytes::Bytes;
use component_base::admin::{metrics_response, text_response};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::net::UdpSocket;

use super::metrics::Metrics;
use super::request_counter::RequestCounter;

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause after a receive error.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Reports the last finished period.
#[derive(Debug)]
pub(crate) struct StatsEndpoint {
    pod: String,
    /// `None` before the first period has ended.
    last: Mutex<Option<FinishedPeriod>>,
    /// The last objective of a query, in microseconds; 0 for none.
    objective_micros: AtomicU64,
    protocol: Protocol,
    counter: std::sync::Arc<RequestCounter>,
    breaker: Breaker,
    metrics: Metrics,
    registry: Registry,
}

#[derive(Clone, Debug)]
struct FinishedPeriod {
    stat: Stat,
    /// The stat, encoded once when the period ends.
    json: Bytes,
}

// === impl StatsEndpoint ===

impl StatsEndpoint {
    pub(crate) fn new(
        pod: String,
        protocol: Protocol,
        counter: std::sync::Arc<RequestCounter>,
        breaker: Breaker,
        metrics: Metrics,
        registry: Registry,
    ) -> Self {
        let (last, objective_micros) = (Mutex::new(None), AtomicU64::new(0));
        Self { pod, last, objective_micros, protocol, counter, breaker, metrics, registry }
    }

    /// Finishes a period at each whole second. Never returns.
    pub(crate) async fn report_periods(&self) {
        // The first period began with the current second, so it may end at once.
        let mut rest = rest_of_second(component_base::clock::since_epoch());
        loop {
            tokio::time::sleep(rest).await;
            // Rounded, because the sleep may end slightly before or after the second.
            let end = component_base::clock::since_epoch() + PERIOD / 2;
            let timestamp = i64::try_from(end.as_secs()).unwrap_or(i64::MAX);
            self.finish_period(tokio::time::Instant::now().into_std(), timestamp);
            rest = until_next_second(component_base::clock::since_epoch());
        }
    }

    /// Answers queries by datagrams. Never returns.
    pub(crate) async fn answer_datagrams(&self, socket: &UdpSocket) {
        // One more byte than a query has, so that a longer datagram is not taken for a query.
        let mut buffer = [0; MAX_LENGTH + 1];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    let question = buffer.get(..length).and_then(StatQuery::decode);
                    if let Some(question) = question {
                        self.set_objective(question.objective_micros);
                        let answer =
                            StatResponse::encode(question, self.last.lock().as_ref().map(|last| &last.stat));
                        // A response that would block is dropped; the collector retries, as after
                        // any lost datagram.
                        let _ = socket.try_send_to(&answer, from);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "datagram receive failed, retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    pub(crate) fn handle(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/stat") => {
                self.set_objective(request.uri().query().and_then(objective_parameter));
                self.last_stat()
            }
            (&Method::GET | &Method::HEAD, "/metrics") => {
                self.metrics.sample(self.counter.in_flight(), self.breaker.queued());
                metrics_response(&self.registry)
            }
            _ => text_response(StatusCode::NOT_FOUND, "not found; use GET /stat or GET /metrics\n"),
        }
    }

    fn finish_period(&self, now: Instant, timestamp: i64) {
        let objective = self.objective_micros.load(Ordering::Relaxed);
        let next = (objective > 0).then(|| Duration::from_micros(objective));
        let (requests, app) = self.counter.report(now, next);
        // A connection that is not HTTP has no responses.
        let app = (self.protocol == Protocol::Http).then_some(app);
        let stat = stat(&self.pod, requests, app, timestamp);
        match serde_json::to_vec(&stat) {
            Ok(json) => *self.last.lock() = Some(FinishedPeriod { stat, json: Bytes::from(json) }),
            Err(error) => tracing::error!(%error, "stat not encoded"),
        }
    }

    fn set_objective(&self, micros: Option<u64>) {
        if let Some(micros) = micros {
            self.objective_micros.store(micros, Ordering::Relaxed);
        }
    }

    fn last_stat(&self) -> Response<Full<Bytes>> {
        let Some(json) = self.last.lock().as_ref().map(|last| last.json.clone()) else {
            return text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "no period has ended yet; retry in a second\n",
            );
        };
        let mut response = Response::new(Full::new(json));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

fn objective_parameter(query: &str) -> Option<u64> {
    let value = |pair: &str| pair.strip_prefix(OBJECTIVE_PARAMETER)?.strip_prefix('=')?.parse().ok();
    query.split('&').find_map(value)
}

fn stat(pod: &str, report: RequestStatsReport, app: Option<AppStat>, timestamp: i64) -> Stat {
    let seconds = report.period.as_secs_f64();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Stat {
        pod: pod.to_owned(),
        average_concurrent_requests: report.average_concurrency,
        average_proxied_concurrent_requests: report.average_proxied_concurrency,
        request_count: per_second(report.request_count),
        proxied_request_count: per_second(report.proxied_request_count),
        timestamp,
        app,
    }
}

fn rest_of_second(wall: Duration) -> Duration {
    PERIOD.saturating_sub(Duration::from_nanos(u64::from(wall.subsec_nanos())))
}

/// At least half a period. A sleep that ends just before the second would otherwise be followed by
/// an empty period.
fn until_next_second(wall: Duration) -> Duration {
    let rest = rest_of_second(wall);
    if rest < PERIOD / 2 { rest + PERIOD } else { rest }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn ends_periods_on_whole_seconds() {
        for (wall_ms, expected_ms) in [(5_000, 1000), (5_400, 600), (5_999, 1001), (5_001, 999)] {
            assert_eq!(until_next_second(Duration::from_millis(wall_ms)), Duration::from_millis(expected_ms));
        }
    }

    /// An endpoint of an app with this protocol, its counter, and the start of its first period.
    fn endpoint(protocol: Protocol) -> (StatsEndpoint, Arc<RequestCounter>, tokio::time::Instant) {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let start = tokio::time::Instant::now();
        let counter = Arc::new(RequestCounter::new(start.into_std(), Duration::ZERO, metrics.clone()));
        let breaker = Breaker::new(autoscaler::routing::breaker::ConcurrencyLimit::Unlimited, 0);
        let parts = (counter.clone(), breaker, metrics, registry);
        let endpoint = StatsEndpoint::new("web-1".into(), protocol, parts.0, parts.1, parts.2, parts.3);
        (endpoint, counter, start)
    }

    async fn read(endpoint: &StatsEndpoint) -> Stat {
        let body = endpoint.last_stat().into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn returns_the_last_finished_period_on_every_read() {
        let (endpoint, counter, start) = endpoint(Protocol::Http);
        assert_eq!(endpoint.last_stat().status(), StatusCode::SERVICE_UNAVAILABLE);

        let direct = counter.enter(false);
        let mut proxied = counter.enter(true);
        proxied.enter_app(proxied.arrived());
        tokio::time::advance(Duration::from_millis(500)).await;
        drop(proxied);
        tokio::time::advance(Duration::from_millis(1500)).await;
        endpoint.finish_period((start + Duration::from_secs(2)).into_std(), 42);
        let expected = Stat {
            pod: "web-1".into(),
            average_concurrent_requests: 1.25,
            average_proxied_concurrent_requests: 0.25,
            request_count: 1.0,
            proxied_request_count: 0.5,
            timestamp: 42,
            app: Some(AppStat { completions: 0.5, seconds: 0.25, ..AppStat::default() }),
        };
        assert_eq!(read(&endpoint).await, expected);
        drop(direct);
        assert_eq!(read(&endpoint).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn objective_of_the_last_query_holds_from_the_next_period_on() {
        let (endpoint, _, start) = endpoint(Protocol::Http);
        let mut objectives = Vec::new();
        for (second, query) in [Some(5), None, Some(7), Some(0), None].into_iter().enumerate() {
            endpoint.set_objective(query);
            let end = start + Duration::from_secs(1 + second as u64);
            endpoint.finish_period(end.into_std(), 42);
            objectives.push(read(&endpoint).await.app.unwrap().objective_micros);
        }
        assert_eq!(objectives, [0, 5, 5, 7, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn stat_of_tcp_connections_has_no_app_part() {
        let (endpoint, counter, start) = endpoint(Protocol::Tcp);
        drop(counter.enter_connection(false));
        endpoint.finish_period((start + PERIOD).into_std(), 42);
        let stat = read(&endpoint).await;
        assert_eq!((stat.request_count, stat.app), (1.0, None));
    }

    #[test]
    fn reads_the_objective_of_a_url_query() {
        for (query, expected) in [
            ("objective-micros=200000", Some(200_000)),
            ("a=b&objective-micros=0", Some(0)),
            ("objective-micros=-1", None),
            ("objective-micros", None),
            ("objective-microseconds=5", None),
            ("", None),
        ] {
            assert_eq!(objective_parameter(query), expected, "{query}");
        }
    }

    #[tokio::test]
    async fn responds_to_stat_datagrams_only() {
        let (endpoint, _, start) = endpoint(Protocol::Http);
        let start = start.into_std();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(socket.local_addr().unwrap()).await.unwrap();
        let send = async |objective_micros| {
            let query = StatQuery { nonce: 7, objective_micros };
            client.send(b"hello").await.unwrap();
            client.send(&[query.encode(), vec![0]].concat()).await.unwrap();
            client.send(&query.encode()).await.unwrap();
            let mut buffer = [0; 2 * MAX_LENGTH];
            let length = client.recv(&mut buffer).await.unwrap();
            let answer = StatResponse::decode(&buffer[..length]).unwrap();
            assert_eq!((length, answer.nonce), (query.encode().len(), 7));
            answer.stat
        };
        let query = async {
            let mut stats = Vec::new();
            for (seconds, objective_micros) in [None, Some(9), None, Some(9)].into_iter().enumerate() {
                stats.push(send(objective_micros).await);
                endpoint.finish_period(start + Duration::from_secs(1 + seconds as u64), 42);
            }
            stats
        };
        let stats = tokio::select! {
            () = endpoint.answer_datagrams(&socket) => unreachable!(),
            stats = query => stats,
        };
        let stat = Stat { timestamp: 42, ..Stat::default() };
        let with_app = |objective_micros| {
            let app = AppStat { objective_micros, ..AppStat::default() };
            Some(Stat { app: Some(app), ..stat.clone() })
        };
        // Periods 0 and 1 had no objective; the query at the end of period 1 set the objective of
        // period 2.
        assert_eq!(stats, [None, with_app(0), Some(stat.clone()), with_app(9)]);
    }
}
