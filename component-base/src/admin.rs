//! The admin port: `/metrics` for Prometheus, `/ready` and `/live` for the kubelet.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use prometheus::{Encoder, Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::readiness::Readiness;
use crate::server::{self, ServerLimits};

/// Serves the admin port until `stop`. Pass a token that outlives the rest of the process, so that
/// a draining process can be scraped and probed.
pub async fn serve(listener: TcpListener, registry: Registry, readiness: Readiness, stop: CancellationToken) {
    serve_with(|_: &_, _: &_| None, listener, registry, readiness, stop).await;
}

/// As [`serve`], with further endpoints. `extra` returns `None` for requests that it does not
/// handle.
pub async fn serve_with(
    extra: impl Fn(&Method, &str) -> Option<Response<Full<Bytes>>> + Clone + Send + Sync + 'static,
    listener: TcpListener,
    registry: Registry,
    readiness: Readiness,
    stop: CancellationToken,
) {
    let handler = move |request: Request<Incoming>| {
        let (method, path) = (request.method(), request.uri().path());
        let response = extra(method, path).unwrap_or_else(|| respond(method, path, &registry, &readiness));
        std::future::ready(response)
    };
    server::serve(listener, handler, ServerLimits::default(), stop).await;
}

/// The registry in Prometheus' text format.
pub fn metrics_response(registry: &Registry) -> Response<Full<Bytes>> {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&registry.gather(), &mut text) {
        Ok(()) => {
            let mut response = Response::new(Full::new(Bytes::from(text)));
            let content_type = http::HeaderValue::from_static(prometheus::TEXT_FORMAT);
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            response
        }
        Err(error) => text_response(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A plain text response.
pub fn text_response(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

fn respond(method: &Method, path: &str, registry: &Registry, readiness: &Readiness) -> Response<Full<Bytes>> {
    match (method, path) {
        (&Method::GET | &Method::HEAD, "/metrics") => metrics_response(registry),
        (&Method::GET | &Method::HEAD, "/ready" | "/readyz") => ready(readiness),
        (&Method::GET | &Method::HEAD, "/live" | "/livez" | "/healthz") => {
            text_response(StatusCode::OK, "ok\n")
        }
        (&Method::GET | &Method::HEAD, _) => {
            text_response(StatusCode::NOT_FOUND, "not found; available: /metrics, /ready, /live\n")
        }
        _ => text_response(StatusCode::METHOD_NOT_ALLOWED, "use GET or HEAD\n"),
    }
}

fn ready(readiness: &Readiness) -> Response<Full<Bytes>> {
    let pending = readiness.pending();
    if pending.is_empty() {
        return text_response(StatusCode::OK, "ok\n");
    }
    text_response(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: waiting for {}\n", pending.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::time::timeout;

    use super::*;

    fn status(path: &str, readiness: &Readiness) -> StatusCode {
        respond(&Method::GET, path, &Registry::new(), readiness).status()
    }

    #[test]
    fn ready_follows_readiness_and_live_is_constant() {
        let readiness = Readiness::default();
        let latch = readiness.latch("pods");
        assert_eq!(status("/ready", &readiness), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status("/live", &readiness), StatusCode::OK);
        drop(latch);
        assert_eq!(status("/ready", &readiness), StatusCode::OK);
    }

    #[tokio::test]
    async fn idle_http2_connections_leave_room_for_probes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(serve(listener, Registry::new(), Readiness::default(), stop));
        let mut idle = Vec::new();
        for _ in 0..150 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
            idle.push(stream);
        }
        let mut probe = TcpStream::connect(address).await.unwrap();
        probe.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut response = String::new();
        // As long as a kubelet waits, by default.
        let read = timeout(Duration::from_secs(1), probe.read_to_string(&mut response)).await;
        assert!(read.is_ok() && response.starts_with("HTTP/1.1 200"), "{response}");
        task.abort();
    }

    #[test]
    fn rejects_other_paths_and_methods() {
        let readiness = Readiness::default();
        assert_eq!(status("/", &readiness), StatusCode::NOT_FOUND);
        let posted = respond(&Method::POST, "/metrics", &Registry::new(), &readiness);
        assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
    }
}
