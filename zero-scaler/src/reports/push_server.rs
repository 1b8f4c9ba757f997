//! Receives the reports of activators: websocket at `/push`, text frames of [`ActivatorReport`].
//!
//! Clients authenticate with an activator's token. Reports go to the wake path. A connection that
//! breaks may show that the activator's process was killed: see [`ActivatorConnections`].
//! Frame size and number of connections are bounded; connections without a valid token have bounds
//! of their own. A malformed frame is dropped and counted, and
//! its connection stays open, so that the next report of the same activator can still wake a
//! workload. Its second counts as not reported, so no workload goes to zero.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use autoscaler::contract::version_skew::{HELLO_HEADER, REPORTS};
use autoscaler::contract::{ACTIVATOR_ACCOUNT, PUSH_PATH};
use autoscaler::stats::reporters::{BEAT, LOST_AFTER};
use autoscaler::stats::{ActivatorReport, ReportStream};
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use axum::{Extension, Router};
use component_base::auth::TokenGuard;
use component_base::server::{self, ClientAddress, ServerLimits};
use component_base::websocket::{PeerError, PeerLimits, split};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_service::Service;
use tracing::{Instrument, Span};

use crate::activators::connections::ActivatorConnections;
use crate::metrics::Metrics;
use crate::scaling::scale_targets::ScaleAccess;
use crate::scaling::wake::WakePath;
use crate::scaling::workloads_at_zero::WorkloadsAtZero;

/// Frames have at most 1 MiB; activators of version 0 sent larger ones.
const MAX_FRAME_BYTES: usize = 4 << 20;
const MAX_CONNECTIONS: usize = 1024;
/// An activator reports every second, also without requests.
const LIMITS: PeerLimits =
    PeerLimits { ping_interval: BEAT, silence_timeout: LOST_AFTER, send_timeout: LOST_AFTER };

struct PushServer<S, W> {
    wake: Arc<WakePath<S, W>>,
    metrics: Metrics,
    guard: TokenGuard,
    activators: ActivatorConnections,
    connection_permits: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Accepts connections of activators until `stop`.
pub async fn serve<S: ScaleAccess, W: WorkloadsAtZero>(
    listener: TcpListener,
    wake: Arc<WakePath<S, W>>,
    metrics: Metrics,
    guard: TokenGuard,
    activators: ActivatorConnections,
    stop: CancellationToken,
) {
    let connection_permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let server =
        Arc::new(PushServer { wake, metrics, guard, activators, connection_permits, stop: stop.clone() });
    let router = Router::new().route(PUSH_PATH, any(upgrade::<S, W>)).with_state(server);
    let handler = move |request: axum::http::Request<Incoming>| {
        let mut router = router.clone();
        async move {
            let Ok(response) = Service::call(&mut router, request).await as Result<Response, Infallible>;
            response
        }
    };
    server::serve(listener, handler, ServerLimits::default(), stop).await;
}

async fn upgrade<S: ScaleAccess, W: WorkloadsAtZero>(
    State(server): State<Arc<PushServer<S, W>>>,
    Extension(ClientAddress(peer)): Extension<ClientAddress>,
    headers: HeaderMap,
    request: WebSocketUpgrade,
) -> Response {
    if let Err(rejection) = server.guard.authorize(&headers, peer, &[ACTIVATOR_ACCOUNT]).await {
        server.metrics.push_connections_refused.inc();
        tracing::warn!(%rejection, "push connection rejected");
        return (rejection.status(), format!("{rejection}\n")).into_response();
    }
    if let Err(refusal) = REPORTS.check(headers.get(HELLO_HEADER).map(HeaderValue::as_bytes)) {
        server.metrics.push_connections_refused.inc();
        tracing::error!(%refusal, "reports of an activator refused");
        return (StatusCode::UPGRADE_REQUIRED, format!("{refusal}\n")).into_response();
    }
    let Ok(permit) = server.connection_permits.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many connections\n").into_response();
    };
    let span = Span::current();
    request
        .max_message_size(MAX_FRAME_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .on_upgrade(move |socket| receive_reports(socket, peer, server, permit).instrument(span))
}

async fn receive_reports<S: ScaleAccess, W: WorkloadsAtZero>(
    socket: WebSocket,
    peer: IpAddr,
    server: Arc<PushServer<S, W>>,
    permit: OwnedSemaphorePermit,
) {
    server.activators.opened(peer);
    let connected = ConnectedActivator::new(&server.metrics);
    let (mut sender, mut receiver) = split(socket, LIMITS);
    let mut stream = ReportStream::default();
    let receiving = async {
        loop {
            let message = receiver.next().await?;
            // The latency of a wake counts from here, before the frame is parsed.
            let received = tokio::time::Instant::now().into_std();
            match message {
                Message::Text(text) => {
                    server.metrics.push_frames.inc();
                    match serde_json::from_str::<ActivatorReport>(text.as_str()) {
                        Ok(report) => {
                            server.activators.report(&mut stream, &report);
                            server.wake.receive(report, received);
                        }
                        Err(error) => {
                            drop_malformed(&server.metrics, &error);
                            server.activators.malformed(&mut stream);
                        }
                    }
                }
                Message::Binary(_) => {
                    drop_malformed(&server.metrics, &"binary frame");
                    server.activators.malformed(&mut stream);
                }
                _ => {}
            }
        }
    };
    let ended: Result<Infallible, PeerError> = tokio::select! {
        ended = receiving => ended,
        ended = sender.ping_until(server.stop.cancelled()) => match ended {
            Ok(()) => return,
            Err(error) => Err(error),
        },
    };
    server.activators.interrupted(&stream);
    let Err(error) = ended;
    tracing::debug!(%error, "activator disconnected");
    drop((connected, permit));
    if !matches!(error, PeerError::Closed) {
        server.activators.broken(peer).await;
    }
}

fn drop_malformed(metrics: &Metrics, error: &dyn std::fmt::Display) {
    metrics.push_frames_bad.inc();
    tracing::warn!(%error, "malformed push frame dropped");
}

/// Counts an open connection.
struct ConnectedActivator<'a>(&'a Metrics);

