//! ScrapeClient: one GET of one pod's `/stat`.
//!
//! Connections are kept alive, because the same pods are read every second. A pod that is slow or says too much is not heard.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use autoscaler::contract::QUEUE_PROXY_STATS_PORT;
use autoscaler::stats::Stat;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Time for one pod to answer. A pod that needs longer has missed its second.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A Stat is some 250 bytes.
const MAX_BODY: usize = 4096;
/// Idle connections end with their pod or after this.
const IDLE: Duration = Duration::from_secs(15);

/// Reads pods. Clones share connections.
#[derive(Clone, Debug)]
pub struct ScrapeClient {
    client: Client<HttpConnector, Empty<Bytes>>,
    port: u16,
}

/// Why a pod was not heard.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// No connection, or it broke.
    #[error(transparent)]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// No answer in time.
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
    /// It has just started: its first period is not over.
    #[error("no period has ended yet")]
    TooYoung,
    /// Something else answers on that port.
    #[error("status {0}")]
    Status(StatusCode),
    /// The body broke or was too long.
    #[error("body: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// Not a Stat.
    #[error("not a stat: {0}")]
    Json(#[from] serde_json::Error),
    /// Numbers that cannot be.
    #[error("implausible numbers")]
    Implausible,
    /// The address makes no URL.
    #[error(transparent)]
    Url(#[from] http::Error),
}

// === impl ScrapeClient ===

impl Default for ScrapeClient {
    fn default() -> Self {
        Self::on_port(QUEUE_PROXY_STATS_PORT)
    }
}

impl ScrapeClient {
    /// A client that reads pods on this port.
    pub fn on_port(port: u16) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Self { client, port }
    }

    /// Reads one pod.
    ///
    /// # Errors
    /// When it does not answer with a plausible Stat in time.
    pub async fn scrape(&self, ip: IpAddr) -> Result<Stat, ScrapeError> {
        tokio::time::timeout(TIMEOUT, self.get(ip)).await.unwrap_or(Err(ScrapeError::Timeout))
    }

    async fn get(&self, ip: IpAddr) -> Result<Stat, ScrapeError> {
        let url = format!("http://{}/stat", SocketAddr::new(ip, self.port));
        let response = self.client.request(Request::get(url).body(Empty::new())?).await?;
        let status = response.status();
        // Read in any case, so that the connection can be used again.
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(ScrapeError::Body)?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(ScrapeError::TooYoung);
        }
        if status != StatusCode::OK {
            return Err(ScrapeError::Status(status));
        }
        let stat: Stat = serde_json::from_slice(&body.to_bytes())?;
        if stat.is_plausible() { Ok(stat) } else { Err(ScrapeError::Implausible) }
    }
}
