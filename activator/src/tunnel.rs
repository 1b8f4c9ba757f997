//! Tunnel: a connection to a pod whose app does not speak HTTP.
//!
//! It is asked of the pod's queue-proxy by an upgrade, which tells it apart from the callers that come straight: this process
//! has counted it. The answer is held until the app has accepted, so until then nothing is sent, and another pod may be asked.

use std::net::SocketAddr;

use autoscaler::contract::{PROBE_ACTIVATOR, PROXIED_HEADER, TUNNEL_PATH, TUNNEL_PROTOCOL};
use bytes::Bytes;
use chassis::liveness::ask_silent_peer;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use crate::pod_connector;

/// Most that is read of a refusal's words.
const REFUSAL_BYTES: usize = 1024;

/// An end of it.
pub type Tunnel = TokioIo<Upgraded>;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod does not answer.
    #[error("no connection to the pod: {0}")]
    Connect(#[from] std::io::Error),
    /// It breaks off.
    #[error("the pod closed the connection or broke the protocol: {0}")]
    Failed(#[from] hyper::Error),
    /// It has no place, no app, or another protocol.
    #[error("the pod refused with {status}: {words}")]
    Refused {
        /// Its answer.
        status: StatusCode,
        /// What it says of it.
        words: String,
    },
    /// The request cannot be built.
    #[error(transparent)]
    Http(#[from] http::Error),
}

/// Opens one through the queue-proxy whose admin port is at `to`.
///
/// # Errors
/// See [`Error`].
pub async fn open(to: SocketAddr) -> Result<Tunnel, Error> {
    let stream = pod_connector::connect(to).await?;
    ask_silent_peer(&stream)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection.with_upgrades());
    let request = Request::get(TUNNEL_PATH)
        .header(HOST, to.to_string())
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, TUNNEL_PROTOCOL)
        .header(PROXIED_HEADER, PROBE_ACTIVATOR)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(refused(response).await);
    }
    Ok(TokioIo::new(hyper::upgrade::on(response).await?))
}

async fn refused(response: Response<Incoming>) -> Error {
    let status = response.status();
    let words = Limited::new(response.into_body(), REFUSAL_BYTES).collect().await;
    let words = words.map(|words| String::from_utf8_lossy(&words.to_bytes()).trim().to_owned());
    Error::Refused { status, words: words.unwrap_or_default() }
}

// === impl Error ===

impl Error {
    /// Whether the pod may take no connection for now, though others may.
    pub fn is_the_pods(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Failed(_) => true,
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Http(_) => false,
        }
    }
}
