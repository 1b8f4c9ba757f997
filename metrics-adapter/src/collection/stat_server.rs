//! StatServer: the stats port, where the components of an installation exchange load and decisions.
//!
//! | path | client | protocol |
//! |---|---|---|
//! | `/push` | activator | websocket; reports are recorded, and poke the multi-scaler if urgent |
//! | `/decisions` | zero-scaler | websocket; a snapshot of all decisions, then each change |
//! | `/forward` | another replica | HTTP; a metric query for the leader |
//!
//! Every client presents the token of its service account. An invalid frame is dropped and counted,
//! and its connection stays open. A subscriber that lags is disconnected and reconnects for a new
//! snapshot.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{
    ACTIVATOR_ACCOUNT, DECISIONS_PATH, METRICS_ADAPTER_ACCOUNT, PUSH_PATH, RELAY_PATH, ZERO_SCALER_ACCOUNT,
};
use autoscaler::stats::ActivatorReport;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::SinkExt;
use http::{HeaderMap, StatusCode, Uri};
use runtime::auth::{AuthError, TokenGuard};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::collection::collector::{Collector, PushOutcome};
use crate::decisions::decision_store::DecisionStore;
use crate::decisions::pokes::Pokes;
use crate::external_metrics::Api;
use crate::metrics::Metrics;

/// Largest frame of an activator, in bytes: a push of about ten thousand workloads.
const MAX_FRAME: usize = 4 * 1024 * 1024;
/// Largest frame of a subscriber, in bytes. Subscribers only answer pings.
const MAX_SUBSCRIBER_FRAME: usize = 4096;
/// Concurrent connections of activators.
const MAX_ACTIVATORS: usize = 512;
/// Concurrent subscribers of decisions.
const MAX_SUBSCRIBERS: usize = 64;
/// How often to ask a silent peer for a sign of life.
const PING: Duration = Duration::from_secs(3);
/// A peer that gave none for this long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// A peer that cannot take a message within this time does not keep up.
const SEND: Duration = Duration::from_secs(5);

/// Shared by all connections.
#[derive(Clone, Debug)]
pub struct StatServer {
    collector: Arc<Collector>,
    decisions: Arc<DecisionStore>,
    pokes: Pokes,
    metrics: Metrics,
    guard: TokenGuard,
    activators: Arc<Semaphore>,
    subscribers: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the peer closed it")]
    Closed,
    #[error("nothing was heard for {SILENCE:?}")]
    Silent,
    #[error("a message was not taken within {SEND:?}")]
    Stuck,
    #[error("the peer fell {0} changes behind")]
    Behind(u64),
    #[error("this process is stopping")]
    Stopping,
    #[error(transparent)]
    Broken(#[from] axum::Error),
}

/// One connection and its signs of life.
struct Peer {
    socket: WebSocket,
    heard: Instant,
    ping: tokio::time::Interval,
    stop: CancellationToken,
}

// === impl StatServer ===

impl StatServer {
    /// A server that authenticates with `guard` and closes its connections on `stop`.
    pub fn new(
        collector: Arc<Collector>,
        decisions: Arc<DecisionStore>,
        pokes: Pokes,
        metrics: Metrics,
        guard: TokenGuard,
        stop: CancellationToken,
    ) -> Self {
        Self {
            collector,
            decisions,
            pokes,
            metrics,
            guard,
            activators: Arc::new(Semaphore::new(MAX_ACTIVATORS)),
            subscribers: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            stop,
        }
    }

