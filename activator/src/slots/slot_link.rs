//! One connection between two activators: a websocket on which both sides send.
//!
//! Each frame is a batch of messages in JSON. Both sides ping every second. A peer that is silent
//! for three seconds is lost, whether its process hangs or its node has failed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{ACTIVATOR_ACCOUNT, ACTIVATOR_HEADER, SLOTS_PATH};
use autoscaler::routing::slot_lending::WorkloadSlotMessage;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::{Request, Response, StatusCode};
use runtime::auth::{AuthError, TokenGuard};
use runtime::auth::{ProjectedToken, TokenError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use tokio_tungstenite::tungstenite::handshake::server::{create_response, write_response};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::metrics::slot_exchange::SlotExchangeMetrics;
use crate::slots::slot_outbox::{Overflow, SlotOutbox};

/// Time for the connection and its handshake, which includes a TokenReview.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Longest request head that is accepted, in bytes; a token has one or two thousand.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How often each side sends a ping.
const PING: Duration = Duration::from_secs(1);
/// A peer that sent nothing for this time is lost.
const PEER_TIMEOUT: Duration = Duration::from_secs(3);
/// Waits between attempts to connect.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Messages in one frame.
const BATCH: usize = 256;
/// Largest frame that is read. A message has two Kubernetes names, 316 bytes at most, and about a
/// hundred bytes more.
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// Messages of one peer that are processed in a second; the connection waits beyond that.
const MAX_MESSAGES_PER_SECOND: u32 = 50_000;

/// An open connection.
pub(super) type Socket = WebSocketStream<TcpStream>;

/// Identifies one connection for the lifetime of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(u64);

/// A batch of messages of one activator.
#[derive(Debug)]
pub struct ReceivedMessages {
    /// The connection over which they were received.
    pub from: LinkId,
    /// In order.
    pub messages: Vec<WorkloadSlotMessage<IpAddr>>,
}

/// Why a connection could not be made, or has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum SlotLinkError {
    #[error("no handshake within {HANDSHAKE:?}")]
    Handshake,
    #[error("the request has no valid {ACTIVATOR_HEADER} header")]
    MissingAddress,
    #[error("the request head is longer than {MAX_HEAD_BYTES} bytes")]
    LongHead,
    #[error(transparent)]
    Refused(#[from] AuthError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("the peer was silent for {PEER_TIMEOUT:?}")]
    PeerTimeout,
    #[error("closed by the peer")]
    Closed,
    #[error("the outbox overflowed: the peer reads too slowly")]
    Overflow,
    #[error("invalid message: {0}")]
    InvalidMessage(#[from] serde_json::Error),
    #[error("this activator is stopping")]
    Stopping,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    WebSocket(#[from] tungstenite::Error),
}

/// Limits the messages that are processed in one second.
struct MessageRateLimit {
    second: Instant,
    messages: u32,
}

// === impl LinkId ===

impl LinkId {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Connects as the activator `own`, with retries; the first attempt waits a moment if an earlier
/// connection broke.
pub(super) async fn connect_with_retry(
    address: SocketAddr,
    own: IpAddr,
    token: &ProjectedToken,
    was_connected: bool,
) -> Box<Socket> {
    let mut retry = FIRST_RETRY;
    let (mut first, mut refusal_logged) = (!was_connected, false);
    loop {
        if !std::mem::take(&mut first) {
            // Jitter of up to a half, so that activators do not reconnect all at once.
            tokio::time::sleep(retry.mul_f64(rand::random_range(0.5..=1.0))).await;
            retry = (retry * 2).min(LAST_RETRY);
        }
        match connect(address, own, token).await {
            Ok(socket) => return socket,
            // Logged once: it is retried every second.
            Err(SlotLinkError::WebSocket(tungstenite::Error::Http(response))) if !refusal_logged => {
                refusal_logged = true;
                let detail = response.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                tracing::error!(
                    %address,
                    status = %response.status(),
                    detail = detail.trim(),
                    "connection rejected by activator, retrying"
                );
            }
            Err(error) => tracing::debug!(%address, %error, "connection to activator failed, retrying"),
        }
    }
}

async fn connect(
    address: SocketAddr,
    own: IpAddr,
    token: &ProjectedToken,
) -> Result<Box<Socket>, SlotLinkError> {
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut request = format!("ws://{address}{SLOTS_PATH}").into_client_request()?;
        request
            .headers_mut()
            .insert(ACTIVATOR_HEADER, own.to_string().parse().map_err(|_| SlotLinkError::MissingAddress)?);
        token.authorize(request.headers_mut())?;
        let (socket, _) =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config())).await?;
        Ok(Box::new(socket))
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(SlotLinkError::Handshake))
}

/// Answers the handshake if `guard` admits the peer; returns the address of the peer.
pub(super) async fn accept(
    mut stream: TcpStream,
    guard: &TokenGuard,
) -> Result<(IpAddr, Box<Socket>), SlotLinkError> {
    let handshake = async {
        // By hand: the callback of the library is synchronous, and a TokenReview takes a while.
        let (request, read) = read_head(&mut stream).await?;
        let (peer, response) = match admit(&request, guard).await {
            Ok(admitted) => admitted,
            Err(error) => {
                stream.write_all(&error_response(&error)).await?;
                return Err(error);
            }
        };
        let mut answer = Vec::new();
        write_response(&mut answer, &response)?;
        stream.write_all(&answer).await?;
        let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, Some(config())).await;
        Ok((peer, Box::new(socket)))
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(SlotLinkError::Handshake))
}

