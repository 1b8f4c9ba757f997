//! A pod: a queue-proxy and its app in one, on a loopback address of its own.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use autoscaler::contract::{INTERNAL_HEADERS, MISDIRECTED_HEADER, PROBE_HEADER, PROXIED_HEADER, TUNNEL_PATH};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::combinators::WithTrailers;
use http_body_util::{BodyExt, Either, Full};
use hyper_util::rt::TokioIo;
use proxy::incoming_body::IncomingBody;
use proxy::server::{self, ServerOptions};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::DEADLINE;
use super::work_log::{self, Work};

/// Refuses what is for another pod, as a queue-proxy does; a plain one has no queue-proxy. Answers
/// `/echo` and `/events` with the request's body as it arrives, `/upgrade` and `/tunnel` with an
/// echoing tunnel, and everything else with its address once it is released. Every response has the
/// trace context of its request.
pub struct FakePod {
    state: Arc<PodState>,
    _stop: DropGuard,
}

struct PodState {
    ip: String,
    /// `None` without a queue-proxy.
    uid: Option<HeaderValue>,
    ready: watch::Sender<bool>,
    /// One permit for each request that may be answered.
    gate: Semaphore,
    running: AtomicUsize,
    most: AtomicUsize,
    served: AtomicUsize,
    probes: AtomicUsize,
    refused: AtomicUsize,
    log: Mutex<Vec<Work>>,
}

/// A pod with its own runtime, so that all of its sockets end at once, as with a process.
pub struct KillablePod {
    pod: FakePod,
    runtime: Option<Runtime>,
}

type Body = Either<Full<Bytes>, Either<IncomingBody, WithTrailers<Full<Bytes>, Ready<Trailers>>>>;
type Trailers = Option<Result<HeaderMap, Infallible>>;

impl KillablePod {
    /// Ready.
    pub async fn start(ip: &'static str, port: u16) -> Self {
        Self::with(FakePod::ready(ip, port)).await
    }

    /// Ready, without a queue-proxy.
    pub async fn plain(ip: &'static str, port: u16) -> Self {
        Self::with(FakePod::plain_ready(ip, port)).await
    }

    async fn with(pod: impl Future<Output = FakePod> + Send + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let pod = runtime.spawn(pod).await.unwrap();
        Self { pod, runtime: Some(runtime) }
    }

    /// Completes when its ports are closed.
    pub async fn kill(mut self) {
        let runtime = self.runtime.take().unwrap();
        tokio::task::spawn_blocking(|| runtime.shutdown_timeout(DEADLINE)).await.unwrap();
    }
}

impl Drop for KillablePod {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Deref for KillablePod {
    type Target = FakePod;

    fn deref(&self) -> &FakePod {
        &self.pod
    }
}

impl FakePod {
    /// Its app is not ready yet; its requests are answered at once when it is.
    pub async fn start(ip: &str, port: u16) -> Self {
        Self::with_uid(ip, ip, port).await
    }

    /// A pod that has this address now, and not the uid with which the harness reports it.
    pub async fn with_uid(uid: &str, ip: &str, port: u16) -> Self {
        Self::listen(Some(uid.parse().unwrap()), ip, port).await
    }

    /// Without a queue-proxy. Its app is not ready yet.
    pub async fn plain(ip: &str, port: u16) -> Self {
        Self::listen(None, ip, port).await
    }

    pub async fn plain_ready(ip: &str, port: u16) -> Self {
        let pod = Self::plain(ip, port).await;
        pod.becomes_ready();
        pod
    }

    async fn listen(uid: Option<HeaderValue>, ip: &str, port: u16) -> Self {
        let listener = TcpListener::bind((ip, port)).await.unwrap();
        let state = Arc::new(PodState {
            ip: ip.to_owned(),
            uid,
            ready: watch::Sender::new(false),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            served: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            log: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let service = {
            let state = state.clone();
            move |request, _: &_| {
                let state = state.clone();
                async move { Ok::<_, Infallible>(state.answer(request).await) }
            }
        };
        tokio::spawn(server::serve(listener, service, ServerOptions::default(), stop.clone()));
        Self { state, _stop: stop.drop_guard() }
    }

    pub async fn ready(ip: &str, port: u16) -> Self {
        let pod = Self::start(ip, port).await;
        pod.becomes_ready();
        pod
    }

    pub fn becomes_ready(&self) {
        self.state.ready.send_replace(true);
    }

    /// Requests wait from now on until they are released.
    pub fn close_gate(&self) {
        self.state.gate.forget_permits(usize::MAX);
    }

    pub fn release(&self, count: usize) {
        self.state.gate.add_permits(count);
    }

    pub fn running(&self) -> usize {
        self.state.running.load(Ordering::SeqCst)
    }

    /// The most requests that ran at a time.
    pub fn most(&self) -> usize {
        self.state.most.load(Ordering::SeqCst)
    }

    pub fn served(&self) -> usize {
        self.state.served.load(Ordering::SeqCst)
    }

    /// The requests that had a number, in order of their ends.
    pub fn log(&self) -> Vec<Work> {
        self.state.log.lock().unwrap().clone()
    }

    pub fn probes(&self) -> usize {
        self.state.probes.load(Ordering::SeqCst)
    }

    /// Probes and requests that were for another pod.
    pub fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }
}

impl PodState {
    async fn answer(self: &Arc<Self>, request: Request<IncomingBody>) -> Response<Body> {
        let Some(uid) = &self.uid else { return self.answer_as_app(request).await };
        let is_probe = request.headers().contains_key(PROBE_HEADER);
        self.probes.fetch_add(usize::from(is_probe), Ordering::SeqCst);
        let sent = request.headers().get(PROXIED_HEADER).unwrap();
        // A workloads file may have no uids.
        if sent != uid && sent != "activator" {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return misdirected();
        }
        if let Some(probe) = request.headers().get(PROBE_HEADER) {
            assert_eq!(probe, "queue-proxy");
            self.ready.subscribe().wait_for(|ready| *ready).await.unwrap();
            return Response::new(Either::Left(Full::from("queue-proxy")));
        }
        assert_eq!(internal_headers(&request), 1, "{:?}", request.headers());
        self.serve(request).await
    }

