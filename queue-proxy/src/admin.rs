//! The admin port: `/ready` and `/app-ready` for the kubelet's readiness probes of the sidecar and of the app,
//! `/wait-for-drain` for the app's preStop hook; and of an app that does not speak HTTP, the activators' way in.
//!
//! `/ready` is whether requests may come: the app has started, and no drain. `/app-ready` asks the app as well, every time:
//! the kubelet's probe of the app leads here, so that its first round is not lost on an app that is about to start.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{PROBE_HEADER, PROBE_QUEUE_PROXY, TUNNEL_PATH};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use runtime::admin::text_response;

use crate::availability::Availability;
use crate::drain::Drain;
use crate::error_response::Refusal;
use crate::tcp_proxy::TcpProxy;

/// How long `/ready` waits for the app. The kubelet's first round often falls into the app's start, and a no would cost
/// a whole probe period; set the probe's `timeoutSeconds` to 10, so that this answer is the one that counts.
const READY_PATIENCE: Duration = Duration::from_secs(9);

#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) availability: Availability,
    pub(crate) drain: Arc<Drain>,
    /// Of an app that does not speak HTTP.
    pub(crate) tcp: Option<TcpProxy>,
}

// === impl Admin ===

impl Admin {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(asked_for) = request.headers().get(PROBE_HEADER) {
            return match self.availability.probe(asked_for).await {
                Ok(()) => text_response(StatusCode::OK, PROBE_QUEUE_PROXY),
                Err(refusal) => refusal.into_response(),
            };
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, TUNNEL_PATH) => {
                self.tunnel(request).await.unwrap_or_else(|refusal| refusal.into_response())
            }
            (&Method::GET | &Method::HEAD, "/ready") => answer(self.availability.hold(READY_PATIENCE).await),
            (&Method::GET | &Method::HEAD, "/app-ready") => {
                answer(self.availability.ask(READY_PATIENCE).await)
            }
            (&Method::GET, "/wait-for-drain") => self.wait_for_drain().await,
            (&Method::GET | &Method::HEAD, "/live") => text_response(StatusCode::OK, "ok\n"),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "there are GET /ready, /app-ready, /wait-for-drain and /live\n",
            ),
        }
    }

    async fn tunnel(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Refusal> {
        self.tcp.as_ref().ok_or(Refusal::SpeaksHttp)?.tunnel(request).await
    }

    /// The drain goes on if the kubelet hangs up meanwhile.
    async fn wait_for_drain(&self) -> Response<Full<Bytes>> {
        self.drain.begin();
        self.drain.done().await;
        text_response(StatusCode::OK, "drained\n")
    }
}

fn answer(ready: Result<(), Refusal>) -> Response<Full<Bytes>> {
    match ready {
        Ok(()) => text_response(StatusCode::OK, "ok\n"),
        Err(refusal) => refusal.into_response(),
    }
}
