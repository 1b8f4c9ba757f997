//! LateUpload: the rest of an upload, after the head of the response.
//!
//! The server responds before the upload is complete. The upload goes on in a task of its own,
//! which ends some time after the response: a server that stops reading would otherwise keep the
//! task, the client's connection and its own for ever. It ends at once if the server closes its
//! sending side of an HTTP/1.1 connection, because the server only discards what it reads then (RFC
//! 9112, 9.6).

use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::oneshot;

/// Time that an upload has after the end of its response. Go's client closes such a connection
/// after 50 ms, nginx after 5 s to 30 s.
pub(crate) const LINGER: Duration = Duration::from_secs(10);

/// Held by the response until its end.
#[derive(Debug)]
pub(crate) struct LateUpload {
    response: oneshot::Sender<OwnedReadHalf>,
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
        Self { response }
    }

    /// The response is complete, and `half` has what the server sends after it.
    pub(crate) fn response_ended(self, half: OwnedReadHalf) {
        // An error means that the upload has ended.
        let _ = self.response.send(half);
    }
}

/// Waits for the end of the response, then `linger`, or until the server closes or sends more.
async fn lapse(response_ended: oneshot::Receiver<OwnedReadHalf>, linger: Duration) {
    // The sender is dropped with a response of HTTP/2, or with one that is not complete.
    let half = response_ended.await;
    let closed = async {
        match half {
            Ok(mut half) => drop(half.read(&mut [0]).await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = closed => {}
        () = tokio::time::sleep(linger) => {}
    }
}
