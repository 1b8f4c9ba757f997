//! StatServer: the stats port, where the components of an installation exchange load and decisions.
//!
//! | path | client | protocol |
//! |---|---|---|
//! | `/push` | activator | websocket; reports are recorded, and poke the multi-scaler if urgent |
//! | `/decisions` | zero-scaler | websocket; a snapshot of all decisions, then each change |
//! | `/forward` | another replica | HTTP; a metric query for the leader |
//!
//! Every client presents the token of its service account. An invalid frame is dropped and counted,
//! and its connection stays open; its second counts as not reported, so no workload is idle. A
//! subscriber that lags is disconnected and reconnects for a new snapshot.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::version_skew::{DECISIONS, HELLO_HEADER, MessageFormat, QUERIES, REPORTS};
use autoscaler::contract::{
    ACTIVATOR_ACCOUNT, DECISIONS_PATH, FORWARD_PATH, METRICS_ADAPTER_ACCOUNT, PUSH_PATH, ZERO_SCALER_ACCOUNT,
};
use autoscaler::stats::reporters::{BEAT, LOST_AFTER};
use autoscaler::stats::{ActivatorReport, FirstRequestReport, WakeReport};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use component_base::auth::{AuthError, TokenGuard};
use component_base::server::{self, ClientAddress, ServerLimits};
use component_base::websocket::{PeerError, PeerLimits, PeerSender, split};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower_service::Service;
use tracing::{Instrument, Span};

use crate::collection::collector::{Collector, ConnectedActivator, PushOutcome};
use crate::collection::pod_reports::PodReports;
use crate::decisions::decision_history::DecisionHistory;
use crate::decisions::decision_store::DecisionStore;
use crate::decisions::pokes::Pokes;
use crate::external_metrics::Api;
use crate::metrics::Metrics;

/// Largest frame of an activator, in bytes. Frames have at most 1 MiB; activators of version 0 sent
/// a push of ten thousand workloads in one.
const MAX_FRAME: usize = 4 * 1024 * 1024;
/// Largest frame of a subscriber, in bytes. Subscribers only answer pings.
const MAX_SUBSCRIBER_FRAME: usize = 4096;
/// Concurrent connections of activators.
const MAX_ACTIVATORS: usize = 512;
/// Concurrent subscribers of decisions.
const MAX_SUBSCRIBERS: usize = 64;
/// Activators report each second, and zero-scalers ping as often.
const PEER_LIMITS: PeerLimits =
    PeerLimits { ping_interval: BEAT, silence_timeout: LOST_AFTER, send_timeout: Duration::from_secs(5) };

/// The state that all connections share.
#[derive(Clone, Debug)]
pub struct StatServer {
    collector: Arc<Collector>,
    pod_reports: Arc<PodReports>,
    decisions: Arc<DecisionStore>,
    history: Arc<DecisionHistory>,
    pokes: Pokes,
    metrics: Metrics,
    guard: TokenGuard,
    /// Of this pod, for hellos.
    name: String,
    activators: Arc<Semaphore>,
    subscribers: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Why a connection was closed.
#[derive(Debug, thiserror::Error)]
enum DisconnectReason {
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("the subscriber lagged by {0} changes")]
    Lagged(u64),
    #[error("this process is stopping")]
    Stopping,
}

