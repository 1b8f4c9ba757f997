//! The admin port: `/ready` for the kubelet's readiness probe, `/wait-for-drain` for the app's preStop hook.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::admin::plain;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::availability::Availability;
use crate::drain::Drain;

/// How long `/ready` waits for the app. The kubelet's first round often falls into the app's start, and a no would cost
/// a whole probe period; set the probe's `timeoutSeconds` to 10, so that this answer is the one that counts.
const READY_PATIENCE: Duration = Duration::from_secs(9);

#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) availability: Availability,
    pub(crate) drain: Arc<Drain>,
}

// === impl Admin ===

impl Admin {
    pub(crate) async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/ready") => self.ready().await,
            (&Method::GET, "/wait-for-drain") => self.wait_for_drain().await,
            (&Method::GET | &Method::HEAD, "/live") => plain(StatusCode::OK, "ok\n"),
            _ => plain(StatusCode::NOT_FOUND, "there are GET /ready, /wait-for-drain and /live\n"),
        }
    }

    async fn ready(&self) -> Response<Full<Bytes>> {
        match self.availability.hold(READY_PATIENCE).await {
            Ok(()) => plain(StatusCode::OK, "ok\n"),
            Err(refusal) => refusal.into_response(),
        }
    }

    /// The drain goes on if the kubelet hangs up meanwhile.
    async fn wait_for_drain(&self) -> Response<Full<Bytes>> {
        self.drain.begin();
        self.drain.done().await;
        plain(StatusCode::OK, "drained\n")
    }
}
