//! ConnectAttempt: the opening of a connection, which all requests without a stream wait for.
//!
//! Its failure is the failure of all requests that wait for it. If each opened a connection in its
//! turn, requests to a server that accepts none would fail one after the other.

use std::io;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::{Error, NoFreeStream};

/// An attempt that runs in a task of its own: the request that began it may be cancelled.
#[derive(Clone, Debug)]
pub(super) struct ConnectAttempt(watch::Receiver<Option<Outcome>>);

/// Reports the outcome of an attempt.
#[derive(Debug)]
pub(super) struct AttemptReporter(watch::Sender<Option<Outcome>>);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    Unreachable(io::Error),
    /// It ended before the server's SETTINGS.
    Ended(io::Error),
    /// The server does not use HTTP/2.
    Invalid(io::Error),
    /// The server has not permitted a stream in this time.
    NoStream(Duration),
}

type Outcome = Result<(), ConnectError>;

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
    pub(super) async fn outcome(mut self) -> Outcome {
        let aborted = |_| ConnectError::Unreachable(io::Error::other("connect attempt aborted"));
        match &*self.0.wait_for(Option::is_some).await.map_err(aborted)? {
            Some(Err(error)) => Err(copy(error)),
            Some(Ok(())) | None => Ok(()),
        }
    }
}

/// `io::Error` cannot be cloned.
fn copy(error: &ConnectError) -> ConnectError {
    let copy = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
    match error {
        ConnectError::Unreachable(error) => ConnectError::Unreachable(copy(error)),
        ConnectError::Ended(error) => ConnectError::Ended(copy(error)),
        ConnectError::Invalid(error) => ConnectError::Invalid(copy(error)),
        ConnectError::NoStream(after) => ConnectError::NoStream(*after),
    }
}

// === impl AttemptReporter ===

impl AttemptReporter {
    pub(super) fn report(self, outcome: Outcome) {
        self.0.send_replace(Some(outcome));
    }
}

// === impl Error ===

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Unreachable(error) => Self::Unreachable(error),
            ConnectError::Ended(error) => Self::Unanswered(error),
            ConnectError::Invalid(error) => Self::Failed(error),
            ConnectError::NoStream(after) => NoFreeStream::NotPermitted { after }.into(),
        }
    }
}
