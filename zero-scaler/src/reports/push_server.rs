//! The activators' pushes: a websocket at `/push`, text frames of [`ActivatorReport`], from whoever shows an activator's token.
//!
//! Frames and connections are bounded; a frame that makes no sense is dropped and counted, and its connection lives on:
//! one bad message of an activator must not keep its next one from waking somebody.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{ACTIVATOR_ACCOUNT, PUSH_PATH};
use autoscaler::stats::ActivatorReport;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use runtime::auth::TokenGuard;
use runtime::websocket::{PeerError, PeerLimits, split};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::scaling::scale_targets::ScaleAccess;
use crate::scaling::wake::{WakePath, WorkloadsAtZero};

/// A push of 5,000 workloads has about 1 MiB.
const LARGEST_FRAME: usize = 4 << 20;
/// Activators that may be connected.
const MOST_CONNECTIONS: usize = 1024;
/// An activator with requests pushes every second; an idle one responds to pings.
const LIMITS: PeerLimits = PeerLimits {
    ping_interval: Duration::from_secs(10),
    silence_timeout: Duration::from_secs(30),
    send_timeout: Duration::from_secs(10),
};

struct Shared<S, W> {
    wake: Arc<WakePath<S, W>>,
    metrics: Metrics,
    guard: TokenGuard,
    places: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Takes pushes until `stop`.
///
/// # Errors
/// When the listener fails.
pub async fn serve<S: ScaleAccess, W: WorkloadsAtZero>(
    listener: TcpListener,
    wake: Arc<WakePath<S, W>>,
    metrics: Metrics,
    guard: TokenGuard,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let shared = Arc::new(Shared { wake, metrics, guard, places, stop: stop.clone() });
    let router = Router::new().route(PUSH_PATH, any(upgrade::<S, W>)).with_state(shared);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn upgrade<S: ScaleAccess, W: WorkloadsAtZero>(
    State(shared): State<Arc<Shared<S, W>>>,
    headers: HeaderMap,
    request: WebSocketUpgrade,
) -> Response {
    if let Err(refusal) = shared.guard.authorize(&headers, &[ACTIVATOR_ACCOUNT]).await {
        shared.metrics.push_connections_refused.inc();
        tracing::warn!(%refusal, "a push is refused");
        return (refusal.status(), format!("{refusal}\n")).into_response();
    }
    let Ok(place) = shared.places.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many connections\n").into_response();
    };
    request
        .max_message_size(LARGEST_FRAME)
        .max_frame_size(LARGEST_FRAME)
        .on_upgrade(move |socket| read(socket, shared, place))
}

async fn read<S: ScaleAccess, W: WorkloadsAtZero>(
    socket: WebSocket,
    shared: Arc<Shared<S, W>>,
    _place: OwnedSemaphorePermit,
) {
    let _connected = Connected::new(&shared.metrics);
    let (mut sender, mut receiver) = split(socket, LIMITS);
    let received = async {
        loop {
            let message = receiver.next().await?;
            // The clock of a wake starts here, before anything is parsed.
            let received = tokio::time::Instant::now().into_std();
            match message {
                Message::Text(text) => {
                    shared.metrics.push_frames.inc();
                    match serde_json::from_str::<ActivatorReport>(text.as_str()) {
                        Ok(push) => shared.wake.receive(push, received),
                        Err(error) => bad_frame(&shared.metrics, &error),
                    }
                }
                Message::Binary(_) => bad_frame(&shared.metrics, &"binary"),
                _ => {}
            }
        }
    };
    let ended: Result<Infallible, PeerError> = tokio::select! {
        ended = received => ended,
        ended = sender.ping_until(shared.stop.cancelled()) => match ended {
            Ok(()) => return,
            Err(error) => Err(error),
        },
    };
    let Err(error) = ended;
    tracing::debug!(%error, "activator disconnected");
}

fn bad_frame(metrics: &Metrics, error: &dyn std::fmt::Display) {
    metrics.push_frames_bad.inc();
    tracing::warn!(%error, "a push that makes no sense is dropped");
}

/// Counts a connection while it lives.
struct Connected<'a>(&'a Metrics);

// === impl Connected ===

impl<'a> Connected<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.push_connections.inc();
        Self(metrics)
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.push_connections.dec();
    }
}

#[cfg(test)]
mod tests {
    use futures::{SinkExt, StreamExt};
    use prometheus::Registry;
    use tokio::time::timeout;
    use tokio_tungstenite::tungstenite::Message as Frame;

    use super::*;
    use crate::scaling::wake::tests::{FakeTarget, push, wake, workload};

    #[tokio::test]
    async fn a_push_over_a_websocket_writes_in_milliseconds_and_bad_frames_change_nothing() {
        let (target, mut writes) = FakeTarget::new(Duration::ZERO);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let stop = CancellationToken::new();
        let wake = wake(target, Some(workload("1")));
        let server =
            tokio::spawn(serve(listener, wake, metrics.clone(), TokenGuard::allow_all(), stop.clone()));

        let url = format!("ws://{address}{PUSH_PATH}");
        let (mut socket, _) = tokio_tungstenite::connect_async(&url).await.unwrap();
        socket.send(Frame::text("{\"activator\": 1}")).await.unwrap();
        socket.send(Frame::binary(vec![0u8, 1, 2])).await.unwrap();
        let started = tokio::time::Instant::now();
        socket.send(Frame::text(serde_json::to_string(&push("web", 1.0)).unwrap())).await.unwrap();
        let written = timeout(Duration::from_secs(5), writes.recv()).await.unwrap();
        assert_eq!(written, Some((2, Some("1".into()))));
        // The budget is 10 ms; a machine under test load gets ten times that.
        assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
        assert_eq!((metrics.push_frames_bad.get(), metrics.push_connections.get()), (2, 1));

        stop.cancel();
        assert!(timeout(Duration::from_secs(5), socket.next()).await.is_ok());
        timeout(Duration::from_secs(5), server).await.unwrap().unwrap().unwrap();
        assert_eq!(metrics.push_connections.get(), 0);
    }
}
