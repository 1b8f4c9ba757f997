//! LateUpload: the rest of an upload, after the head of the response.
//!
//! The server responds before the upload is complete. The upload goes on in a task of its own,
//! which ends some time after the response: a server that stops reading would otherwise keep the
//! task, the client's connection and its own for ever.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::sync::oneshot;

/// Time that an upload has after the end of its response. Go's client closes such a connection
/// after 50 ms, nginx after 5 s to 30 s.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// Held by the response until its end.
#[derive(Debug)]
pub(crate) struct LateUpload {
    _response: oneshot::Sender<Infallible>,
}

// === impl LateUpload ===

impl LateUpload {
    /// Runs `upload` in a task, until `linger` after the drop of this value.
    pub(crate) fn start<F, E>(upload: F, linger: Duration) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display,
    {
        let (response, ended) = oneshot::channel();
        tokio::spawn(async move {
            tokio::select! {
                uploaded = upload => if let Err(error) = uploaded {
                    tracing::debug!(%error, "upload failed after its response");
                },
                () = lapse(ended, linger) => {
                    let error = io::Error::from(io::ErrorKind::TimedOut);
                    tracing::debug!(%error, "upload ended after its response");
                }
            }
        });
        Self { _response: response }
    }
}

/// Waits for the end of the response, then `linger`.
async fn lapse(response_ended: oneshot::Receiver<Infallible>, linger: Duration) {
    // The sender is dropped with the response.
    let _ = response_ended.await;
    tokio::time::sleep(linger).await;
}
