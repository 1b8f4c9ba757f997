//! ScrapeClient: one look at one pod's stat, by a datagram if the pod answers those, else by a GET of `/stat`.
//!
//! A pod that answers by HTTP alone (a policy lets only TCP through, its sidecar is older) is remembered, and asked so at once the
//! next time. Connections are kept alive, because the same pods are read again and again, unless there would be too
//! many of them. A pod that is slow or says too much is not heard.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::Stat;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::stat_datagrams::{StatDatagrams, Unheard};

/// Time for one pod to answer. A pod that needs longer has missed its second.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A Stat is some 250 bytes.
const MAX_BODY: usize = 4096;
/// Idle connections end with their pod or after this.
const IDLE: Duration = Duration::from_secs(15);
/// Requests under way at a time; others wait for a place, within their time.
const MAX_REQUESTS: usize = 1024;
/// Pods to which connections are kept; with more, each is closed after its answer. A process may have so many files open
/// everywhere.
const MAX_KEPT: usize = 4096;
/// How long a pod that answers no datagrams is not sent any. Short, because a busy machine loses some, too, and HTTP costs more.
const SILENT: Duration = Duration::from_secs(30);
/// Pods of which that is remembered; of others it is found out each time.
const MAX_SILENT: usize = 1 << 17;

/// Reads pods. Clones share connections.
#[derive(Clone, Debug)]
pub struct ScrapeClient {
    datagrams: Option<Arc<StatDatagrams>>,
    /// The pods that answer no datagrams, and until when that is believed.
    silent: Arc<Mutex<HashMap<IpAddr, Instant>>>,
    client: Client<HttpConnector, Empty<Bytes>>,
    requests: Arc<Semaphore>,
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
    /// It was not waited for as it should: this process has more to do than it can.
    #[error("this process is behind; it needs more CPU time")]
    Behind,
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

impl ScrapeClient {
    /// A client that reads pods on this port, by datagrams as well if it is given the means.
    pub fn new(port: u16, datagrams: Option<Arc<StatDatagrams>>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        let (silent, requests) = (Arc::default(), Arc::new(Semaphore::new(MAX_REQUESTS)));
        Self { datagrams, silent, client, requests, port }
    }

    /// Reads one pod.
    ///
    /// # Errors
    /// When it does not answer with a plausible Stat in time.
    pub async fn scrape(&self, ip: IpAddr) -> Result<Stat, ScrapeError> {
        if let Some(datagrams) = self.datagrams.as_ref().filter(|_| !self.is_silent(ip)) {
            match datagrams.ask(ip).await {
                Ok(told) => return plausible(told.ok_or(ScrapeError::TooYoung)?),
                Err(Unheard::Behind) => return Err(ScrapeError::Behind),
                Err(Unheard::Silent) => {}
            }
            let answer = Box::pin(self.scrape_by_http(ip)).await;
            // Whoever answers neither is gone, and may come back as somebody else.
            if answer.is_ok() {
                self.note_silence(ip);
            }
            return answer;
        }
        Box::pin(self.scrape_by_http(ip)).await
    }

    async fn scrape_by_http(&self, ip: IpAddr) -> Result<Stat, ScrapeError> {
        tokio::time::timeout(TIMEOUT, self.get(ip)).await.unwrap_or(Err(ScrapeError::Timeout))
    }

    async fn get(&self, ip: IpAddr) -> Result<Stat, ScrapeError> {
        // The semaphore is never closed.
        let _place = self.requests.acquire().await;
        let url = format!("http://{}/stat", SocketAddr::new(ip, self.port));
        let mut request = Request::get(url).body(Empty::new())?;
        if self.lock().len() > MAX_KEPT {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        let response = self.client.request(request).await?;
        let status = response.status();
        // Read in any case, so that the connection can be used again.
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await.map_err(ScrapeError::Body)?;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            return Err(ScrapeError::TooYoung);
        }
        if status != StatusCode::OK {
            return Err(ScrapeError::Status(status));
        }
        plausible(serde_json::from_slice(&body.to_bytes())?)
    }

    fn is_silent(&self, ip: IpAddr) -> bool {
        let mut silent = self.lock();
        match silent.get(&ip) {
            Some(until) if *until > Instant::now() => true,
            Some(_) => {
                silent.remove(&ip);
                false
            }
            None => false,
        }
    }

    fn note_silence(&self, ip: IpAddr) {
        let now = Instant::now();
        let mut silent = self.lock();
        if silent.len() >= MAX_SILENT {
            silent.retain(|_, until| *until > now);
        }
        if silent.len() < MAX_SILENT {
            silent.insert(ip, now + SILENT);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Instant>> {
        self.silent.lock()
    }
}

fn plausible(stat: Stat) -> Result<Stat, ScrapeError> {
    if stat.is_plausible() { Ok(stat) } else { Err(ScrapeError::Implausible) }
}
