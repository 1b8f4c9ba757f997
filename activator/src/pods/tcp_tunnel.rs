//! TCP tunnel: a connection to the app of a pod, for a protocol that is not HTTP.
//!
//! Through a queue-proxy, the tunnel is opened by an HTTP upgrade, so that the queue-proxy can
//! distinguish it from direct connections: this process has counted it already. The queue-proxy
//! responds once the app has accepted the connection. To an app without a queue-proxy it is a plain
//! connection. Until the tunnel is open no data is sent, and another pod can be tried.

use std::net::SocketAddr;

use autoscaler::contract::{TUNNEL_PATH, TUNNEL_PROTOCOL};
use bytes::Bytes;
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use http_client::{ReadAhead, ResponseBody, SwitchedConnection};
use proxy::gateway;
use proxy::listener::ConnectionAddresses;

use crate::pods::pod_tracker::PodTracker;
use crate::pods::{connector, forwarder};

/// Bytes of an error response that are read.
const REFUSAL_BYTES: usize = 1024;

/// This side of the tunnel.
pub type Tunnel = SwitchedConnection;

/// Why a tunnel was not opened.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    /// The connection failed.
    #[error("no tunnel to the pod: {0}")]
    Failed(#[from] http_client::Error),
    /// The pod has no port with the name that the Service's target port has.
    #[error("the pod has no port with the name of the Service's target port")]
    NoPort,
    /// Another pod has the address now.
    #[error("the pod's address belongs to another pod")]
    OtherPod,
    /// The queue-proxy is at its limit, has no app, or uses another protocol.
    #[error("the pod responded with {status}: {detail}")]
    Refused {
        /// The status of the response.
        status: StatusCode,
        /// The beginning of the response's body.
        detail: String,
    },
    /// The request cannot be built.
    #[error(transparent)]
    Http(#[from] http::Error),
}

/// Opens a tunnel to the app of `pod`, for the client with these `addresses`: through its
/// queue-proxy, with its admin port at `to`, or to the app at `to`.
///
/// # Errors
/// See [`TunnelError`].
pub async fn open(
    pod: &PodTracker,
    to: SocketAddr,
    addresses: &ConnectionAddresses,
) -> Result<Tunnel, TunnelError> {
    if pod.has_queue_proxy() {
        return open_through_queue_proxy(pod, to, addresses).await;
    }
    let app = connector::connect(to).await.map_err(http_client::Error::Unreachable)?;
    Ok(ReadAhead::new(app, Bytes::new()))
}

async fn open_through_queue_proxy(
    pod: &PodTracker,
    to: SocketAddr,
    addresses: &ConnectionAddresses,
) -> Result<Tunnel, TunnelError> {
    let mut request = Request::get(TUNNEL_PATH)
        .header(HOST, to.to_string())
        .header(CONNECTION, "upgrade")
        .header(UPGRADE, TUNNEL_PROTOCOL)
        .body(Empty::<Bytes>::new())?;
    pod.mark(request.headers_mut());
    // The tunnel takes memory of this client's account there.
    gateway::add_client(request.headers_mut(), addresses);
    let mut response = http_client::send_once(request, || connector::connect(to)).await?;
    if forwarder::is_misdirected(&response) {
        return Err(TunnelError::OtherPod);
    }
    match response.body_mut().take_switched() {
        Some(tunnel) => Ok(tunnel),
        None => Err(refused(response).await),
    }
}

async fn refused(response: Response<ResponseBody>) -> TunnelError {
    let status = response.status();
    let detail = Limited::new(response.into_body(), REFUSAL_BYTES).collect().await;
    let detail = detail.map(|detail| String::from_utf8_lossy(&detail.to_bytes()).trim().to_owned());
    TunnelError::Refused { status, detail: detail.unwrap_or_default() }
}

// === impl TunnelError ===

impl TunnelError {
    /// Whether another pod may take the connection.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Failed(_) | Self::OtherPod => true,
            Self::Refused { status, .. } => {
                matches!(*status, StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Http(_) | Self::NoPort => false,
        }
    }
}