    async fn answer_as_app(self: &Arc<Self>, request: Request<IncomingBody>) -> Response<Body> {
        assert_eq!(internal_headers(&request), 0, "{:?}", request.headers());
        let is_ready = *self.ready.borrow();
        let is_grpc = request.uri().path() == "/grpc.health.v1.Health/Check";
        if request.uri().path() == "/misdirected" {
            return misdirected();
        }
        if !is_grpc && request.uri().path() != "/healthz" {
            return self.serve(request).await;
        }
        assert!(request.headers()["user-agent"].as_bytes().starts_with(b"kube-probe/"));
        self.probes.fetch_add(1, Ordering::SeqCst);
        if is_grpc {
            return grpc_health(request, is_ready).await;
        }
        let status = if is_ready { StatusCode::NO_CONTENT } else { StatusCode::SERVICE_UNAVAILABLE };
        Response::builder().status(status).body(Either::Left(Full::default())).unwrap()
    }

    async fn serve(self: &Arc<Self>, request: Request<IncomingBody>) -> Response<Body> {
        self.served.fetch_add(1, Ordering::SeqCst);
        let running = Running::new(self.clone());
        let is_returned = |name: &str| name.starts_with("trace") || name == "grpc-timeout";
        let context = request.headers().iter().filter(|(name, _)| is_returned(name.as_str()));
        let context: Vec<_> = context.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut response = match request.uri().path() {
            "/echo" => Response::new(Either::Right(Either::Left(request.into_body()))),
            "/events" => {
                assert_eq!(request.headers()["accept-encoding"], "identity");
                let response = Response::builder().header("content-type", "text/event-stream");
                response.body(Either::Right(Either::Left(request.into_body()))).unwrap()
            }
            "/upgrade" | TUNNEL_PATH => upgrade(request, running),
            _ => self.when_release(request).await,
        };
        response.headers_mut().extend(context);
        response
    }

    async fn when_release(&self, request: Request<IncomingBody>) -> Response<Body> {
        self.gate.acquire().await.unwrap().forget();
        if let Some((number, takes)) = work_log::number_and_work(&request) {
            let _logged = Logged { log: &self.log, number, began: Instant::now() };
            tokio::time::sleep(takes).await;
        }
        if request.method() == Method::HEAD {
            return Response::new(Either::Left(Full::default()));
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let text = if body.is_empty() { Bytes::from(self.ip.clone()) } else { body };
        Response::new(Either::Left(Full::new(text)))
    }
}

/// Logs a request when it ends.
struct Logged<'a> {
    log: &'a Mutex<Vec<Work>>,
    number: usize,
    began: Instant,
}

impl Drop for Logged<'_> {
    fn drop(&mut self) {
        let work = Work { number: self.number, began: self.began, ended: Instant::now() };
        self.log.lock().unwrap().push(work);
    }
}

struct Running(Arc<PodState>);

impl Running {
    fn new(state: Arc<PodState>) -> Self {
        let now = state.running.fetch_add(1, Ordering::SeqCst) + 1;
        state.most.fetch_max(now, Ordering::SeqCst);
        Self(state)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

fn internal_headers(request: &Request<IncomingBody>) -> usize {
    request.headers().keys().filter(|name| INTERNAL_HEADERS.contains(&name.as_str())).count()
}

/// The response of grpc.health.v1 for the service `shop`.
async fn grpc_health(request: Request<IncomingBody>, is_ready: bool) -> Response<Body> {
    assert_eq!(request.version(), Version::HTTP_2);
    let message = request.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(message, b"\0\0\0\0\x06\x0a\x04shop".as_slice());
    let status = if is_ready { 1 } else { 2 };
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from(vec![0, 0, 0, 0, 2, 8, status]));
    let body = body.with_trailers(ready(Some(Ok(trailers))));
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Either::Right(Either::Right(body))).unwrap()
}

fn misdirected() -> Response<Body> {
    Response::builder()
        .status(StatusCode::MISDIRECTED_REQUEST)
        .header(MISDIRECTED_HEADER, "pod")
        .body(Either::Left(Full::default()))
        .unwrap()
}

fn upgrade(mut request: Request<IncomingBody>, running: Running) -> Response<Body> {
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(TokioIo::new(upgraded.await.unwrap()));
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
        drop(running);
    });
    Response::builder()
        .status(101)
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Either::Left(Full::default()))
        .unwrap()
}
