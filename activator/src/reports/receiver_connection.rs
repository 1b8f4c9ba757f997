//! The connection to one receiver of reports, kept while the receiver is among the addresses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::PUSH_PATH;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use runtime::auth::{ProjectedToken, TokenError};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::metrics::push::PushMetrics;
use crate::reports::report_outbox::{QueuedReport, ReportOutbox};

/// Time for the connection and its handshake.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// How often the receiver is pinged.
const PING: Duration = Duration::from_secs(3);
/// A receiver that sent nothing for this time is lost.
const RECEIVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Waits between attempts to connect.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<TcpStream>;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum ReceiverConnectionError {
    #[error("no handshake within {HANDSHAKE:?}")]
    Handshake,
    #[error("the receiver was silent for {RECEIVER_TIMEOUT:?}")]
    Timeout,
    #[error("closed by the receiver")]
    Closed,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    WebSocket(#[from] tungstenite::Error),
}

/// Sends the reports of the outbox, with reconnects, until dropped.
#[tracing::instrument(name = "receiver", skip_all, fields(%address))]
pub(super) async fn keep(
    address: SocketAddr,
    outbox: Arc<ReportOutbox>,
    metrics: PushMetrics,
    token: ProjectedToken,
) {
    let mut retry = FIRST_RETRY;
    let mut rejection_logged = false;
    loop {
        match open(address, &token).await {
            Ok(socket) => {
                tracing::info!("receiver connected");
                (retry, rejection_logged) = (FIRST_RETRY, false);
                let _connected = metrics.connected();
                outbox.connected(Instant::now());
                let error = push(socket, &outbox).await;
                outbox.disconnected();
                tracing::info!(%error, "receiver disconnected, reconnecting");
            }
            // Logged once: it is retried every two seconds.
            Err(ReceiverConnectionError::WebSocket(tungstenite::Error::Http(response)))
                if !rejection_logged =>
            {
                rejection_logged = true;
                let detail = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                tracing::error!(
                    status = %response.status(),
                    detail = detail.trim(),
                    "connection rejected by receiver, retrying"
                );
            }
            Err(error) => tracing::debug!(%error, "connection to receiver failed, retrying"),
        }
        // Jitter of up to a half, so that activators do not reconnect all at once.
        tokio::time::sleep(retry.mul_f64(rand::random_range(0.5..=1.0))).await;
        retry = (retry * 2).min(LAST_RETRY);
    }
}

async fn open(address: SocketAddr, token: &ProjectedToken) -> Result<Socket, ReceiverConnectionError> {
    let mut request = format!("ws://{address}{PUSH_PATH}").into_client_request()?;
    token.authorize(request.headers_mut())?;
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        // A poke is one small segment: it must not wait for the acknowledgement of the previous
        // report.
        stream.set_nodelay(true)?;
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(socket)
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(ReceiverConnectionError::Handshake))
}

async fn push(socket: Socket, outbox: &ReportOutbox) -> ReceiverConnectionError {
    let (sink, stream) = socket.split();
    tokio::select! {
        error = send(sink, outbox) => error,
        error = read_pongs(stream) => error,
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, outbox: &ReportOutbox) -> ReceiverConnectionError {
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            report = outbox.next() => deliver(&mut sink, report).await,
            _ = ping.tick() => sink.send(Message::Ping(bytes::Bytes::new())).await,
        };
        if let Err(error) = sent {
            return error.into();
        }
    }
}

async fn deliver(
    sink: &mut SplitSink<Socket, Message>,
    report: QueuedReport,
) -> Result<(), tungstenite::Error> {
    sink.send(Message::Text(report.text)).await?;
    if let Some(poke) = report.poke {
        poke.get_or_init(Instant::now);
    }
    Ok(())
}

/// Receivers send nothing but pongs.
async fn read_pongs(mut stream: SplitStream<Socket>) -> ReceiverConnectionError {
    loop {
        match tokio::time::timeout(RECEIVER_TIMEOUT, stream.next()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => return error.into(),
            Ok(None) => return ReceiverConnectionError::Closed,
            Err(_) => return ReceiverConnectionError::Timeout,
        }
    }
}
