//! LeaderForwarder: a follower forwards metric queries to the leader and returns its responses.
//!
//! ```text
//! HPA ─► follower: authenticate, authorize ─► stats port of the leader ─► the leader's response
//! ```
//!
//! Two replicas sample the same load differently. An HPA that read from both in turn would follow
//! the difference, so a follower serves no values of its own. The Lease holds the leader's address.
//! If the leader does not respond, the query fails, and the HPA keeps the current size.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::FORWARD_PATH;
use autoscaler::contract::version_skew::{HELLO_HEADER, NewerVersion, QUERIES};
use bytes::Bytes;
use component_base::auth::{ProjectedToken, TokenError};
use component_base::kubernetes::lease::Leadership;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

/// Timeout of a forwarded query. The leader reads memory only, and the HPA's few workers wait for
/// it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of connecting. A lost node does not respond at all.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a query waits for the next leader. A clean handover takes milliseconds. After a crash,
/// the lease takes longer to expire, and the query fails.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest body accepted, in bytes. The history of a workload has about 15 KiB, the present state
/// of ten thousand workloads 2 MiB.
const MAX_BODY: usize = 8 * 1024 * 1024;
/// Idle connections are closed after this.
const IDLE: Duration = Duration::from_secs(60);
/// Idle connections kept to the leader.
const MAX_IDLE: usize = 8;

/// Locates the leader and forwards queries to it.
#[derive(Clone, Debug)]
pub struct LeaderForwarder {
    /// Of this pod, for the hello.
    name: String,
    leadership: Leadership,
    token: ProjectedToken,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// The replica that serves values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaderLocation {
    /// This replica.
    Local,
    /// Another replica, with the address of its stats port.
    Remote(SocketAddr),
    /// No replica is the leader.
    Unelected,
}

/// The leader's response.
#[derive(Debug)]
pub struct ForwardedResponse {
    pub status: StatusCode,
    pub content_type: HeaderValue,
    pub body: Bytes,
}

/// Why a query could not be forwarded.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// The leader did not respond in time.
    #[error("no response within {TIMEOUT:?}")]
    Timeout,
    /// The body was cut or too long.
    #[error("body: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The path makes no valid request.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// The leader is of a later version.
    #[error(transparent)]
    Version(#[from] NewerVersion),
    /// The token file cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The holder identity of a process in the Lease: it contains the address of its stats port.
///
/// `started`, in Unix milliseconds, distinguishes the process from the one before in the same pod.
/// A restarted process must not resume the old lease, because its windows are empty while another
/// replica's are full.
pub fn identity(pod: &str, started: i64, stats: SocketAddr) -> String {
    format!("{pod}_{started}_{stats}")
}

/// The address in a holder identity.
fn address(identity: &str) -> Option<SocketAddr> {
    identity.rsplit_once('_')?.1.parse().ok()
}

// === impl LeaderForwarder ===

impl LeaderForwarder {
    /// Forwards to the leader as the pod `name`, authenticated by `token`.
    pub fn new(name: &str, leadership: Leadership, token: ProjectedToken) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(connector);
        Self { name: name.to_owned(), leadership, token, client }
    }

    /// A forwarder for a single replica, which is always the leader.
    pub fn alone() -> Self {
        Self::new("", Leadership::always_leading(), ProjectedToken::default())
    }

    /// The current leader.
    pub fn location(&self) -> LeaderLocation {
        if self.leadership.is_leader() {
            return LeaderLocation::Local;
        }
        self.leadership
            .leader()
            .and_then(|name| address(&name))
            .map_or(LeaderLocation::Unelected, LeaderLocation::Remote)
    }

    /// The current leader, or the next one if the lease is being handed over.
    pub async fn settled_location(&self) -> LeaderLocation {
        match self.location() {
            LeaderLocation::Unelected => self.location_after(&LeaderLocation::Unelected).await,
            location => location,
        }
    }

    /// The leader after `previous`, or the current one if none follows in time.
    pub async fn location_after(&self, previous: &LeaderLocation) -> LeaderLocation {
        let mut leadership = self.leadership.clone();
        let moved = leadership.wait_for_leader(|leader| {
            let location = leader.and_then(address).map_or(LeaderLocation::Unelected, LeaderLocation::Remote);
            location != *previous && location != LeaderLocation::Unelected
        });
        // After a timeout, the location is read all the same.
        let _ = tokio::time::timeout(HANDOVER_TIMEOUT, moved).await;
        self.location()
    }

    /// Sends a query to the leader at `address`, with the client's `Accept`.
    ///
    /// # Errors
    /// When the leader does not respond in time.
    pub async fn forward(
        &self,
        address: SocketAddr,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<ForwardedResponse, ForwardError> {
        let response = self.get(address, path_and_query, accept);
        tokio::time::timeout(TIMEOUT, response).await.unwrap_or(Err(ForwardError::Timeout))
    }

    async fn get(
        &self,
        address: SocketAddr,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<ForwardedResponse, ForwardError> {
        let url = format!("http://{address}{FORWARD_PATH}{path_and_query}");
        let mut request =
            Request::get(url).header(HELLO_HEADER, QUERIES.hello(&self.name)).body(Empty::new())?;
        self.token.authorize(request.headers_mut())?;
        if let Some(accept) = accept {
            request.headers_mut().insert(header::ACCEPT, accept.clone());
        }
        let (head, body) = self.client.request(request).await?.into_parts();
        QUERIES.check(head.headers.get(HELLO_HEADER).map(HeaderValue::as_bytes))?;
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(ForwardError::Body)?;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        Ok(ForwardedResponse {
            status: head.status,
            content_type: head.headers.get(header::CONTENT_TYPE).cloned().unwrap_or(plain),
            body: body.to_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_contains_the_address_and_differs_per_process() {
        for stats in ["10.0.0.7:8080", "[fd00::7]:8080"] {
            let stats: SocketAddr = stats.parse().unwrap();
            let before = identity("metrics-adapter-5d4", 1_700_000_000_000, stats);
            assert_eq!(address(&before), Some(stats));
            assert_ne!(identity("metrics-adapter-5d4", 1_700_000_001_000, stats), before);
        }
        assert_eq!(address("replica"), None);
        assert_eq!(address("another_replica"), None);
    }
}
