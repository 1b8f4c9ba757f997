//! The admin port: `/ready` and `/app-ready` for the kubelet's readiness probes of the sidecar and
//! of the app, `/wait-for-drain` for the app's preStop hook, and the tunnels of activators to an
//! app that does not use HTTP.
//!
//! `/ready` succeeds once the app has started and while no drain runs. `/app-ready` also runs the
//! app's own readiness probe, every time. The kubelet's probe of the app is redirected to it, so
//! that a first probe during the app's start waits for the start instead of failing.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{PROBE_HEADER, PROBE_QUEUE_PROXY, TUNNEL_PATH};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use runtime::admin::text_response;

use super::availability::{Availability, Unavailable};
use super::drain::Drain;
use crate::requests::error_response::RequestError;
use crate::tcp::tcp_proxy::TcpProxy;

/// Longest wait of `/ready` for the app. A failure would cost a whole probe period. It must be
/// shorter than the probe's `timeoutSeconds`, which is 10.
const READY_TIMEOUT: Duration = Duration::from_secs(9);

#[derive(Debug)]
pub(crate) struct AdminEndpoint {
    pub(crate) availability: Availability,
    pub(crate) drain: Arc<Drain>,
    /// `None` if the app uses HTTP.
    pub(crate) tcp: Option<TcpProxy>,
}

// === impl AdminEndpoint ===

impl AdminEndpoint {
    pub(crate) async fn handle(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(component) = request.headers().get(PROBE_HEADER) {
            return match self.availability.handle_probe(component).await {
                Ok(()) => text_response(StatusCode::OK, PROBE_QUEUE_PROXY),
                Err(unavailable) => RequestError::from(unavailable).into_response(),
            };
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, TUNNEL_PATH) => self.open_tunnel(request).await,
            (&Method::GET | &Method::HEAD, "/ready") => {
                readiness_response(self.availability.wait_until_available(READY_TIMEOUT).await)
            }
            (&Method::GET | &Method::HEAD, "/app-ready") => {
                readiness_response(self.availability.probe_app(READY_TIMEOUT).await)
            }
            (&Method::GET, "/wait-for-drain") => self.wait_for_drain().await,
            (&Method::GET | &Method::HEAD, "/live") => text_response(StatusCode::OK, "ok\n"),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "not found; use GET /ready, /app-ready, /wait-for-drain or /live\n",
            ),
        }
    }

    async fn open_tunnel(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let opened = match &self.tcp {
            Some(tcp) => tcp.open_tunnel(request).await,
            None => Err(RequestError::AppUsesHttp),
        };
        opened.unwrap_or_else(RequestError::into_response)
    }

    /// The drain continues if the kubelet closes the connection meanwhile.
    async fn wait_for_drain(&self) -> Response<Full<Bytes>> {
        self.drain.begin();
        self.drain.done().await;
        text_response(StatusCode::OK, "drained\n")
    }
}

fn readiness_response(available: Result<(), Unavailable>) -> Response<Full<Bytes>> {
    match available {
        Ok(()) => text_response(StatusCode::OK, "ok\n"),
        Err(unavailable) => RequestError::from(unavailable).into_response(),
    }
}
