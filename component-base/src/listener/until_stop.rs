//! Accepts connections until a stop, without a loss of those that are complete in the kernel.
//!
//! The client of a connection that waits to be accepted may have sent its request already. A port
//! that closes resets the connection, and on a node that is short of CPU there are many. So the
//! port closes a little after the stop, when none waits.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Time from a connection's accept in which its first request is served in spite of a stop: the
/// request of a client that had just connected is on its way.
pub const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// Time from the stop to the close of the port. The runtime has polled the socket by then.
const LAST_ACCEPTS: Duration = Duration::from_millis(10);

/// The stop of a listener, and when its port closes.
#[derive(Debug)]
pub struct UntilStop<F> {
    stop: CancellationToken,
    /// Called at the stop, once.
    stopped: Option<F>,
    closes: Option<Instant>,
}

// === impl UntilStop ===

impl<F: FnOnce()> UntilStop<F> {
    /// Until `stop`. Then `stopped` is called.
    pub fn new(stop: CancellationToken, stopped: F) -> Self {
        Self { stop, stopped: Some(stopped), closes: None }
    }

    /// The connection of `accept`; `None` when the port is to be closed.
    pub async fn next<T>(&mut self, accept: impl Future<Output = T>) -> Option<T> {
        let mut accept = pin!(accept);
        if let Some(accepted) = self.stop.run_until_cancelled(accept.as_mut()).await {
            return Some(accepted);
        }
        if let Some(stopped) = self.stopped.take() {
            stopped();
        }
        let closes = *self.closes.get_or_insert_with(|| Instant::now() + LAST_ACCEPTS);
        timeout_at(closes, accept).await.ok()
    }
}
