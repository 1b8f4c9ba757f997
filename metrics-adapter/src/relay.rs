//! Relay: a follower's answers are the leader's.
//!
//! ```text
//! HPA ─► follower: who is it, may they? ─► leader's stats port: /relay/... ─► the leader's answer, whatever it is
//! ```
//!
//! Two replicas see the same load through different samples, and an HPA that asked now one and now the other would follow
//! the difference. So a follower gives no numbers of its own. The lease names the leader, with its address; a leader that
//! does not answer is an error, on which the HPA keeps its size.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::RELAY_PATH;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use runtime::auth::{ProjectedToken, TokenError};
use runtime::kubernetes::lease::Leadership;

/// Time for the leader to answer. It reads memory; the HPA's few workers wait for it.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for a connection. A node that is lost does not answer at all.
const CONNECT: Duration = Duration::from_millis(500);
/// How long to wait for the next leader. A clean hand-over takes milliseconds; after a crash nobody waits for the end of a lease.
const HAND_OVER: Duration = Duration::from_secs(1);
/// The history of a workload is some 10 KiB.
const MAX_BODY: usize = 1024 * 1024;
/// Idle connections are closed after this.
const IDLE: Duration = Duration::from_secs(60);
/// Connections kept to the leader.
const MAX_IDLE: usize = 8;

/// Who has the numbers, and how to ask them.
#[derive(Clone, Debug)]
pub struct Relay {
    leadership: Leadership,
    token: ProjectedToken,
    client: Client<HttpConnector, Empty<Bytes>>,
}

/// Who has the numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// This replica leads.
    Here,
    /// Another one does, which takes questions here.
    There(SocketAddr),
    /// Nobody is known to.
    Nowhere,
}

/// What the leader said.
#[derive(Debug)]
pub struct Relayed {
    /// Its status code.
    pub status: StatusCode,
    /// Its content type.
    pub content_type: HeaderValue,
    /// Its words.
    pub body: Bytes,
}

/// Why the leader said nothing.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// No connection, or it broke.
    #[error(transparent)]
    Connection(#[from] hyper_util::client::legacy::Error),
    /// No answer in time.
    #[error("no answer within {TIMEOUT:?}")]
    Timeout,
    /// The answer broke or was too long.
    #[error("body: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The question makes no request.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// We cannot say who we are.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// The name under which a process leads, which says where its stats port is. `started`, in Unix milliseconds, tells it from the
/// one before in the same pod: what that one held is not this one's, whose windows are empty while another replica's are full.
pub fn identity(pod: &str, started: i64, stats: SocketAddr) -> String {
    format!("{pod}_{started}_{stats}")
}

/// The address in such a name.
fn address(identity: &str) -> Option<SocketAddr> {
    identity.rsplit_once('_')?.1.parse().ok()
}

// === impl Relay ===

impl Relay {
    /// Asks whoever leads, and says by `token` who asks.
    pub fn new(leadership: Leadership, token: ProjectedToken) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(connector);
        Self { leadership, token, client }
    }

    /// For a replica that is alone.
    pub fn alone() -> Self {
        Self::new(Leadership::always_leading(), ProjectedToken::default())
    }

    /// Who has the numbers now.
    pub fn place(&self) -> Place {
        if self.leadership.is_leader() {
            return Place::Here;
        }
        self.leadership.leader().and_then(|name| address(&name)).map_or(Place::Nowhere, Place::There)
    }

    /// Who has the numbers now, or in a moment: while one replica hands over to another, nobody has.
    pub async fn settled(&self) -> Place {
        match self.place() {
            Place::Nowhere => self.moved(&Place::Nowhere).await,
            place => place,
        }
    }

    /// Who has the numbers after `from`; after a moment, whoever has.
    pub async fn moved(&self, from: &Place) -> Place {
        let mut leadership = self.leadership.clone();
        let moved = leadership.wait_for_leader(|leader| {
            let place = leader.and_then(address).map_or(Place::Nowhere, Place::There);
            place != *from && place != Place::Nowhere
        });
        // Whether it moved or not, what is asked next is who leads then.
        let _ = tokio::time::timeout(HAND_OVER, moved).await;
        self.place()
    }

    /// What the leader at `address` says to `path_and_query`, in a form that is accepted.
    ///
    /// # Errors
    /// When it says nothing, or nothing in time.
    pub async fn ask(
        &self,
        address: SocketAddr,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<Relayed, RelayError> {
        let answer = self.get(address, path_and_query, accept);
        tokio::time::timeout(TIMEOUT, answer).await.unwrap_or(Err(RelayError::Timeout))
    }

    async fn get(
        &self,
        address: SocketAddr,
        path_and_query: &str,
        accept: Option<&HeaderValue>,
    ) -> Result<Relayed, RelayError> {
        let url = format!("http://{address}{RELAY_PATH}{path_and_query}");
        let mut request = Request::get(url).body(Empty::new())?;
        self.token.authorize(request.headers_mut())?;
        if let Some(accept) = accept {
            request.headers_mut().insert(header::ACCEPT, accept.clone());
        }
        let (head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(RelayError::Body)?;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        Ok(Relayed {
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
    fn an_identity_names_an_address_and_one_process() {
        for stats in ["10.0.0.7:8080", "[fd00::7]:8080"] {
            let stats: SocketAddr = stats.parse().unwrap();
            let before = identity("metrics-adapter-5d4", 1_700_000_000_000, stats);
            assert_eq!(address(&before), Some(stats));
            assert_ne!(identity("metrics-adapter-5d4", 1_700_000_001_000, stats), before);
        }
        assert_eq!(address("somebody"), None);
        assert_eq!(address("somebody_else"), None);
    }
}
