//! HeadTimer: closes an HTTP/1 connection that is idle for too long, or sends a head too slowly.
//!
//! hyper has one timeout from the end of a request to the head of the next one. Load balancers keep
//! idle connections for minutes and must not find them closed, while a head takes milliseconds. So
//! hyper gets the idle timeout, and this timer shortens it as soon as bytes of a head arrive.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;

use crate::client_stream::ClientSignals;

/// The timer of one connection.
#[derive(Clone, Debug)]
pub(super) struct HeadTimer {
    pub(super) signals: ClientSignals,
    /// From the first byte of a head to its end.
    pub(super) head_timeout: Duration,
}

pin_project! {
    /// The wait for one head.
    #[derive(Debug)]
    struct HeadSleep {
        timer: HeadTimer,
        #[pin]
        sleep: tokio::time::Sleep,
        // Whether bytes of the head have arrived.
        has_begun: bool,
    }
}

// === impl HeadTimer ===

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.signals.begin_head();
        let sleep = tokio::time::sleep_until(deadline.into());
        Box::pin(HeadSleep { timer: self.clone(), sleep, has_begun: false })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

// === impl HeadSleep ===

impl Future for HeadSleep {
    type Output = ();

    /// hyper polls after each read that has not completed the head.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if !*this.has_begun && this.timer.signals.has_received() {
            *this.has_begun = true;
            let head = tokio::time::Instant::now() + this.timer.head_timeout;
            let deadline = this.sleep.deadline().min(head);
            this.sleep.as_mut().reset(deadline);
        }
        this.sleep.poll(cx)
    }
}

impl Sleep for HeadSleep {}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::client_stream::ClientStream;

    const IDLE: Duration = Duration::from_secs(600);
    const HEAD: Duration = Duration::from_secs(30);
    const LITTLE: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn idle_connection_lasts_longer_than_a_slow_head() {
        let timer = HeadTimer { signals: ClientSignals::default(), head_timeout: HEAD };
        let (mut client, server) = duplex(64);
        let mut server = ClientStream::new(server, timer.signals.clone());

        let mut idle = timer.sleep(IDLE);
        assert!(timeout(IDLE - LITTLE, &mut idle).await.is_err());
        timeout(2 * LITTLE, idle).await.unwrap();

        let mut head = timer.sleep(IDLE);
        assert!(timeout(IDLE / 2, &mut head).await.is_err());
        client.write_all(b"GET").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        assert!(timeout(HEAD - LITTLE, &mut head).await.is_err());
        timeout(2 * LITTLE, head).await.unwrap();

        // The next head has its own time.
        assert!(timeout(IDLE - LITTLE, timer.sleep(IDLE)).await.is_err());
        sleep(LITTLE).await;
    }
}
