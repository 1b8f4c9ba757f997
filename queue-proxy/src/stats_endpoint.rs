//! `/stat`: what the collector reads, and `/metrics`: what Prometheus reads.
//!
//! The reporter finishes a period at each whole second of the wall clock and keeps its [`Stat`]. Reading returns that and
//! changes nothing, so several collectors see the same numbers, and one that asks twice is not told zero. A collector that reads very
//! many pods asks by a datagram instead, on the same port of UDP.

use std::time::{Duration, Instant};

use autoscaler::breaker::Breaker;
use autoscaler::stats::datagram::{Answer, LENGTH, Question};
use autoscaler::stats::{Report, Stat};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use prometheus::Registry;
use runtime::admin::{metrics_response, text_response};
use tokio::net::UdpSocket;

use crate::metrics::Metrics;
use crate::request_counter::RequestCounter;

/// Length of a period.
const PERIOD: Duration = Duration::from_secs(1);
/// Wait after a socket failed.
const RETRY: Duration = Duration::from_millis(50);

/// The last finished period, and what it takes to answer for the process.
#[derive(Debug)]
pub(crate) struct StatsEndpoint {
    pod: String,
    /// None before the first period has ended.
    last: Mutex<Option<Last>>,
    counter: std::sync::Arc<RequestCounter>,
    breaker: Breaker,
    metrics: Metrics,
    registry: Registry,
}

/// The last finished period.
#[derive(Clone, Debug)]
struct Last {
    stat: Stat,
    /// Encoded once, when the period ends.
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
        // The first one may be over at once: it began with its second, before the process did.
        let mut rest = rest_of_second(runtime::clock::since_epoch());
        loop {
            tokio::time::sleep(rest).await;
            // Rounded, since the sleep may end on either side of the second.
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
                    let question = buffer.get(..length).and_then(Question::decode);
                    if let Some(Question { nonce }) = question {
                        let answer = Answer::encode(nonce, self.lock().as_ref().map(|last| &last.stat));
                        // An answer that cannot leave at once is lost, as any datagram may be.
                        let _ = socket.try_send_to(&answer, from);
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "no datagram");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    pub(crate) fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/stat") => self.last_stat(),
            (&Method::GET | &Method::HEAD, "/metrics") => {
                self.metrics.sample(self.counter.in_flight(), self.breaker.queued());
                metrics_response(&self.registry)
            }
            _ => text_response(StatusCode::NOT_FOUND, "there are GET /stat and GET /metrics\n"),
        }
    }

    fn finish_period(&self, now: Instant, timestamp: i64) {
        let stat = stat(&self.pod, self.counter.report(now), timestamp);
        match serde_json::to_vec(&stat) {
            Ok(json) => *self.lock() = Some(Last { stat, json: Bytes::from(json) }),
            Err(error) => tracing::error!(%error, "a stat has no JSON form"),
        }
    }

    fn last_stat(&self) -> Response<Full<Bytes>> {
        let Some(json) = self.lock().as_ref().map(|last| last.json.clone()) else {
            return text_response(StatusCode::SERVICE_UNAVAILABLE, "the first period has not ended\n");
        };
        let mut response = Response::new(Full::new(json));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.last.lock()
    }
}

fn stat(pod: &str, report: Report, timestamp: i64) -> Stat {
    let seconds = report.period.as_secs_f64();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Stat {
        pod: pod.to_owned(),
        average_concurrent_requests: report.average_concurrency,
        average_proxied_concurrent_requests: report.average_proxied_concurrency,
        request_count: per_second(report.request_count),
        proxied_request_count: per_second(report.proxied_request_count),
        timestamp,
    }
}

fn rest_of_second(wall: Duration) -> Duration {
    PERIOD.saturating_sub(Duration::from_nanos(u64::from(wall.subsec_nanos())))
}

/// At least half a period, lest a sleep that ends just before the second makes a period of nothing.
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
    fn periods_end_on_whole_seconds() {
        for (wall_ms, expected_ms) in [(5_000, 1000), (5_400, 600), (5_999, 1001), (5_001, 999)] {
            assert_eq!(until_next_second(Duration::from_millis(wall_ms)), Duration::from_millis(expected_ms));
        }
    }

    async fn read(endpoint: &StatsEndpoint) -> Stat {
        let body = endpoint.last_stat().into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_stat_is_of_the_last_finished_period_and_reading_does_not_reset_it() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let start = tokio::time::Instant::now();
        let counter = Arc::new(RequestCounter::new(start.into_std(), Duration::ZERO, metrics.clone()));
        let breaker = Breaker::new(autoscaler::breaker::Limit::Unlimited, 0);
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
        };
        assert_eq!(read(&endpoint).await, expected);
        drop(direct);
        assert_eq!(read(&endpoint).await, expected);
    }

    #[tokio::test]
    async fn a_question_by_datagram_is_answered_and_nothing_else_is() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        let start = tokio::time::Instant::now().into_std();
        let counter = Arc::new(RequestCounter::new(start, Duration::ZERO, metrics.clone()));
        let breaker = Breaker::new(autoscaler::breaker::Limit::Unlimited, 0);
        let endpoint = StatsEndpoint::new("web-1".into(), counter, breaker, metrics, registry);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let caller = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        caller.connect(socket.local_addr().unwrap()).await.unwrap();
        let ask = async {
            let mut answers = Vec::new();
            for nonce in [1, 2] {
                caller.send(b"hello").await.unwrap();
                caller.send(&[Question { nonce }.encode(), vec![0]].concat()).await.unwrap();
                caller.send(&Question { nonce }.encode()).await.unwrap();
                let mut buffer = [0; 100];
                let length = caller.recv(&mut buffer).await.unwrap();
                answers.push(Answer::decode(&buffer[..length]).unwrap());
                endpoint.finish_period(start + Duration::from_secs(1), 42);
            }
            answers
        };
        let answers = tokio::select! {
            () = endpoint.answer_datagrams(&socket) => unreachable!(),
            answers = ask => answers,
        };
        assert_eq!(answers[0], Answer { nonce: 1, stat: None });
        assert_eq!(answers[1], Answer { nonce: 2, stat: Some(Stat { timestamp: 42, ..Stat::default() }) });
    }
}
