//! Lifetime: what ends a connection beside its client: the stop of the listener, its guard, a time
//! without requests, and a PING without a reply.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::{Ping, PingPong};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

pin_project! {
    /// The timers of a connection, its guard, and the stop of its listener.
    pub(super) struct Lifetime<S: Future, C> {
        #[pin]
        stop: S,
        // Completes when the connection must close at once.
        #[pin]
        closed: C,
        // Held until the connection has ended: the listener waits for its drop.
        stopped: Option<S::Output>,
        #[pin]
        idle: Sleep,
        lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LifetimeEvent {
    /// The listener stops.
    Stopped,
    /// The guard closes the connection. Not polled again.
    Closed,
    /// The idle timer fired; it must be reset.
    IdleTimer,
    /// The client does not reply to PING.
    Lost,
}

// === impl Lifetime ===

impl<S: Future, C: Future<Output = ()>> Lifetime<S, C> {
    /// `ping` is the interval and the timeout of PING. Without it, a peer that vanished would hold
    /// its streams, and the slots they count for, for ever.
    pub(super) fn new(
        stop: S,
        closed: C,
        idle_timeout: Duration,
        pings: Option<PingPong>,
        ping: Duration,
    ) -> Self {
        let idle = sleep_until(Instant::now() + idle_timeout);
        Self { stop, closed, stopped: None, idle, lost: Box::pin(keep_alive(pings, ping)) }
    }

    pub(super) fn poll_event(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LifetimeEvent> {
        let this = self.project();
        if this.closed.poll(cx).is_ready() {
            return Poll::Ready(LifetimeEvent::Closed);
        }
        if this.stopped.is_none()
            && let Poll::Ready(stopped) = this.stop.poll(cx)
        {
            *this.stopped = Some(stopped);
            return Poll::Ready(LifetimeEvent::Stopped);
        }
        if this.lost.as_mut().poll(cx).is_ready() {
            return Poll::Ready(LifetimeEvent::Lost);
        }
        this.idle.poll(cx).map(|()| LifetimeEvent::IdleTimer)
    }

    pub(super) fn reset_idle_timer(self: Pin<&mut Self>, deadline: Instant) {
        self.project().idle.reset(deadline);
    }
}

/// Sends a PING at each `interval`; returns when one has no reply for `interval`.
async fn keep_alive(pings: Option<PingPong>, interval: Duration) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(interval).await;
        match timeout(interval, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection reports its own errors.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const IDLE: Duration = Duration::from_secs(620);
    const PING: Duration = Duration::from_secs(30);
    const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    #[tokio::test(start_paused = true)]
    async fn client_that_does_not_reply_to_ping_is_lost_after_two_intervals() {
        let (mut client, server) = duplex(1024);
        client.write_all(PREFACE_AND_SETTINGS).await.unwrap();
        let mut frames = h2::server::handshake(server).await.unwrap();
        let pings = frames.ping_pong();
        let silent = tokio::spawn(async move { client.read_to_end(&mut Vec::new()).await });
        let began = Instant::now();
        let mut lifetime = Box::pin(Lifetime::new(pending::<()>(), pending(), IDLE, pings, PING));
        let event = tokio::select! {
            event = std::future::poll_fn(|cx| lifetime.as_mut().poll_event(cx)) => event,
            ended = frames.accept() => panic!("the connection ended: {ended:?}"),
        };
        assert_eq!((event, began.elapsed()), (LifetimeEvent::Lost, 2 * PING));
        assert!(!silent.is_finished());
    }
}
