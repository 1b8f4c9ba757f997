//! ScrapeClient: reads one pod's stat, by datagram if the pod supports it, else by `GET /stat`.
//!
//! A pod that answers by HTTP only (a network policy allows only TCP, or its sidecar is older) is
//! cached as such, and scraped by HTTP directly for a while. HTTP connections are kept alive,
//! because the same pods are scraped again and again, up to a limit. A slow response or a large one
//! is an error.
//!
//! Each scrape sets the workload's latency objective at the pod. Any other client can set another
//! one there, so the ends of requests count as not reported if they were measured against that.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::OBJECTIVE_PARAMETER;
use autoscaler::stats::{AppStat, Stat};
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::collection::stat_datagrams::{DatagramError, StatDatagrams};

/// Timeout of one scrape. A slower pod has missed its second.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longest body accepted, in bytes. A stat has about 350.
const MAX_BODY: usize = 4096;
/// Idle connections are closed after this, or when their pod ends.
const IDLE: Duration = Duration::from_secs(15);
/// Concurrent HTTP requests. Further ones queue, within their timeout.
const MAX_REQUESTS: usize = 1024;
/// Pods with keep-alive connections; with more pods, each connection is closed after its response.
/// Every platform allows a process this many open files.
const MAX_KEPT: usize = 4096;
/// How long a pod that answered no datagram is scraped by HTTP only. Short, because a busy node
/// drops datagrams too, and HTTP costs more.
const HTTP_ONLY_TTL: Duration = Duration::from_secs(30);
/// Entries in the cache of HTTP-only pods; further pods are tried by datagram each time.
const MAX_HTTP_ONLY: usize = 1 << 17;

/// Scrapes pods. Clones share connections.
#[derive(Clone, Debug)]
pub struct ScrapeClient {
    datagrams: Option<Arc<StatDatagrams>>,
    /// Pods that answered no datagram, and when to try datagrams again.
    http_only: Arc<Mutex<HashMap<SocketAddr, Instant>>>,
    client: Client<HttpConnector, Empty<Bytes>>,
    requests: Arc<Semaphore>,
}