    /// Serves until `stop`. Followers' queries go to `api`.
    pub async fn serve(self, listener: TcpListener, api: Arc<Api>) {
        let stop = self.stop.clone();
        let forward = Router::new()
            .route(&format!("{RELAY_PATH}/{{*path}}"), get(forwarded))
            .with_state((self.clone(), api));
        let router = Router::new()
            .route(PUSH_PATH, get(push))
            .route(DECISIONS_PATH, get(decisions))
            .with_state(self)
            .merge(forward);
        let service = move |request: http::Request<hyper::body::Incoming>, _: &_| {
            let mut router = router.clone();
            async move { Service::call(&mut router, request).await as Result<Response, Infallible> }
        };
        let options = proxy::server::ServerOptions {
            header_read_timeout: Duration::from_secs(5),
            max_connections: 2 * (MAX_ACTIVATORS + MAX_SUBSCRIBERS),
            drain_timeout: Duration::from_secs(2),
            ..proxy::server::ServerOptions::default()
        };
        proxy::server::serve(listener, service, options, stop).await;
    }

    /// Records one frame of an activator.
    fn record(&self, text: &str) {
        let push: ActivatorReport = match serde_json::from_str(text) {
            Ok(push) => push,
            Err(error) => {
                self.metrics.pushes.bad_frames.inc();
                tracing::debug!(%error, "invalid frame dropped");
                return;
            }
        };
        self.metrics.pushes.frames.inc();
        for message in &push.messages {
            match self.collector.record_push(message) {
                PushOutcome::Recorded => {
                    if message.stat.average_concurrent_requests > 0.0 {
                        self.pokes.on_push(&message.key);
                    }
                }
                PushOutcome::UnknownWorkload => self.metrics.pushes.unknown_workload.inc(),
                PushOutcome::Implausible => self.metrics.pushes.implausible.inc(),
            }
        }
    }

    fn reject(&self, error: &AuthError) -> Response {
        self.metrics.stats_unauthorized.inc();
        tracing::warn!(%error, "request to the stats port rejected");
        (error.status(), format!("{error}\n")).into_response()
    }

    async fn receive(self, socket: WebSocket, permit: OwnedSemaphorePermit) {
        let connected = self.collector.activator_connected();
        self.metrics.pushes.connections.inc();
        let mut peer = Peer::new(socket, self.stop.clone());
        let ended = loop {
            match peer.next(std::future::pending::<Infallible>()).await {
                Ok(Next::Message(Message::Text(text))) => self.record(text.as_str()),
                Ok(Next::Message(Message::Binary(_))) => self.metrics.pushes.bad_frames.inc(),
                Ok(_) => {}
                Err(ended) => break ended,
            }
        };
        tracing::info!(reason = %ended, "activator disconnected");
        peer.close(&ended).await;
        self.metrics.pushes.connections.dec();
        drop((connected, permit));
    }

    async fn publish(self, socket: WebSocket, permit: OwnedSemaphorePermit) {
        self.metrics.decision_subscribers.inc();
        let mut peer = Peer::new(socket, self.stop.clone());
        let ended = match self.send_decisions(&mut peer).await {
            Ok(never) => match never {},
            Err(ended) => ended,
        };
        tracing::info!(reason = %ended, "decision subscriber disconnected");
        if matches!(ended, Ended::Stuck | Ended::Behind(_)) {
            self.metrics.decision_subscribers_dropped.inc();
        }
        peer.close(&ended).await;
        self.metrics.decision_subscribers.dec();
        drop(permit);
    }

    async fn send_decisions(&self, peer: &mut Peer) -> Result<Infallible, Ended> {
        let (snapshot, mut changes) = self.decisions.subscribe();
        if let Some(snapshot) = snapshot {
            peer.send(Message::Text(snapshot)).await?;
        }
        loop {
            match peer.next(changes.recv()).await? {
                Next::Ours(Ok(change)) => peer.tell(change, &mut changes).await?,
                Next::Ours(Err(RecvError::Lagged(missed))) => return Err(Ended::Behind(missed)),
                Next::Ours(Err(RecvError::Closed)) => return Err(Ended::Stopping),
                Next::Message(_) => {}
            }
        }
    }
}

async fn push(State(server): State<StatServer>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    if let Err(error) = server.guard.authorize(&headers, &[ACTIVATOR_ACCOUNT]).await {
        return server.reject(&error);
    }
    let Ok(permit) = server.activators.clone().try_acquire_owned() else {
        server.metrics.pushes.rejected.inc();
        return (StatusCode::SERVICE_UNAVAILABLE, "too many activators connected\n").into_response();
    };
    let upgrade = upgrade.max_frame_size(MAX_FRAME).max_message_size(MAX_FRAME);
    upgrade.on_upgrade(move |socket| server.receive(socket, permit))
}

async fn decisions(
    State(server): State<StatServer>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Err(error) = server.guard.authorize(&headers, &[ZERO_SCALER_ACCOUNT]).await {
        return server.reject(&error);
    }
    let Ok(permit) = server.subscribers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many subscribers connected\n").into_response();
    };
    let upgrade = upgrade.max_frame_size(MAX_SUBSCRIBER_FRAME).max_message_size(MAX_SUBSCRIBER_FRAME);
    upgrade.on_upgrade(move |socket| server.publish(socket, permit))
}