/// The request head, and the bytes that were read after it.
async fn read_head(stream: &mut TcpStream) -> Result<(Request<()>, Vec<u8>), SlotLinkError> {
    let mut read = Vec::new();
    loop {
        if let Some((length, request)) = Request::try_parse(&read)? {
            return Ok((request, read.split_off(length)));
        }
        if read.len() > MAX_HEAD_BYTES {
            return Err(SlotLinkError::LongHead);
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Err(SlotLinkError::Closed);
        }
    }
}

async fn admit(request: &Request<()>, guard: &TokenGuard) -> Result<(IpAddr, Response<()>), SlotLinkError> {
    let peer = peer_address(request).ok_or(SlotLinkError::MissingAddress)?;
    guard.authorize(request.headers(), &[ACTIVATOR_ACCOUNT]).await?;
    Ok((peer, create_response(request)?))
}

/// Carries messages in both directions until the connection ends; returns why it ended.
pub(super) async fn carry(
    socket: Socket,
    outbox: &Arc<SlotOutbox>,
    id: LinkId,
    received: mpsc::Sender<ReceivedMessages>,
    metrics: SlotExchangeMetrics,
) -> SlotLinkError {
    let (sink, stream) = socket.split();
    let ended = tokio::select! {
        ended = send(sink, outbox, &metrics) => ended,
        ended = receive(stream, id, received, &metrics) => ended,
    };
    ended.err().unwrap_or(SlotLinkError::Closed)
}

async fn send(
    mut sink: SplitSink<Socket, Message>,
    outbox: &SlotOutbox,
    metrics: &SlotExchangeMetrics,
) -> Result<(), SlotLinkError> {
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let messages = tokio::select! {
            messages = outbox.next() => messages.map_err(|Overflow| SlotLinkError::Overflow)?,
            _ = ping.tick() => {
                sink.send(Message::Ping(bytes::Bytes::new())).await?;
                continue;
            }
        };
        metrics.sent(messages.len());
        for batch in messages.chunks(BATCH) {
            sink.feed(Message::Text(Utf8Bytes::from(serde_json::to_string(batch)?))).await?;
        }
        sink.flush().await?;
    }
}

async fn receive(
    mut stream: SplitStream<Socket>,
    id: LinkId,
    received: mpsc::Sender<ReceivedMessages>,
    metrics: &SlotExchangeMetrics,
) -> Result<(), SlotLinkError> {
    let mut limit = MessageRateLimit { second: Instant::now(), messages: 0 };
    loop {
        let frame = tokio::time::timeout(PEER_TIMEOUT, stream.next())
            .await
            .map_err(|_| SlotLinkError::PeerTimeout)?;
        let Message::Text(text) = frame.ok_or(SlotLinkError::Closed)?? else { continue };
        let messages: Vec<WorkloadSlotMessage<IpAddr>> = serde_json::from_str(&text)?;
        metrics.received(messages.len());
        limit.wait(messages.len()).await;
        received.send(ReceivedMessages { from: id, messages }).await.map_err(|_| SlotLinkError::Stopping)?;
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MAX_FRAME_BYTES)).max_frame_size(Some(MAX_FRAME_BYTES))
}

fn peer_address(request: &Request<()>) -> Option<IpAddr> {
    let header = request.headers().get(ACTIVATOR_HEADER).filter(|_| request.uri().path() == SLOTS_PATH)?;
    header.to_str().ok()?.parse().ok()
}

fn error_response(error: &SlotLinkError) -> Vec<u8> {
    let (status, detail) = match error {
        SlotLinkError::Refused(refusal) => (refusal.status(), refusal.to_string()),
        _ => {
            let detail = format!("expected a websocket to {SLOTS_PATH} with the header {ACTIVATOR_HEADER}");
            (StatusCode::BAD_REQUEST, detail)
        }
    };
    let length = detail.len() + 1;
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{detail}\n")
        .into_bytes()
}

// === impl MessageRateLimit ===

impl MessageRateLimit {
    /// Counts messages, and waits for the next second if there were too many in this one.
    async fn wait(&mut self, messages: usize) {
        let second = Duration::from_secs(1);
        if self.second.elapsed() >= second {
            *self = Self { second: Instant::now(), messages: 0 };
        }
        self.messages = self.messages.saturating_add(u32::try_from(messages).unwrap_or(u32::MAX));
        if self.messages > MAX_MESSAGES_PER_SECOND {
            tokio::time::sleep_until(self.second + second).await;
        }
    }
}
