//! Whether the app takes requests: asked hard until it does for the first time, then never again.
//!
//! A wake from zero waits for this answer, so it must come within milliseconds of the app's own readiness. What happens
//! later is not our matter: an app that stops to answer is for its liveness probe.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Longest time for one answer of the app.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Bounds of the pause between two tries. Below the first, a start-up would lose noticeable time to our own asking.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// The pause is this part of the time that the start has taken so far, so asking in pauses delays the answer by 5 %.
const PAUSE_PART: u32 = 20;

/// One question to the app.
#[derive(Clone, Debug)]
pub(crate) struct AppProbe {
    address: SocketAddr,
    /// None: an accepted connection is enough.
    path: Option<Uri>,
}

/// Why there was no answer. Nobody asks which: each is a no.
type AskError = Box<dyn std::error::Error + Send + Sync>;

/// The answer, for everybody who waits for it.
#[derive(Clone, Debug)]
pub(crate) struct AppReadiness {
    ready: watch::Receiver<bool>,
}

// === impl AppProbe ===

impl AppProbe {
    pub(crate) fn new(address: SocketAddr, path: Option<Uri>) -> Self {
        Self { address, path }
    }

    /// Whether the app takes requests now.
    pub(crate) async fn answers(&self) -> bool {
        matches!(timeout(ANSWER_TIMEOUT, self.ask()).await, Ok(Ok(true)))
    }

    async fn ask(&self) -> Result<bool, AskError> {
        let stream = TcpStream::connect(self.address).await?;
        let Some(path) = &self.path else { return Ok(true) };
        let status = get(stream, path, self.address).await?;
        Ok(status.is_success() || status.is_redirection())
    }
}

async fn get(stream: TcpStream, path: &Uri, address: SocketAddr) -> Result<StatusCode, AskError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path.clone())
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, "rouse-queue-proxy")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())?;
    let mut response = pin!(sender.send_request(request));
    // The connection is driven beside the request. It may end first, and has handed over the response by then.
    let response = tokio::select! {
        response = &mut response => response?,
        _ = connection => response.await?,
    };
    Ok(response.status())
}

// === impl AppReadiness ===

impl AppReadiness {
    /// The answer, not known yet, and where [`watch_start`] publishes it.
    pub(crate) fn channel() -> (watch::Sender<bool>, Self) {
        let (sender, ready) = watch::channel(false);
        (sender, Self { ready })
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Waits until the app has taken its first request.
    pub(crate) async fn ready(&self) {
        if self.ready.clone().wait_for(|ready| *ready).await.is_err() {
            // The watcher ended without a yes, so there will never be one; callers bound their patience.
            std::future::pending::<()>().await;
        }
    }
}

/// Asks the app until it answers for the first time.
pub(crate) async fn watch_start(probe: &AppProbe, publish: &watch::Sender<bool>) {
    let began = Instant::now();
    while !probe.answers().await {
        sleep((began.elapsed() / PAUSE_PART).clamp(PAUSE.0, PAUSE.1)).await;
    }
    tracing::info!(after = ?began.elapsed(), "the app takes requests");
    publish.send_replace(true);
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_accepted_connection_is_enough_without_a_path() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let probe = AppProbe::new(app.local_addr().unwrap(), None);
        assert!(probe.answers().await);
        drop(app);
        assert!(!probe.answers().await);
    }

    #[tokio::test]
    async fn with_a_path_the_status_decides() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let probe = AppProbe::new(app.local_addr().unwrap(), Some(Uri::from_static("/healthz")));
        for (status, expected) in [("200 OK", true), ("503 Not Yet", false), ("302 Found", true), ("", false)]
        {
            let answer = async {
                let (mut stream, _) = app.accept().await.unwrap();
                let mut request = [0; 256];
                let n = stream.read(&mut request).await.unwrap();
                assert!(request[..n].starts_with(b"GET /healthz HTTP/1.1\r\n"));
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
            };
            let (answers, ()) = tokio::join!(probe.answers(), answer);
            assert_eq!(answers, expected, "{status}");
        }
    }
}
