//! ConnectAttempt: the opening of a connection, which all requests without a stream wait for.
//!
//! Its failure is the failure of all requests that wait for it. If each opened a connection in its
//! turn, requests to a server that accepts none would fail one after the other.

use std::io;

use tokio::sync::watch;

/// An attempt that runs in a task of its own: the request that began it may be cancelled.
#[derive(Clone, Debug)]
pub(super) struct ConnectAttempt(watch::Receiver<Option<Outcome>>);

/// Reports the outcome of an attempt.
#[derive(Debug)]
pub(super) struct AttemptReporter(watch::Sender<Option<Outcome>>);

/// Whether the connection was opened. `io::Error` cannot be cloned.
type Outcome = Result<(), (io::ErrorKind, String)>;

// === impl ConnectAttempt ===

impl ConnectAttempt {
    pub(super) fn new() -> (AttemptReporter, Self) {
        let (reporter, attempt) = watch::channel(None);
        (AttemptReporter(reporter), Self(attempt))
    }

    /// False if its task has ended, also without an outcome.
    pub(super) fn is_running(&self) -> bool {
        self.0.has_changed().is_ok() && self.0.borrow().is_none()
    }

    /// Waits for the outcome.
    ///
    /// # Errors
    /// The error of the connect.
    pub(super) async fn outcome(mut self) -> io::Result<()> {
        let outcome = self.0.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
        match outcome {
            Ok(Some(Err((kind, message)))) => Err(io::Error::new(kind, message)),
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("connect attempt aborted")),
        }
    }
}

// === impl AttemptReporter ===

impl AttemptReporter {
    pub(super) fn report(self, outcome: &io::Result<()>) {
        let outcome = outcome.as_ref().map_err(|error| (error.kind(), error.to_string()));
        self.0.send_replace(Some(outcome.copied()));
    }
}
