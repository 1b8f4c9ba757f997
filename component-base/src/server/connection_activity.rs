//! What a connection does: whether a request runs, and since when none does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// The requests of one connection. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ConnectionActivity(Arc<Mutex<Activity>>);

#[derive(Debug)]
struct Activity {
    running: usize,
    /// Begin of the connection, or the last begin or end of a request.
    last: Instant,
    has_served: bool,
}

/// Held while a request runs.
#[derive(Debug)]
pub(super) struct RunningRequest(ConnectionActivity);

// === impl ConnectionActivity ===

impl ConnectionActivity {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(Activity { running: 0, last: Instant::now(), has_served: false })))
    }

    pub(super) fn begin_request(&self) -> RunningRequest {
        let mut activity = self.0.lock();
        activity.running += 1;
        activity.has_served = true;
        activity.last = Instant::now();
        RunningRequest(self.clone())
    }

    pub(super) fn is_running(&self) -> bool {
        self.0.lock().running > 0
    }

    /// Waits until a connection without a request is as old as `within`.
    pub(super) async fn first_request_within(&self, within: Duration) {
        let due = {
            let activity = self.0.lock();
            (!activity.has_served).then(|| activity.last + within)
        };
        if let Some(due) = due {
            sleep_until(due).await;
        }
    }

    /// Waits until no request was received for `first`, or none has run for `idle` after that. May
    /// take up to twice as long after a request.
    pub(super) async fn expired(&self, first: Duration, idle: Duration) {
        loop {
            let (due, is_running) = {
                let activity = self.0.lock();
                let since = if activity.running > 0 { Instant::now() } else { activity.last };
                (since + if activity.has_served { idle } else { first }, activity.running > 0)
            };
            if !is_running && due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

// === impl RunningRequest ===

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut activity = self.0.0.lock();
        activity.running -= 1;
        activity.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn expires_without_request_and_after_the_last_one() {
        let activity = ConnectionActivity::new();
        let began = Instant::now();
        activity.expired(FIRST, IDLE).await;
        assert_eq!(began.elapsed(), FIRST);

        let request = activity.begin_request();
        let expired = tokio::time::timeout(10 * IDLE, activity.expired(FIRST, IDLE));
        assert!(expired.await.is_err(), "a running request is not idle");
        drop(request);
        let ended = Instant::now();
        activity.expired(FIRST, IDLE).await;
        assert_eq!(ended.elapsed(), IDLE);
    }
}
