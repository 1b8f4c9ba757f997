//! Ends HTTP/2 connections that have no requests.
//!
//! HTTP/1 has the timeout of the next head. An HTTP/2 client that answers PING would keep its
//! connection, and the memory of it, for ever.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until};

use super::graceful::DrainSignal;

/// Counts the requests of one connection.
#[derive(Debug)]
pub(super) struct OpenRequests(Mutex<Count>);

#[derive(Debug)]
struct Count {
    open: usize,
    last_end: Instant,
}

/// Counts one request until dropped.
#[derive(Debug)]
pub(super) struct OpenRequest(Arc<OpenRequests>);

/// Runs `connection`. Without requests for `timeout` it drains: the client gets GOAWAY, and no
/// request is lost. A client that does not acknowledge that is disconnected after `timeout` more.
pub(super) async fn end_when_idle<E>(
    connection: impl Future<Output = Result<(), E>>,
    requests: &OpenRequests,
    drain: &DrainSignal,
    timeout: Duration,
) -> Result<(), E> {
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        ended = &mut connection => return ended,
        () = requests.idle_for(timeout) => drain.set(),
    }
    let still_idle = async {
        sleep(timeout).await;
        requests.idle_for(timeout).await;
    };
    tokio::select! {
        biased;
        ended = &mut connection => ended,
        () = still_idle => Ok(()),
    }
}

// === impl OpenRequests ===

impl OpenRequests {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Count { open: 0, last_end: Instant::now() })))
    }

    pub(super) fn begin(self: &Arc<Self>) -> OpenRequest {
        self.0.lock().open += 1;
        OpenRequest(self.clone())
    }

    /// Waits until there has been no request for `timeout`.
    async fn idle_for(&self, timeout: Duration) {
        loop {
            let now = Instant::now();
            let end = self.idle_since().unwrap_or(now) + timeout;
            if end <= now {
                return;
            }
            sleep_until(end).await;
        }
    }

    /// `None` while there are requests.
    fn idle_since(&self) -> Option<Instant> {
        let count = self.0.lock();
        (count.open == 0).then_some(count.last_end)
    }
}

// === impl OpenRequest ===

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut count = self.0.0.lock();
        count.open -= 1;
        count.last_end = Instant::now();
    }
}
