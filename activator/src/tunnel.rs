//! Tunnel: a connection to a pod whose app does not speak HTTP.
//!
//! It is asked of the pod's queue-proxy by an upgrade, which tells it apart from the callers that come straight: this process
//! has counted it. The answer is held until the app has accepted, so until then nothing is sent, and another pod may be asked.

use std::net::SocketAddr;

use autoscaler::contract::{PROBE_ACTIVATOR, PROXIED_HEADER, TUNNEL_PATH, TUNNEL_PROTOCOL};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use http_client::{ResponseBody, SwitchedConnection};
use proxy::tcp::enable_keepalive;

use crate::pod_connector;

/// Most that is read of a refusal's words.
const REFUSAL_BYTES: usize = 1024;

/// An end of it.
pub type Tunnel = SwitchedConnection;

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The pod does not answer, or breaks off.
    #[error("no tunnel to the pod: {0}")]
    Failed(#[from] http_client::Error),
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
    let request = Request::get(TUNNEL_PATH)
        .header(HOST, to.to_string())
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, TUNNEL_PROTOCOL)
        .header(PROXIED_HEADER, PROBE_ACTIVATOR)
        .body(Empty::<Bytes>::new())?;
    let connect = || async {
        let stream = pod_connector::connect(to).await?;
        enable_keepalive(&stream)?;
        Ok(stream)
    };
    let mut response = http_client::send_once(request, connect).await?;
    match response.body_mut().take_switched() {
        Some(tunnel) => Ok(tunnel),
        None => Err(refused(response).await),
    }
}

async fn refused(response: Response<ResponseBody>) -> Error {
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
            Self::Failed(_) => true,
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Http(_) => false,
        }
    }
}
