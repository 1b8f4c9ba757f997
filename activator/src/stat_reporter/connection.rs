//! One connection to one receiver, kept for as long as the receiver is among the addresses.

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

use super::outbox::{Letter, Outbox};
use crate::metrics::PushMetrics;

/// Time for the connection and its handshake.
const HANDSHAKE: Duration = Duration::from_secs(3);
/// How often a ping asks whether the receiver is still there.
const PING: Duration = Duration::from_secs(3);
/// A receiver that said nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Waits between tries to connect.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const LAST_RETRY: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<TcpStream>;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("no handshake within {HANDSHAKE:?}")]
    Handshake,
    #[error("silent for {SILENCE:?}")]
    Silent,
    #[error("closed by the receiver")]
    Closed,
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    WebSocket(#[from] tungstenite::Error),
}

/// Sends what comes into the outbox, and connects again when the connection is lost; until dropped.
pub(super) async fn keep(
    address: SocketAddr,
    outbox: Arc<Outbox>,
    metrics: PushMetrics,
    token: ProjectedToken,
) {
    let mut retry = FIRST_RETRY;
    let mut refused = false;
    loop {
        match open(address, &token).await {
            Ok(socket) => {
                tracing::info!(%address, "pushes to receiver");
                (retry, refused) = (FIRST_RETRY, false);
                let _connected = metrics.connected();
                outbox.connected(Instant::now());
                let ended = push(socket, &outbox).await;
                outbox.disconnected();
                tracing::info!(%address, %ended, "receiver lost");
            }
            // Said once: it is tried again each two seconds.
            Err(Ended::WebSocket(tungstenite::Error::Http(answer))) if !refused => {
                refused = true;
                let words = answer.body().as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                tracing::error!(%address, status = %answer.status(), words = words.trim(), "refused by receiver");
            }
            Err(error) => tracing::debug!(%address, %error, "receiver not reached"),
        }
        // Up to half is taken off, so that activators do not return all at once.
        tokio::time::sleep(retry.mul_f64(rand::random_range(0.5..=1.0))).await;
        retry = (retry * 2).min(LAST_RETRY);
    }
}

async fn open(address: SocketAddr, token: &ProjectedToken) -> Result<Socket, Ended> {
    let mut request = format!("ws://{address}{PUSH_PATH}").into_client_request()?;
    token.authorize(request.headers_mut())?;
    let handshake = async {
        let stream = TcpStream::connect(address).await?;
        // A poke is one small segment: it must not wait for the acknowledgement of the report before.
        stream.set_nodelay(true)?;
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await?;
        Ok(socket)
    };
    tokio::time::timeout(HANDSHAKE, handshake).await.unwrap_or(Err(Ended::Handshake))
}

async fn push(socket: Socket, outbox: &Outbox) -> Ended {
    let (sink, stream) = socket.split();
    tokio::select! {
        ended = send(sink, outbox) => ended,
        ended = listen(stream) => ended,
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, outbox: &Outbox) -> Ended {
    let mut ping = tokio::time::interval(PING);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sent = tokio::select! {
            letter = outbox.next() => deliver(&mut sink, letter).await,
            _ = ping.tick() => sink.send(Message::Ping(bytes::Bytes::new())).await,
        };
        if let Err(error) = sent {
            return error.into();
        }
    }
}

async fn deliver(sink: &mut SplitSink<Socket, Message>, letter: Letter) -> Result<(), tungstenite::Error> {
    sink.send(Message::Text(letter.text)).await?;
    if let Some(poke) = letter.poke {
        poke.get_or_init(Instant::now);
    }
    Ok(())
}

/// Receivers say nothing but pongs.
async fn listen(mut stream: SplitStream<Socket>) -> Ended {
    loop {
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(error))) => return error.into(),
            Ok(None) => return Ended::Closed,
            Err(_) => return Ended::Silent,
        }
    }
}
