//! StatsEndpoint: `/stat` for the metrics-adapter and `/metrics` for Prometheus.
//!
//! A period ends at each whole second of the wall clock, and its [`Stat`] is stored. Reading it has
//! no effect, so several collectors get the same figures. A collector with very many pods queries
//! by UDP datagrams on the same port number instead.

use std::time::{Duration, Instant};

use autoscaler::routing::breaker::Breaker;
use autoscaler::stats::datagram::{LENGTH, StatQuery, StatResponse};
use autoscaler::stats::{RequestStatsReport, Stat};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use prometheus::Registry;
use runtime::admin::{metrics_response, text_response};
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
        counter: std::sync::Arc<RequestCounter>,
        breaker: Breaker,
        metrics: Metrics,
        registry: Registry,
    ) -> Self {
        Self { pod, last: Mutex::new(None), counter, breaker, metrics, registry }
    }

    /// Finishes a period at each whole second. Never returns.
    pub(crate) async fn report_periods(&self) {
        // The first period began with the current second, so it may end at once.
        let mut rest = rest_of_second(runtime::clock::since_epoch());
        loop {
            tokio::time::sleep(rest).await;
            // Rounded, because the sleep may end slightly before or after the second.
            let end = runtime::clock::since_epoch() + PERIOD / 2;
            let timestamp = i64::try_from(end.as_secs()).unwrap_or(i64::MAX);
            self.finish_period(tokio::time::Instant::now().into_std(), timestamp);
            rest = until_next_second(runtime::clock::since_epoch());
        }
    }

    /// Answers questions by datagrams. Never returns.
    pub(crate) async fn answer_datagrams(&self, socket: &UdpSocket) {
        // One more byte than a question has, so that a longer one is seen to be no question.
        let mut buffer = [0; LENGTH + 1];
        loop {
            match socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    let question = buffer.get(..length).and_then(StatQuery::decode);
                    if let Some(StatQuery { nonce }) = question {
                        let answer = StatResponse::encode(nonce, self.lock().as_ref().map(|last| &last.stat));
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
            (&Method::GET | &Method::HEAD, "/stat") => self.last_stat(),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                self.metrics.sample(self.counter.in_flight(), self.breaker.queued());
                metrics_response(&self.registry)
            }
            _ => text_response(StatusCode::NOT_FOUND, "not found; use GET /stat or GET /metrics\n"),
        }
    }

    fn finish_period(&self, now: Instant, timestamp: i64) {
        let stat = stat(&self.pod, self.counter.report(now), timestamp);
        match serde_json::to_vec(&stat) {
            Ok(json) => *self.lock() = Some(FinishedPeriod { stat, json: Bytes::from(json) }),
            Err(error) => tracing::error!(%error, "stat not encoded"),
        }
    }

    fn last_stat(&self) -> Response<Full<Bytes>> {
        let Some(json) = self.lock().as_ref().map(|last| last.json.clone()) else {
            return text_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "no period has ended yet; retry in a second\n",
            );
        };
        let mut response = Response::new(Full::new(json));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn lock(&self) -> MutexGuard<'_, Option<FinishedPeriod>> {
        self.last.lock()
    }
}

fn stat(pod: &str, report: RequestStatsReport, timestamp: i64) -> Stat {
    let seconds = report.period.as_secs_f64();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Stat {
        pod: pod.to_owned(),
        average_concurrent_requests: report.average_concurrency,
        average_proxied_concurrent_requests: report.average_proxied_concurrency,
        request_count: per_second(report.request_count),
        proxied_request_count: per_second(report.proxied_request_count),
        timestamp,
        app: None,
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

    async fn read(endpoint: &StatsEndpoint) -> Stat {
        let body = endpoint.last_stat().into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn returns_the_last_finished_period_on_every_read() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let start = tokio::time::Instant::now();
        let counter = Arc::new(RequestCounter::new(start.into_std(), Duration::ZERO, metrics.clone()));
        let breaker = Breaker::new(autoscaler::routing::breaker::ConcurrencyLimit::Unlimited, 0);
        let endpoint = StatsEndpoint::new("web-1".into(), counter.clone(), breaker, metrics, registry);
        assert_eq!(endpoint.last_stat().status(), StatusCode::SERVICE_UNAVAILABLE);

        let direct = counter.enter(false);
        let proxied = counter.enter(true);
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
            app: None,
        };
        assert_eq!(read(&endpoint).await, expected);
        drop(direct);
        assert_eq!(read(&endpoint).await, expected);
    }

    #[tokio::test]
    async fn responds_to_stat_datagrams_only() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let start = tokio::time::Instant::now().into_std();
        let counter = Arc::new(RequestCounter::new(start, Duration::ZERO, metrics.clone()));
        let breaker = Breaker::new(autoscaler::routing::breaker::ConcurrencyLimit::Unlimited, 0);
        let endpoint = StatsEndpoint::new("web-1".into(), counter, breaker, metrics, registry);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(socket.local_addr().unwrap()).await.unwrap();
        let query = async {
            let mut answers = Vec::new();
            for nonce in [1, 2] {
                client.send(b"hello").await.unwrap();
                client.send(&[StatQuery { nonce }.encode(), vec![0]].concat()).await.unwrap();
                client.send(&StatQuery { nonce }.encode()).await.unwrap();
                let mut buffer = [0; 100];
                let length = client.recv(&mut buffer).await.unwrap();
                answers.push(StatResponse::decode(&buffer[..length]).unwrap());
                endpoint.finish_period(start + Duration::from_secs(1), 42);
            }
            answers
        };
        let answers = tokio::select! {
            () = endpoint.answer_datagrams(&socket) => unreachable!(),
            answers = query => answers,
        };
        assert_eq!(answers[0], StatResponse { nonce: 1, stat: None });
        assert_eq!(
            answers[1],
            StatResponse { nonce: 2, stat: Some(Stat { timestamp: 42, ..Stat::default() }) }
        );
    }
}
