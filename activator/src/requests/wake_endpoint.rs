//! WakeEndpoint: answers front doors once a workload has a pod, so that they send the request
//! straight to it.
//!
//! ```text
//! door ─ /NAMESPACE/WORKLOAD ─► known? ─► load? ─► has a pod? ─► held ─► 200
//!                                404      200        200           └──► 503 or 504
//! ```
//!
//! The calls of ext_authz, forwardAuth and auth_request are requests with the path, or the headers,
//! of the request that waits. What is not load at the workload's own ports is none here. A call
//! counts only while it is held: it pokes, and is as much demand as the request behind it. One to a
//! workload with a pod neither counts nor takes memory, because the sidecar counts the request
//! itself.
//!
//! Any pod of the cluster may call, as it may call the Service of the workload. The bounds of held
//! requests apply: queue, memory of the workload, wake timeout. A held call takes the place of its
//! connection in the workload's memory; connections are bounded in all and by peer.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use bytes::Bytes;
use component_base::server::{self, ConnectionBounds, Http2Limits, ServerLimits};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use proxy::memory::estimates::CONNECTION_BYTES;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args::Limits;
use crate::queue::rejection::Rejection;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::requests::at_zero::UncountedRequest;
use crate::requests::context::RequestContext;
use crate::requests::error_response;
use crate::workloads::directory::WorkloadDirectory;

/// A front door has a connection for each held HTTP/1.1 request, so one peer may have many.
const CONNECTIONS: ConnectionBounds = ConnectionBounds { total: 2048, per_peer: 1024, authenticated: 0 };
const HTTP2: Http2Limits = Http2Limits { max_streams: 256, ping: Duration::from_secs(20) };

/// Where Traefik and nginx have the path of the request that waits. Envoy appends it to our own.
const PATH_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-uri"), HeaderName::from_static("x-original-uri")];
const METHOD_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-forwarded-method"), HeaderName::from_static("x-original-method")];

/// Answers the calls of front doors.
#[derive(Clone, Debug)]
pub struct WakeEndpoint {
    context: Arc<RequestContext>,
    workloads: WorkloadDirectory<WorkloadThrottler>,
}

// === impl WakeEndpoint ===

impl WakeEndpoint {
    /// For these workloads.
    pub fn new(context: Arc<RequestContext>, workloads: WorkloadDirectory<WorkloadThrottler>) -> Self {
        Self { context, workloads }
    }

    /// Serves until `stop`, and then until the last held call has ended.
    pub async fn serve(self, listener: TcpListener, limits: Limits, stop: CancellationToken) {
        let limits = ServerLimits {
            connections: CONNECTIONS,
            header_read_timeout: limits.header_timeout,
            idle_timeout: limits.connection_idle_timeout,
            drain_timeout: limits.drain_timeout,
            http2: Some(HTTP2),
        };
        let handler = move |request: Request<_>| {
            let (head, _) = request.into_parts();
            let endpoint = self.clone();
            async move { endpoint.respond(&head.method, &head.uri, &head.headers).await }
        };
        server::serve(listener, handler, limits, stop).await;
    }

    async fn respond(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let Some((key, path)) = parse(uri) else { return unknown("the path is not /NAMESPACE/WORKLOAD") };
        let Some(workload) = self.workloads.get(&key) else {
            return unknown("no workload has this name: it is that of the HPA or PodAutoscaler");
        };
        if workload.any_pod().is_some() || self.is_no_load(&workload, method, path, headers) {
            return admitted();
        }
        let response = match hold(&workload).await {
            Ok(()) => admitted(),
            Err(rejection) => error_response::respond(&rejection.into(), &key),
        };
        workload.metrics().answered(response.status());
        response
    }

    fn is_no_load(
        &self,
        workload: &WorkloadThrottler,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> bool {
        let given =
            |names: [HeaderName; 2]| names.into_iter().find_map(|name| headers.get(name)?.to_str().ok());
        let mut request = Request::new(());
        let path = if path.is_empty() { given(PATH_HEADERS).unwrap_or("/") } else { path };
        *request.uri_mut() = path.parse().unwrap_or_default();
        let method = given(METHOD_HEADERS).and_then(|method| method.parse().ok()).unwrap_or(method.clone());
        *request.method_mut() = method;
        request.headers_mut().clone_from(headers);
        UncountedRequest::of(&request, &self.context.health_checks, workload.settings().no_wake.as_ref())
            .is_some()
    }
}

/// Holds a call until the workload has a pod with a free slot, which it does not take.
async fn hold(workload: &WorkloadThrottler) -> Result<(), Rejection> {
    let received = Instant::now();
    workload.check_admission()?;
    let _memory = workload.memory().take(CONNECTION_BYTES)?;
    // The peer is the front door, not its client.
    let _counted = workload.count_request(|| None);
    workload.prober().probe_if_wanted();
    workload.acquire(received, received + workload.wake_timeout(), || 0).await.map(drop)
}

/// The workload, and the rest of the path with its query.
fn parse(uri: &Uri) -> Option<(Key, &str)> {
    let path = uri.path_and_query()?.as_str().strip_prefix('/')?;
    let (namespace, rest) = path.split_once('/')?;
    let (name, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    (!namespace.is_empty() && !name.is_empty()).then(|| (Key::new(namespace, name), rest))
}

fn admitted() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn unknown(detail: &str) -> Response<Full<Bytes>> {
    let status = StatusCode::NOT_FOUND;
    let problem = serde_json::json!({
        "type": "about:blank", "title": "Not Found", "status": status.as_u16(),
        "detail": detail, "reason": "UnknownWorkload",
    });
    let mut response = Response::new(Full::new(Bytes::from(problem.to_string())));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_begins_with_the_workload_and_may_go_on_with_that_of_the_request() {
        let parsed = |path: &str| {
            let uri: Uri = path.parse().unwrap();
            parse(&uri).map(|(key, rest)| (key.to_string(), rest.to_owned()))
        };
        let web = |rest: &str| Some(("shop/web".to_owned(), rest.to_owned()));
        assert_eq!(parsed("/shop/web"), web(""));
        assert_eq!(parsed("/shop/web/"), web("/"));
        assert_eq!(parsed("/shop/web/cart/7?a=/b"), web("/cart/7?a=/b"));
        assert_eq!(parsed("/shop/web?a=b"), web("?a=b"));
        for path in ["/", "/shop", "/shop/", "//web"] {
            assert_eq!(parsed(path), None, "{path}");
        }
    }
}