type WebSocketSender = PeerSender<WebSocket, Message>;

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
            pod_reports: Arc::default(),
            history: Arc::default(),
            decisions,
            pokes,
            metrics,
            guard,
            name: String::new(),
            activators: Arc::new(Semaphore::new(MAX_ACTIVATORS)),
            subscribers: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            stop,
        }
    }

    /// Records what activators report of pods in `pod_reports`.
    #[must_use]
    pub fn with_pod_reports(self, pod_reports: Arc<PodReports>) -> Self {
        Self { pod_reports, ..self }
    }

    /// Records the wakes that activators report in `history`.
    #[must_use]
    pub fn with_history(self, history: Arc<DecisionHistory>) -> Self {
        Self { history, ..self }
    }

    /// States the name of this pod to clients.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Serves until `stop`. Followers' queries go to `api`.
    pub async fn serve(self, listener: TcpListener, api: Arc<Api>) {
        let stop = self.stop.clone();
        let forward = Router::new()
            .route(&format!("{FORWARD_PATH}/{{*path}}"), get(forwarded))
            .with_state((self.clone(), api));
        let router = Router::new()
            .route(PUSH_PATH, get(push))
            .route(DECISIONS_PATH, get(decisions))
            .with_state(self)
            .merge(forward);
        let handler = move |request: http::Request<hyper::body::Incoming>| {
            let mut router = router.clone();
            async move {
                let Ok(response) = Service::call(&mut router, request).await as Result<Response, Infallible>;
                response
            }
        };
        // Websockets leave these bounds when their token is accepted, and have bounds of their own.
        let limits = ServerLimits {
            header_read_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(2),
            ..ServerLimits::default()
        };
        server::serve(listener, handler, limits, stop).await;
    }

    /// Records one frame of an activator.
    fn record(&self, text: &str, activator: &mut ConnectedActivator) {
        let push: ActivatorReport = match serde_json::from_str(text) {
            Ok(push) => push,
            Err(error) => {
                self.metrics.pushes.bad_frames.inc();
                tracing::debug!(%error, "invalid frame dropped");
                return activator.malformed();
            }
        };
        self.metrics.pushes.frames.inc();
        self.metrics.pushes.bad_frames.inc_by(u64::from(push.skipped > 0));
        let mut is_whole = true;
        for message in &push.messages {
            match self.collector.record_push(message) {
                PushOutcome::Recorded => {
                    if message.stat.average_concurrent_requests > 0.0 {
                        self.pokes.on_push(&message.key);
                    }
                }
                PushOutcome::UnknownWorkload => self.metrics.pushes.unknown_workload.inc(),
                PushOutcome::Implausible => {
                    self.metrics.pushes.implausible.inc();
                    is_whole = false;
                }
            }
        }
        activator.frame(&push, is_whole);
        for pod in &push.pods {
            self.pod_reports.record(self.collector.clock().second_of(pod.stat.timestamp), pod);
        }
        let now = component_base::clock::unix_millis();
        for WakeReport { key, wake } in &push.wakes {
            self.history.record_wake(key, *wake, now);
        }
        for FirstRequestReport { key, request } in push.first_requests {
            self.history.record_first_request(&key, request, now);
        }
    }

    /// Refuses a client with a newer version of `messages`.
    fn refuse_newer(messages: MessageFormat, headers: &HeaderMap) -> Option<Response> {
        let refusal = messages.check(headers.get(HELLO_HEADER).map(HeaderValue::as_bytes)).err()?;
        tracing::error!(%refusal, "client refused");
        Some((StatusCode::UPGRADE_REQUIRED, format!("{refusal}\n")).into_response())
    }

    fn with_hello(&self, messages: MessageFormat, mut response: Response) -> Response {
        // The name of a pod is valid in a header.
        if let Ok(hello) = HeaderValue::try_from(messages.hello(&self.name)) {
            response.headers_mut().insert(HELLO_HEADER, hello);
        }
        response
    }

    fn reject(&self, error: &AuthError) -> Response {
        self.metrics.stats_unauthorized.inc();
        tracing::warn!(%error, "request to the stats port rejected");
        (error.status(), format!("{error}\n")).into_response()
    }

    async fn receive(self, socket: WebSocket, permit: OwnedSemaphorePermit) {
        let mut activator = self.collector.activator_connected();
        self.metrics.pushes.connections.inc();
        let (mut sender, mut receiver) = split(socket, PEER_LIMITS);
        let receiving = async {
            loop {
                match receiver.next().await {
                    Ok(Message::Text(text)) => self.record(text.as_str(), &mut activator),
                    Ok(Message::Binary(_)) => {
                        self.metrics.pushes.bad_frames.inc();
                        activator.malformed();
                    }
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        };
        let reason = tokio::select! {
            error = receiving => error.into(),
            pinged = sender.ping_until(self.stop.cancelled()) => {
                pinged.map_or_else(DisconnectReason::from, |()| DisconnectReason::Stopping)
            }
        };
        tracing::info!(%reason, "activator disconnected");
        close(&mut sender, &reason).await;
        self.metrics.pushes.connections.dec();
        drop((activator, permit));
    }

    async fn publish(self, socket: WebSocket, permit: OwnedSemaphorePermit) {
        self.metrics.decision_subscribers.inc();
        let (mut sender, mut receiver) = split(socket, PEER_LIMITS);
        let reason = tokio::select! {
            Err(reason) = self.send_decisions(&mut sender) => reason,
            error = receiver.closed() => error.into(),
            () = self.stop.cancelled() => DisconnectReason::Stopping,
        };
        tracing::info!(%reason, "decision subscriber disconnected");
        if matches!(reason, DisconnectReason::Peer(PeerError::SendTimeout(_)) | DisconnectReason::Lagged(_)) {
            self.metrics.decision_subscribers_dropped.inc();
        }
        close(&mut sender, &reason).await;
        self.metrics.decision_subscribers.dec();
        drop(permit);
    }

    async fn send_decisions(&self, sender: &mut WebSocketSender) -> Result<Infallible, DisconnectReason> {
        let (first, mut changes) = self.decisions.subscribe();
        sender.send(first.into_iter().map(Message::Text)).await?;
        loop {
            let mut batch = match sender.ping_until(changes.recv()).await? {
                Ok(change) => vec![Message::Text(change)],
                Err(RecvError::Lagged(missed)) => return Err(DisconnectReason::Lagged(missed)),
                Err(RecvError::Closed) => return Err(DisconnectReason::Stopping),
            };
            // Decisions come in bursts, which are sent together.
            loop {
                match changes.try_recv() {
                    Ok(change) => batch.push(Message::Text(change)),
                    Err(TryRecvError::Lagged(missed)) => return Err(DisconnectReason::Lagged(missed)),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            sender.send(batch).await?;
        }
    }
}

/// Sends a close frame at shutdown. Code 1012 (service restart) makes the peer reconnect, possibly
/// to another replica.
async fn close(sender: &mut WebSocketSender, reason: &DisconnectReason) {
    if matches!(reason, DisconnectReason::Stopping) {
        let frame = CloseFrame { code: close_code::RESTART, reason: "stopping".into() };
        if let Err(error) = sender.send([Message::Close(Some(frame))]).await {
            tracing::debug!(%error, "close frame not sent");
        }
    }
}

async fn push(
    State(server): State<StatServer>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Err(error) = server.guard.authorize(&headers, client, &[ACTIVATOR_ACCOUNT]).await {
        return server.reject(&error);
    }
    if let Some(refusal) = StatServer::refuse_newer(REPORTS, &headers) {
        return refusal;
    }
    let Ok(permit) = server.activators.clone().try_acquire_owned() else {
        server.metrics.pushes.rejected.inc();
        return (StatusCode::SERVICE_UNAVAILABLE, "too many activators connected\n").into_response();
    };
    let upgrade = upgrade.max_frame_size(MAX_FRAME).max_message_size(MAX_FRAME);
    let span = Span::current();
    upgrade.on_upgrade(move |socket| server.receive(socket, permit).instrument(span))
}

async fn decisions(
    State(server): State<StatServer>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    if let Err(error) = server.guard.authorize(&headers, client, &[ZERO_SCALER_ACCOUNT]).await {
        return server.reject(&error);
    }
    let Ok(permit) = server.subscribers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many subscribers connected\n").into_response();
    };
    let upgrade = upgrade.max_frame_size(MAX_SUBSCRIBER_FRAME).max_message_size(MAX_SUBSCRIBER_FRAME);
    let span = Span::current();
    let publisher = server.clone();
    let response = upgrade.on_upgrade(move |socket| publisher.publish(socket, permit).instrument(span));
    server.with_hello(DECISIONS, response)
}

async fn forwarded(
    State((server, api)): State<(StatServer, Arc<Api>)>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    if let Err(error) = server.guard.authorize(&headers, client, &[METRICS_ADAPTER_ACCOUNT]).await {
        return server.reject(&error);
    }
    if let Some(refusal) = StatServer::refuse_newer(QUERIES, &headers) {
        return refusal;
    }
    let path = uri.path_and_query().and_then(|path| path.as_str().strip_prefix(FORWARD_PATH));
    match path.and_then(|path| path.parse::<Uri>().ok()) {
        Some(uri) => {
            let response = api.serve_forwarded(&uri, &headers).map(axum::body::Body::new);
            server.with_hello(QUERIES, response)
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
