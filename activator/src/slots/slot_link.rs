//! One connection between two activators: a websocket on which both sides send.
//!
//! Each frame is a batch of messages in JSON; those of an unknown kind are skipped. Both sides ping
//! every second. A peer that is silent for three seconds is lost, whether its process hangs or its
//! node has failed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::version_skew::{HELLO_HEADER, KnownItems, NewerVersion, SLOTS};
use autoscaler::contract::{ACTIVATOR_ACCOUNT, ACTIVATOR_HEADER, SLOTS_PATH};
use autoscaler::routing::slot_lending::{MESSAGE_KINDS, WorkloadSlotMessage};
use component_base::auth::{AuthError, ProjectedToken, TokenGuard};
use component_base::websocket::{
    ClientSocket, Connector, PeerError, PeerLimits, PeerReceiver, PeerSender, split,
};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::machine::TryParse;
use tokio_tungstenite::tungstenite::handshake::server::{create_response, write_response};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::metrics::slot_exchange::SlotExchangeMetrics;
use crate::slots::slot_outbox::{Overflow, SlotOutbox};

/// Time for the handshake of an accepted connection, which includes a TokenReview.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Longest request head that is accepted, in bytes; a token has one or two thousand.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// A peer that sent nothing for three seconds is lost.
const LIMITS: PeerLimits = PeerLimits {
    ping_interval: Duration::from_secs(1),
    silence_timeout: Duration::from_secs(3),
    send_timeout: Duration::from_secs(3),
};
/// First and longest delay between attempts to connect.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Messages in one frame.
const BATCH: usize = 256;
/// Largest frame that is read. A message has two Kubernetes names, 316 bytes at most, and about a
/// hundred bytes more.
const MAX_FRAME_BYTES: usize = 256 * 1024;
/// Messages of one peer that are processed in a second; the connection waits beyond that.
const MAX_MESSAGES_PER_SECOND: u32 = 50_000;

/// An open connection.
pub(super) type Socket = ClientSocket;

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
    Version(#[from] NewerVersion),
    #[error(transparent)]
    Peer(#[from] PeerError),
    #[error("closed by the peer")]
    Closed,
    #[error("the outbox overflowed: the peer reads too slowly")]
    Overflow,
    #[error("invalid message")]
    InvalidMessage,
    #[error("invalid frame: {0}")]
    InvalidFrame(#[from] serde_json::Error),
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
    // The text of an address is always a valid header value.
    let header = HeaderValue::try_from(own.to_string()).unwrap_or(HeaderValue::from_static(""));
    let connector = Connector::new(address, SLOTS_PATH, token.clone(), RETRY)
        .with_header(HeaderName::from_static(ACTIVATOR_HEADER), header)
        .with_header(HeaderName::from_static(HELLO_HEADER), hello(own))
        .with_check(|headers| check_hello(headers).map_err(|refusal| refusal.to_string()))
        .with_max_message(MAX_FRAME_BYTES);
    let mut connector = if was_connected { connector.with_initial_delay() } else { connector };
    Box::new(connector.connect().await)
}

/// Answers the handshake as the activator `own` if `guard` admits the peer, which connected from
/// `client`; returns the address that the peer states.
pub(super) async fn accept(
    mut stream: TcpStream,
    client: IpAddr,
    own: IpAddr,
    guard: &TokenGuard,
) -> Result<(IpAddr, Box<Socket>), SlotLinkError> {
    let handshake = async {
        // By hand: the callback of the library is synchronous, and a TokenReview takes a while.
        let (request, read) = read_head(&mut stream).await?;
        let (peer, mut response) = match admit(&request, client, guard).await {
            Ok(admitted) => admitted,
            Err(error) => {
                stream.write_all(&error_response(&error)).await?;
                return Err(error);
            }
        };
        response.headers_mut().insert(HELLO_HEADER, hello(own));
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

async fn admit(
    request: &Request<()>,
    client: IpAddr,
    guard: &TokenGuard,
) -> Result<(IpAddr, Response<()>), SlotLinkError> {
    let peer = peer_address(request).ok_or(SlotLinkError::MissingAddress)?;
    guard.authorize(request.headers(), client, &[ACTIVATOR_ACCOUNT]).await?;
    check_hello(request.headers())?;
    Ok((peer, create_response(request)?))
}

fn hello(own: IpAddr) -> HeaderValue {
    HeaderValue::try_from(SLOTS.hello(&own.to_string())).unwrap_or(HeaderValue::from_static("0"))
}

fn check_hello(headers: &HeaderMap) -> Result<(), NewerVersion> {
    SLOTS.check(headers.get(HELLO_HEADER).map(HeaderValue::as_bytes))
}

/// Carries messages in both directions until the connection ends; returns why it ended.
pub(super) async fn carry(
    socket: Socket,
    outbox: &Arc<SlotOutbox>,
    id: LinkId,
    received: mpsc::Sender<ReceivedMessages>,
    metrics: SlotExchangeMetrics,
) -> SlotLinkError {
    let (mut sender, mut receiver) = split(socket, LIMITS);
    let ended = tokio::select! {
        ended = send(&mut sender, outbox, &metrics) => ended,
        ended = receive(&mut receiver, id, received, &metrics) => ended,
    };
    ended.err().unwrap_or(SlotLinkError::Closed)
}

async fn send(
    sender: &mut PeerSender<Socket, Message>,
    outbox: &SlotOutbox,
    metrics: &SlotExchangeMetrics,
) -> Result<(), SlotLinkError> {
    loop {
        let messages = sender.ping_until(outbox.next()).await?.map_err(|Overflow| SlotLinkError::Overflow)?;
        metrics.sent(messages.len());
        let batches = messages.chunks(BATCH).map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        sender.send(batches.into_iter().map(Message::text)).await?;
    }
}

async fn receive(
    receiver: &mut PeerReceiver<Socket>,
    id: LinkId,
    received: mpsc::Sender<ReceivedMessages>,
    metrics: &SlotExchangeMetrics,
) -> Result<(), SlotLinkError> {
    let mut limit = MessageRateLimit { second: Instant::now(), messages: 0 };
    loop {
        let Message::Text(text) = receiver.next().await? else { continue };
        let KnownItems { items: messages, skipped } =
            serde_json::from_str::<KnownItems<WorkloadSlotMessage<IpAddr>>>(&text)?;
        if skipped > 0 {
            if !are_new_kinds(&text)? {
                return Err(SlotLinkError::InvalidMessage);
            }
            tracing::debug!(skipped, "unknown slot messages skipped");
        }
        metrics.received(messages.len());
        limit.wait(messages.len() + skipped).await;
        received.send(ReceivedMessages { from: id, messages }).await.map_err(|_| SlotLinkError::Stopping)?;
    }
}

/// Whether each message of a frame that cannot be decoded is of a kind that this version lacks.
fn are_new_kinds(text: &str) -> Result<bool, serde_json::Error> {
    let messages: Vec<Value> = serde_json::from_str(text)?;
    let is_new = |message: &Value| {
        let message = message.get("message")?;
        let content = message.as_object().filter(|content| content.len() == 1);
        let kind = message.as_str().or_else(|| content?.keys().next().map(String::as_str))?;
        Some(!MESSAGE_KINDS.contains(&kind))
    };
    let is_known = |message: &Value| WorkloadSlotMessage::<IpAddr>::deserialize(message).is_ok();
    Ok(messages.iter().all(|message| is_known(message) || is_new(message) == Some(true)))
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
        SlotLinkError::Version(refusal) => (StatusCode::UPGRADE_REQUIRED, refusal.to_string()),
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