// === impl ConnectedActivator ===

impl<'a> ConnectedActivator<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.push_connections.inc();
        Self(metrics)
    }
}

impl Drop for ConnectedActivator<'_> {
    fn drop(&mut self) {
        self.0.push_connections.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{SinkExt, StreamExt};
    use prometheus::Registry;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpSocket;
    use tokio::time::timeout;
    use tokio_tungstenite::tungstenite::Message as Frame;

    use super::*;
    use crate::activators::fake_network::{FakeNetwork, activators_of};
    use crate::cache::work_queue::WorkQueues;
    use crate::scaling::wake::tests::{FakeTarget, push, wake, workload};

    fn no_activators() -> ActivatorConnections {
        let (activators, cache) = activators_of(&Arc::new(FakeNetwork::default()), &[]);
        ActivatorConnections::new(activators, cache, Arc::new(WorkQueues::default()))
    }

    #[tokio::test]
    async fn idle_connections_leave_room_for_activators() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (target, _writes) = FakeTarget::new(Duration::ZERO);
        let (wake, stop) = (wake(target, Some(workload("1"))), CancellationToken::new());
        let serve = serve(listener, wake, metrics, TokenGuard::allow_all(), no_activators(), stop);
        let server = tokio::spawn(serve);
        let mut idle = Vec::new();
        for _ in 0..150 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
            idle.push(socket.connect(address).await.unwrap());
        }
        // The server closes those beyond the bound of a peer.
        let closed = timeout(Duration::from_secs(5), idle[0].read(&mut [0])).await;
        assert_eq!(closed.expect("no bound").unwrap_or(0), 0);
        let url = format!("ws://{address}{PUSH_PATH}");
        timeout(Duration::from_secs(5), tokio_tungstenite::connect_async(&url)).await.unwrap().unwrap();
        server.abort();
    }

    #[tokio::test]
    async fn push_scales_workload_within_100_ms_after_malformed_frames() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let stop = CancellationToken::new();
        let wake = wake(target, Some(workload("1")));
        let server = tokio::spawn(serve(
            listener,
            wake,
            metrics.clone(),
            TokenGuard::allow_all(),
            no_activators(),
            stop.clone(),
        ));

        let url = format!("ws://{address}{PUSH_PATH}");
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        socket.send(Frame::text("{\"activator\": 1}")).await.unwrap();
        socket.send(Frame::binary(vec![0u8, 1, 2])).await.unwrap();
        let started = tokio::time::Instant::now();
        socket.send(Frame::text(serde_json::to_string(&push("web", 1.0)).unwrap())).await.unwrap();
        let written = timeout(Duration::from_secs(5), writes.recv()).await.unwrap();
        assert_eq!(written, Some((2, Some("1".into()))));
        // The budget is 10 ms; ten times as much allows for a loaded test machine.
        assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
        assert_eq!((metrics.push_frames_bad.get(), metrics.push_connections.get()), (2, 1));

        stop.cancel();
        assert!(timeout(Duration::from_secs(5), socket.next()).await.is_ok());
        timeout(Duration::from_secs(5), server).await.unwrap().unwrap();
        assert_eq!(metrics.push_connections.get(), 0);
    }
}