/// Why a pod could not be scraped.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// The pod did not respond in time.
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    /// This process is too busy to wait for the response properly.
    #[error("the metrics-adapter is overloaded; raise its CPU limit")]
    Overloaded,
    /// The pod has just started and has not completed a first period.
    #[error("the pod has not completed a reporting period yet")]
    TooYoung,
    /// An unexpected status, as of another server on that port.
    #[error("unexpected status {0}")]
    Status(StatusCode),
    /// The body was cut or too long.
    #[error("body: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The body is not a stat.
    #[error("invalid stat: {0}")]
    Json(#[from] serde_json::Error),
    /// A number is negative, not finite or out of bounds.
    #[error("the stat has implausible numbers")]
    Implausible,
    /// The URL is invalid.
    #[error(transparent)]
    Url(#[from] http::Error),
}

// === impl ScrapeClient ===

impl ScrapeClient {
    /// Without `datagrams` it uses HTTP only.
    pub fn new(datagrams: Option<Arc<StatDatagrams>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        let (http_only, requests) = (Arc::default(), Arc::new(Semaphore::new(MAX_REQUESTS)));
        Self { datagrams, http_only, client, requests }
    }

    /// Scrapes one pod at its statistics port, and sets its latency objective.
    ///
    /// # Errors
    /// When the pod does not return a plausible stat in time.
    pub async fn scrape(&self, pod: SocketAddr, objective: Option<Duration>) -> Result<Stat, ScrapeError> {
        let objective_micros = AppStat::objective_micros_of(objective);
        let mut stat = self.read(pod, objective_micros).await?;
        stat.app = stat.app.filter(|app| app.objective_micros == objective_micros);
        Ok(stat)
    }

    async fn read(&self, pod: SocketAddr, objective_micros: u64) -> Result<Stat, ScrapeError> {
        if let Some(datagrams) = self.datagrams.as_ref().filter(|_| !self.is_http_only(pod)) {
            match datagrams.query(pod, objective_micros).await {
                Ok(stat) => return plausible(stat.ok_or(ScrapeError::TooYoung)?),
                Err(DatagramError::Overloaded) => return Err(ScrapeError::Overloaded),
                Err(DatagramError::NoAnswer) => {}
            }
            let result = Box::pin(self.scrape_by_http(pod, objective_micros)).await;
            // A pod that fails both ways is gone, and its address may go to another pod.
            if result.is_ok() {
                self.cache_http_only(pod);
            }
            return result;
        }
        Box::pin(self.scrape_by_http(pod, objective_micros)).await
    }

    async fn scrape_by_http(&self, pod: SocketAddr, objective_micros: u64) -> Result<Stat, ScrapeError> {
        let got = tokio::time::timeout(TIMEOUT, self.get(pod, objective_micros)).await;
        got.unwrap_or(Err(ScrapeError::Timeout))
    }

    async fn get(&self, pod: SocketAddr, objective_micros: u64) -> Result<Stat, ScrapeError> {
        // The semaphore is never closed.
        let _permit = self.requests.acquire().await;
        let url = format!("http://{pod}/stat?{OBJECTIVE_PARAMETER}={objective_micros}");
        let mut request = Request::get(url).body(Empty::new())?;
        if self.http_only.lock().len() > MAX_KEPT {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let response = self.client.request(request).await?;
        let status = response.status();
        // Read for every status, so that the connection can be reused.
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(ScrapeError::Body)?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(ScrapeError::TooYoung);
        }
        if status != StatusCode::OK {
            return Err(ScrapeError::Status(status));
        }
        plausible(serde_json::from_slice(&body.to_bytes())?)
    }

    fn is_http_only(&self, pod: SocketAddr) -> bool {
        let mut http_only = self.http_only.lock();
        match http_only.get(&pod) {
            Some(until) if *until > Instant::now() => true,
            Some(_) => {
                http_only.remove(&pod);
                false
            }
            None => false,
        }
    }

    fn cache_http_only(&self, pod: SocketAddr) {
        let now = Instant::now();
        let mut http_only = self.http_only.lock();
        if http_only.len() >= MAX_HTTP_ONLY {
            http_only.retain(|_, until| *until > now);
        }
        if http_only.len() < MAX_HTTP_ONLY {
            http_only.insert(pod, now + HTTP_ONLY_TTL);
        }
    }
}

fn plausible(stat: Stat) -> Result<Stat, ScrapeError> {
    if stat.is_plausible() { Ok(stat) } else { Err(ScrapeError::Implausible) }
}

#[cfg(test)]
mod tests {
    use axum::extract::RawQuery;

    use super::*;

    const OBJECTIVE: Duration = Duration::from_millis(200);

    /// The app part that a scrape with the objective gets from a pod that answers so by HTTP.
    async fn scraped_app(answer: fn(u64) -> serde_json::Value) -> Option<AppStat> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let handler = axum::routing::get(async move |RawQuery(query): RawQuery| {
            let objective = query.unwrap().strip_prefix("objective-micros=").unwrap().parse().unwrap();
            axum::Json(answer(objective))
        });
        let router = axum::Router::new().route("/stat", handler);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let client = ScrapeClient::new(None);
        let stat = client.scrape(address, Some(OBJECTIVE)).await.unwrap();
        assert_eq!(stat.request_count, 5.0);
        stat.app
    }

    #[tokio::test]
    async fn app_part_counts_only_with_the_objective_of_the_workload() {
        let app = scraped_app(
            |objective| serde_json::json!({"requestCount": 5, "app": {"completions": 4, "objectiveMicros": objective}}),
        );
        let expected = AppStat { completions: 4.0, objective_micros: 200_000, ..AppStat::default() };
        assert_eq!(app.await, Some(expected));
        let app = scraped_app(
            |objective| serde_json::json!({"requestCount": 5, "app": {"completions": 4, "objectiveMicros": objective + 1}}),
        );
        assert_eq!(app.await, None, "another client's objective");
        let app = scraped_app(|_| serde_json::json!({"requestCount": 5, "app": {"completions": 4}}));
        assert_eq!(app.await, None, "no objective in force yet");
    }

    #[tokio::test]
    async fn older_sidecar_is_read_by_http_without_an_app_part() {
        assert_eq!(scraped_app(|_| serde_json::json!({"requestCount": 5})).await, None);
    }
}
