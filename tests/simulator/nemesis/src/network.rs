//! The way from one process to the API server, with its faults: refused requests, lost responses,
//! late writes, delayed watches.
//!
//! Each process has its own, so two zero-scalers see different states of the cluster, and one of
//! them several kinds of objects at different times.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fake_api::FakeApi;
use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};
use tower_service::Service;

/// As the real client waits for the response to a write.
const WRITE_DEADLINE: Duration = Duration::from_secs(35);
/// As the assumption of the design: a write lands within this time.
pub const LATEST_WRITE: Duration = Duration::from_secs(3);

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type ApiResponse = Response<UnsyncBoxBody<Bytes, BoxError>>;

/// The network of one process. Clones share its state.
#[derive(Clone, Debug)]
pub struct ProcessNetwork {
    api: FakeApi,
    faults: Arc<Mutex<NetworkFaults>>,
}

#[derive(Debug)]
struct NetworkFaults {
    rng: StdRng,
    /// A process that has crashed sends nothing.
    is_dead: bool,
    /// Status of refused requests, and the part of all requests that is refused.
    refused: Option<(u16, f64)>,
    /// The part of writes that get no response.
    lost: f64,
    /// Writes take up to [`LATEST_WRITE`].
    slow: bool,
    /// Until when the watches of a resource are silent.
    silent: HashMap<String, Instant>,
    /// When the last fault ended.
    faulty_until: Instant,
}

// === impl ProcessNetwork ===

impl ProcessNetwork {
    /// A network without faults, which draws by `seed`.
    pub fn new(api: FakeApi, seed: u64) -> Self {
        let faults = NetworkFaults {
            rng: StdRng::seed_from_u64(seed),
            is_dead: false,
            refused: None,
            lost: 0.0,
            slow: false,
            silent: HashMap::new(),
            faulty_until: Instant::now(),
        };
        Self { api, faults: Arc::new(Mutex::new(faults)) }
    }

    /// A client over this network.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), "default")
    }

    /// Ends all requests of a process that crashes.
    pub fn kill(&self) {
        self.faults.lock().is_dead = true;
    }

    /// Refuses this part of the requests with a status, or none.
    pub fn refuse(&self, refused: Option<(u16, f64)>) {
        let mut faults = self.faults.lock();
        faults.refused = refused;
        faults.faulty_until = Instant::now();
    }

    /// Loses this part of the responses to writes.
    pub fn lose_responses(&self, part: f64) {
        let mut faults = self.faults.lock();
        faults.lost = part;
        faults.faulty_until = Instant::now();
    }

    /// Makes writes slow, or fast again.
    pub fn slow_writes(&self, slow: bool) {
        let mut faults = self.faults.lock();
        faults.slow = slow;
        faults.faulty_until = Instant::now();
    }

    /// Delays all events of a resource until an instant.
    pub fn silence_watches(&self, resource: &str, until: Instant) {
        let mut faults = self.faults.lock();
        faults.silent.insert(resource.to_owned(), until);
        faults.faulty_until = faults.faulty_until.max(until);
    }

    /// Whether no request was refused, lost or late for this time.
    pub fn is_healthy_for(&self, time: Duration) -> bool {
        let faults = self.faults.lock();
        let is_healthy = faults.refused.is_none() && faults.lost == 0.0 && !faults.slow;
        is_healthy && faults.faulty_until + time <= Instant::now()
    }

    async fn respond(self, request: Request<Body>) -> Result<ApiResponse, BoxError> {
        let is_write = request.method() != Method::GET;
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let resource = resource_of(request.uri().path());
        if self.faults.lock().is_dead {
            return std::future::pending().await;
        }
        let (refused, delay, is_lost, hangs) = {
            let mut faults = self.faults.lock();
            let refused = faults.refused.filter(|(_, part)| faults.rng.random_bool(*part));
            let slow = is_write && faults.slow;
            let delay = if slow { faults.rng.random_range(0..LATEST_WRITE.as_millis() as u64) } else { 0 };
            let lost = faults.lost;
            (
                refused,
                Duration::from_millis(delay),
                is_write && faults.rng.random_bool(lost),
                faults.rng.random_bool(0.5),
            )
        };
        if let Some((status, _)) = refused {
            return Ok(status_response(status));
        }
        let mut api = self.api.clone();
        // In a task of its own: a request that was sent is executed, also when its sender crashes.
        let executed = tokio::spawn(async move {
            sleep(delay).await;
            api.call(request).await.unwrap_or_else(|never| match never {})
        });
        let response = executed.await?;
        if is_lost {
            if hangs {
                sleep(WRITE_DEADLINE).await;
            }
            return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
        }
        let body = response.map(|body| body.map_err(|never| match never {}).boxed_unsync());
        Ok(if is_watch { body.map(|body| self.delayed(resource, body)) } else { body })
    }

    /// The body of a watch. Its lines wait while its resource is silent.
    fn delayed(
        self,
        resource: String,
        body: UnsyncBoxBody<Bytes, BoxError>,
    ) -> UnsyncBoxBody<Bytes, BoxError> {
        let frames = BodyStream::new(body);
        let delayed =
            stream::unfold((frames, self, resource), |(mut frames, network, resource)| async move {
                let frame = frames.next().await?;
                loop {
                    let until = network.faults.lock().silent.get(&resource).copied();
                    match until.filter(|until| *until > Instant::now()) {
                        Some(until) => sleep_until(until).await,
                        None => return Some((frame, (frames, network, resource))),
                    }
                }
            });
        StreamBody::new(delayed).boxed_unsync()
    }
}

impl Service<Request<Body>> for ProcessNetwork {
    type Response = ApiResponse;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ApiResponse, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}

/// The plural in a path, such as `deployments`.
fn resource_of(path: &str) -> String {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    let root = if segments.next() == Some("api") { 1 } else { 2 };
    let mut rest = segments.skip(root).peekable();
    if rest.peek() == Some(&"namespaces") {
        let rest: Vec<_> = rest.collect();
        return (*rest.get(2).unwrap_or(&"namespaces")).to_owned();
    }
    rest.next().unwrap_or_default().to_owned()
}

/// The response of an API server that sheds load.
fn status_response(status: u16) -> ApiResponse {
    let code = StatusCode::from_u16(status).unwrap();
    let reason = code.canonical_reason().unwrap_or_default();
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": reason, "reason": reason, "code": status,
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::builder().status(code);
    if status == 429 {
        response = response.header(http::header::RETRY_AFTER, "1");
    }
    response.body(body).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_is_the_plural_of_a_path() {
        for (path, resource) in [
            ("/apis/apps/v1/deployments", "deployments"),
            ("/apis/apps/v1/namespaces/shop/deployments/web/scale", "deployments"),
            ("/api/v1/services", "services"),
            ("/api/v1/namespaces/shop/services/web", "services"),
            ("/api/v1/namespaces/shop", "namespaces"),
        ] {
            assert_eq!(resource_of(path), resource, "{path}");
        }
    }
}
