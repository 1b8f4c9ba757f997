//! One connection between two activators: a websocket on which both talk.
//!
//! Each message is a batch of words in JSON. Both sides ping every second, so a peer that is silent for three is gone, whether
//! its process hangs or its node is lost.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{ACTIVATOR_ACCOUNT, ACTIVATOR_HEADER, SLOTS_PATH};
use autoscaler::slot_lending::Word;
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

use super::Heard;
use super::outbox::{Outbox, Overflow};
use crate::metrics::ExchangeMetrics;

/// Time for the connection and its handshake, in which the cluster is asked whose token it is.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// Longest head of who connects, in bytes; a token has one or two thousand.
const MOST_HEAD: usize = 16 * 1024;
/// How often each side shows that it is there.
const PING: Duration = Duration::from_secs(1);
/// A peer that said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(3);
/// Waits between tries to connect.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Words in one message.
const BATCH: usize = 256;
/// Largest message that is read. A word has two names of Kubernetes, 316 bytes at most, and a hundred of its own.
const MOST_BYTES: usize = 256 * 1024;
/// Words of one peer that are heard in a second; the connection waits beyond that.
const MOST_WORDS: u32 = 50_000;

pub(super) type Socket = WebSocketStream<TcpStream>;

/// One connection, from its beginning to its end. No other of this process ever has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(u64);

/// Why there is no connection, or no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("no handshake within {HANDSHAKE:?}")]
    Handshake,
    #[error("the caller did not say who it is")]
    Nameless,
    #[error("the caller's head is longer than {MOST_HEAD} bytes")]
    LongHead,
    #[error(transparent)]
    Refused(#[from] AuthError),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("silent for {SILENCE:?}")]
    Silent,
    #[error("closed by the other side")]
    Closed,
    #[error("more was to be said than the connection carries")]
    Overflow,
    #[error("spoke no words: {0}")]
    NoWords(#[from] serde_json::Error),
    #[error("this activator stops")]
    Stopping,
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    WebSocket(#[from] tungstenite::Error),
}

/// How many words were heard in the current second.
struct Pace {
    second: Instant,
    words: u32,
}

// === impl LinkId ===

impl LinkId {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }
}

/// Connects as the activator `own`, however often it takes; the first try waits a moment if the last connection broke.
pub(super) async fn connect_at_last(
    address: SocketAddr,
    own: IpAddr,
    token: &ProjectedToken,
    broke: bool,
) -> Box<Socket> {
    let mut retry = FIRST_RETRY;
    let (mut first, mut refused) = (!broke, false);
    loop {
        if !std::mem::take(&mut first) {
            // Up to half is taken off, so that activators do not return all at once.
            tokio::time::sleep(retry.mul_f64(rand::random_range(0.5..=1.0))).await;
            retry = (retry * 2).min(LAST_RETRY);
        }
        match connect(address, own, token).await {
            Ok(socket) => return socket,
            // Said once: it is tried again each second.
            Err(Ended::WebSocket(tungstenite::Error::Http(answer))) if !refused => {
                refused = true;
                let words = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                tracing::error!(%address, status = %answer.status(), words = words.trim(), "refused by activator");
            }
            Err(error) => tracing::debug!(%address, %error, "activator not reached"),
        }
    }
}

async fn connect(address: SocketAddr, own: IpAddr, token: &ProjectedToken) -> Result<Box<Socket>, Ended> {
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut request = format!("ws://{address}{SLOTS_PATH}").into_client_request()?;
        request.headers_mut().insert(ACTIVATOR_HEADER, own.to_string().parse().map_err(|_| Ended::Nameless)?);
        token.authorize(request.headers_mut())?;
        let (socket, _) =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config())).await?;
        Ok(Box::new(socket))
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(Ended::Handshake))
}

/// Answers who has connected, if `guard` knows it for an activator, and says which.
pub(super) async fn accept(
    mut stream: TcpStream,
    guard: &TokenGuard,
) -> Result<(IpAddr, Box<Socket>), Ended> {
    let handshake = async {
        // By hand, because the library wants its answer at once, and the cluster takes its time to say whose token it is.
        let (request, read) = read_head(&mut stream).await?;
        let (peer, response) = match admit(&request, guard).await {
            Ok(admitted) => admitted,
            Err(ended) => {
                stream.write_all(&refusal(&ended)).await?;
                return Err(ended);
            }
        };
        let mut answer = Vec::new();
        write_response(&mut answer, &response)?;
        stream.write_all(&answer).await?;
        let socket = WebSocketStream::from_partially_read(stream, read, Role::Server, Some(config())).await;
        Ok((peer, Box::new(socket)))
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(Ended::Handshake))
}

