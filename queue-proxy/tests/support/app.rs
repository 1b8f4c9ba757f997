//! The app behind the sidecar; the test controls its responses.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use autoscaler::contract::MISDIRECTED_HEADER;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper_util::rt::TokioIo;
use proxy::incoming_body::{IncomingBody, IncomingBodyError};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

type Body = BoxBody<Bytes, IncomingBodyError>;

/// A running app with these paths:
///
/// - `/` returns `ok`
/// - `/echo` streams the request body back, `/count` returns its length
/// - `/headers` returns the request's headers
/// - `/wait` responds, and `/slow-body` ends its body, after the gate has opened
/// - `/endless` never ends its body
/// - `/misdirected` returns 421 with the internal header of a queue-proxy
/// - `/upgrade` echoes on the upgraded connection
/// - `/grpc/N` returns the gRPC status N in trailers, `/grpc-head/N` in the head of a response
///   without a body
/// - `/healthz` and gRPC's health service for `web` return the app's health
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    gate: Arc<Semaphore>,
    health: Arc<Health>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Health {
    failing: AtomicBool,
    failed_probes: AtomicUsize,
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let stop = CancellationToken::new();
        let health = Arc::new(Health::default());
        let service = {
            let (gate, health) = (gate.clone(), health.clone());
            move |request, _: &_| {
                let (gate, health) = (gate.clone(), health.clone());
                async move { Ok::<_, Infallible>(answer(request, gate, &health).await) }
            }
        };
        tokio::spawn(proxy::server::serve(listener, service, Default::default(), stop.clone()));
        Self { address, gate, health, stop }
    }

    /// Opens the gate for `n` waiting requests.
    pub(crate) fn open(&self, n: usize) {
        self.gate.add_permits(n);
    }

    /// Sets whether `/healthz` fails.
    pub(crate) fn fail(&self, failing: bool) {
        self.health.failing.store(failing, Ordering::SeqCst);
    }

    /// Whether a probe has failed.
    pub(crate) fn has_failed_probe(&self) -> bool {
        self.health.failed_probes.load(Ordering::SeqCst) > 0
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn answer(mut request: Request<IncomingBody>, gate: Arc<Semaphore>, health: &Health) -> Response<Body> {
    match request.uri().path() {
        "/echo" => Response::new(request.into_body().boxed()),
        "/count" => {
            let body = request.into_body().collect().await;
            full(body.map_or(0, |body| body.to_bytes().len()).to_string())
        }
        "/endless" => Response::new(BoxBody::new(StreamBody::new(stream::repeat_with(|| {
            Ok(Frame::data(Bytes::from_static(&[b'x'; 16 * 1024])))
        })))),
        "/headers" => full(format!("{:?} {:#?}", request.version(), request.headers())),
        "/grpc.health.v1.Health/Check" => {
            let message = request.into_body().collect().await.unwrap().to_bytes();
            let exists = message.ends_with(b"web");
            let status = if health.failing.load(Ordering::SeqCst) { 2 } else { 1 };
            let message = Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, status]);
            let trailers = grpc_status(if exists { "0" } else { "5" });
            let frames = [Frame::data(message), Frame::trailers(trailers)].map(Ok);
            let body = StreamBody::new(stream::iter(frames.into_iter().skip(usize::from(!exists))));
            Response::new(BoxBody::new(body))
        }
        "/healthz" if health.failing.load(Ordering::SeqCst) => {
            health.failed_probes.fetch_add(1, Ordering::SeqCst);
            let mut response = full("not now".to_owned());
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
        "/wait" => {
            gate.acquire().await.unwrap().forget();
            full("waited".to_owned())
        }
        "/slow-body" => {
            Response::new(BoxBody::new(StreamBody::new(stream::unfold(Some("begin"), move |part| {
                let gate = gate.clone();
                async move {
                    let part = part?;
                    if part == "end" {
                        gate.acquire().await.unwrap().forget();
                    }
                    Some((Ok(Frame::data(Bytes::from(part))), (part == "begin").then_some("end")))
                }
            }))))
        }
        "/upgrade" => {
            let client = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut echo = TokioIo::new(client.await.unwrap());
                let (mut read, mut write) = tokio::io::split(&mut echo);
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(header::UPGRADE, "echo".parse().unwrap());
            response.headers_mut().insert(header::CONNECTION, "upgrade".parse().unwrap());
            response
        }
        "/misdirected" => {
            let mut response = full("not here".to_owned());
            *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
            response.headers_mut().insert(MISDIRECTED_HEADER, HeaderValue::from_static("pod"));
            response
        }
        path => match path.rsplit_once('/') {
            Some(("/grpc", status)) => {
                let frames = [Frame::data(Bytes::from_static(&[0; 5])), Frame::trailers(grpc_status(status))];
                Response::new(BoxBody::new(StreamBody::new(stream::iter(frames.map(Ok)))))
            }
            Some(("/grpc-head", status)) => {
                let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
                *response.headers_mut() = grpc_status(status);
                response
            }
            _ => full("ok".to_owned()),
        },
    }
}

fn grpc_status(status: &str) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static("grpc-status"), status.parse().unwrap())])
}

fn full(text: String) -> Response<Body> {
    Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed())
}
