//! The two halves of an open websocket, with pings and timeouts.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{Sink, SinkExt, Stream, StreamExt};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};

use super::frame::Frame;

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub struct PeerLimits {
    pub ping_interval: Duration,
    /// A peer from which nothing is received for this time is lost. Several pings must fit.
    pub silence_timeout: Duration,
    /// A peer that does not take a message within this time is too slow.
    pub send_timeout: Duration,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The peer closed the connection.
    #[error("closed by the peer")]
    Closed,
    /// Neither messages nor pongs were received.
    #[error("no message from the peer for {0:?}")]
    Silent(Duration),
    /// The peer reads too slowly.
    #[error("message not sent within {0:?}")]
    SendTimeout(Duration),
    /// The connection failed.
    #[error(transparent)]
    Transport(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// The sending half.
#[derive(Debug)]
pub struct PeerSender<S, M> {
    sink: SplitSink<S, M>,
    ping: Interval,
    limits: PeerLimits,
}

/// The receiving half.
#[derive(Debug)]
pub struct PeerReceiver<S> {
    stream: SplitStream<S>,
    limits: PeerLimits,
}

/// Splits an open websocket.
pub fn split<S, M, E>(socket: S, limits: PeerLimits) -> (PeerSender<S, M>, PeerReceiver<S>)
where
    S: Sink<M, Error = E> + Stream<Item = Result<M, E>>,
{
    let (sink, stream) = socket.split();
    let mut ping = interval_at(Instant::now() + limits.ping_interval, limits.ping_interval);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    (PeerSender { sink, ping, limits }, PeerReceiver { stream, limits })
}

// === impl PeerSender ===

impl<S, M, E> PeerSender<S, M>
where
    S: Sink<M, Error = E> + Unpin,
    M: Frame,
    E: std::error::Error + Send + Sync + 'static,
{
    /// Waits for `work`, and sends pings meanwhile.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn ping_until<T>(&mut self, work: impl Future<Output = T>) -> Result<T, PeerError> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                value = &mut work => return Ok(value),
                _ = self.ping.tick() => self.send([M::ping()]).await?,
            }
        }
    }

    /// Sends messages, flushed together.
    ///
    /// # Errors
    /// When the connection ends, or the peer does not take them in time.
    pub async fn send(&mut self, messages: impl IntoIterator<Item = M>) -> Result<(), PeerError> {
        let sent = async {
            for message in messages {
                self.sink.feed(message).await?;
            }
            self.sink.flush().await
        };
        let limit = self.limits.send_timeout;
        let sent = timeout(limit, sent).await.map_err(|_| PeerError::SendTimeout(limit))?;
        sent.map_err(|error: E| PeerError::Transport(error.into()))
    }
}

// === impl PeerReceiver ===

impl<S, M, E> PeerReceiver<S>
where
    S: Stream<Item = Result<M, E>> + Unpin,
    M: Frame,
    E: std::error::Error + Send + Sync + 'static,
{
    /// The next message, pings and pongs included.
    ///
    /// # Errors
    /// When the connection ends, or the peer is silent for too long.
    pub async fn next(&mut self) -> Result<M, PeerError> {
        let limit = self.limits.silence_timeout;
        let message = timeout(limit, self.stream.next()).await.map_err(|_| PeerError::Silent(limit))?;
        let message =
            message.ok_or(PeerError::Closed)?.map_err(|error| PeerError::Transport(error.into()))?;
        if message.is_close() { Err(PeerError::Closed) } else { Ok(message) }
    }

    /// Drops all messages until the connection ends, for peers that send only pongs.
    pub async fn closed(&mut self) -> PeerError {
        loop {
            if let Err(error) = self.next().await {
                return error;
            }
        }
    }
}