/// The head of who has connected, and what came behind it.
async fn read_head(stream: &mut TcpStream) -> Result<(Request<()>, Vec<u8>), Ended> {
    let mut read = Vec::new();
    loop {
        if let Some((length, request)) = Request::try_parse(&read)? {
            return Ok((request, read.split_off(length)));
        }
        if read.len() > MOST_HEAD {
            return Err(Ended::LongHead);
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Err(Ended::Closed);
        }
    }
}

async fn admit(request: &Request<()>, guard: &TokenGuard) -> Result<(IpAddr, Response<()>), Ended> {
    let peer = caller(request).ok_or(Ended::Nameless)?;
    guard.authorize(request.headers(), &[ACTIVATOR_ACCOUNT]).await?;
    Ok((peer, create_response(request)?))
}

/// Carries words in both directions until the connection ends.
pub(super) async fn talk(
    socket: Socket,
    outbox: &Arc<Outbox>,
    id: LinkId,
    heard: mpsc::Sender<Heard>,
    metrics: ExchangeMetrics,
) -> Ended {
    let (sink, stream) = socket.split();
    let ended = tokio::select! {
        ended = speak(sink, outbox, &metrics) => ended,
        ended = listen(stream, id, heard, &metrics) => ended,
    };
    ended.err().unwrap_or(Ended::Closed)
}

async fn speak(
    mut sink: SplitSink<Socket, Message>,
    outbox: &Outbox,
    metrics: &ExchangeMetrics,
) -> Result<(), Ended> {
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let words = tokio::select! {
            words = outbox.next() => words.map_err(|Overflow| Ended::Overflow)?,
            _ = ping.tick() => {
                sink.send(Message::Ping(bytes::Bytes::new())).await?;
                continue;
            }
        };
        metrics.said(words.len());
        for batch in words.chunks(BATCH) {
            sink.feed(Message::Text(Utf8Bytes::from(serde_json::to_string(batch)?))).await?;
        }
        sink.flush().await?;
    }
}

async fn listen(
    mut stream: SplitStream<Socket>,
    id: LinkId,
    heard: mpsc::Sender<Heard>,
    metrics: &ExchangeMetrics,
) -> Result<(), Ended> {
    let mut pace = Pace { second: Instant::now(), words: 0 };
    loop {
        let message = tokio::time::timeout(SILENCE, stream.next()).await.map_err(|_| Ended::Silent)?;
        let Message::Text(text) = message.ok_or(Ended::Closed)?? else { continue };
        let words: Vec<Word<IpAddr>> = serde_json::from_str(&text)?;
        metrics.heard(words.len());
        pace.keep(words.len()).await;
        heard.send(Heard { from: id, words }).await.map_err(|_| Ended::Stopping)?;
    }
}

fn config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(MOST_BYTES)).max_frame_size(Some(MOST_BYTES))
}

fn caller(request: &Request<()>) -> Option<IpAddr> {
    let named = request.headers().get(ACTIVATOR_HEADER).filter(|_| request.uri().path() == SLOTS_PATH)?;
    named.to_str().ok()?.parse().ok()
}

fn refusal(ended: &Ended) -> Vec<u8> {
    let (status, words) = match ended {
        Ended::Refused(refusal) => (refusal.status(), refusal.to_string()),
        _ => {
            let words =
                format!("activators connect to {SLOTS_PATH} and say who they are in {ACTIVATOR_HEADER}");
            (StatusCode::BAD_REQUEST, words)
        }
    };
    let length = words.len() + 1;
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{words}\n")
        .into_bytes()
}

// === impl Pace ===

impl Pace {
    /// Counts words, and waits for the next second when there were too many in this one.
    async fn keep(&mut self, words: usize) {
        let second = Duration::from_secs(1);
        if self.second.elapsed() >= second {
            *self = Self { second: Instant::now(), words: 0 };
        }
        self.words = self.words.saturating_add(u32::try_from(words).unwrap_or(u32::MAX));
        if self.words > MOST_WORDS {
            tokio::time::sleep_until(self.second + second).await;
        }
    }
}