async fn forwarded(
    State((server, api)): State<(StatServer, Arc<Api>)>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if let Err(error) = server.guard.authorize(&headers, &[METRICS_ADAPTER_ACCOUNT]).await {
        return server.reject(&error);
    }
    let path = uri.path_and_query().and_then(|path| path.as_str().strip_prefix(RELAY_PATH));
    match path.and_then(|path| path.parse::<Uri>().ok()) {
        Some(uri) => api.serve_forwarded(&uri, &headers).map(axum::body::Body::new),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What a connection waited for.
enum Next<T> {
    Message(Message),
    Ours(T),
}

// === impl Peer ===

impl Peer {
    fn new(socket: WebSocket, stop: CancellationToken) -> Self {
        let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
        ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { socket, heard: Instant::now(), ping, stop }
    }

    /// The peer's next message, or what `ours` gives, whichever is first.
    async fn next<T>(&mut self, ours: impl Future<Output = T>) -> Result<Next<T>, Ended> {
        let mut ours = std::pin::pin!(ours);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Err(Ended::Stopping),
                () = tokio::time::sleep_until(self.heard + SILENCE) => return Err(Ended::Silent),
                _ = self.ping.tick() => {
                    send(&mut self.socket, Message::Ping(bytes::Bytes::new())).await?;
                }
                message = self.socket.recv() => {
                    let message = message.ok_or(Ended::Closed)??;
                    self.heard = Instant::now();
                    if matches!(message, Message::Close(_)) {
                        return Err(Ended::Closed);
                    }
                    return Ok(Next::Message(message));
                }
                value = &mut ours => return Ok(Next::Ours(value)),
            }
        }
    }

    async fn send(&mut self, message: Message) -> Result<(), Ended> {
        send(&mut self.socket, message).await
    }

    /// Sends a change, and those that are there already, together: decisions come many at a time.
    async fn tell(
        &mut self,
        change: Utf8Bytes,
        more: &mut broadcast::Receiver<Utf8Bytes>,
    ) -> Result<(), Ended> {
        let all = async {
            self.socket.feed(Message::Text(change)).await?;
            loop {
                match more.try_recv() {
                    Ok(change) => self.socket.feed(Message::Text(change)).await?,
                    Err(TryRecvError::Lagged(missed)) => return Err(Ended::Behind(missed)),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            Ok(self.socket.flush().await?)
        };
        tokio::time::timeout(SEND, all).await.map_err(|_| Ended::Stuck)?
    }

    /// Says goodbye to a peer that still listens. "Restart" tells it to come back, or to go to
    /// another replica.
    async fn close(&mut self, ended: &Ended) {
        if matches!(ended, Ended::Stopping) {
            let frame = CloseFrame { code: close_code::RESTART, reason: "stopping".into() };
            if let Err(error) = self.send(Message::Close(Some(frame))).await {
                tracing::debug!(%error, "no goodbye");
            }
        }
    }
}

async fn send(socket: &mut WebSocket, message: Message) -> Result<(), Ended> {
    Ok(tokio::time::timeout(SEND, socket.send(message)).await.map_err(|_| Ended::Stuck)??)
}
