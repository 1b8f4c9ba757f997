//! The admin port: `/ready` and `/app-ready` for the kubelet's readiness probes of the sidecar and of the app,
//! `/wait-for-drain` for the app's preStop hook.
//!
//! `/ready` is whether requests may come: the app has started, and no drain. `/app-ready` asks the app as well, every time:
//! the kubelet's probe of the app leads here, so that its first round is not lost on an app that is about to start.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::admin::plain;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::availability::Availability;
use crate::drain::Drain;
use crate::error_response::Refusal;

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
            (&Method::GET | &Method::HEAD, "/ready") => answer(self.availability.hold(READY_PATIENCE).await),
            (&Method::GET | &Method::HEAD, "/app-ready") => {
                answer(self.availability.ask(READY_PATIENCE).await)
            }
            (&Method::GET, "/wait-for-drain") => self.wait_for_drain().await,
            (&Method::GET | &Method::HEAD, "/live") => plain(StatusCode::OK, "ok\n"),
            _ => {
                plain(StatusCode::NOT_FOUND, "there are GET /ready, /app-ready, /wait-for-drain and /live\n")
            }
        }
    }

    /// The drain goes on if the kubelet hangs up meanwhile.
    async fn wait_for_drain(&self) -> Response<Full<Bytes>> {
        self.drain.begin();
        self.drain.done().await;
        plain(StatusCode::OK, "drained\n")
    }
}

fn answer(ready: Result<(), Refusal>) -> Response<Full<Bytes>> {
    match ready {
        Ok(()) => plain(StatusCode::OK, "ok\n"),
        Err(refusal) => refusal.into_response(),
    }
}
