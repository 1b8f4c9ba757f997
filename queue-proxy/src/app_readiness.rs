//! Whether the app takes requests: asked hard until it does, and after that whenever somebody wants to know.
//!
//! A wake from zero waits for the first yes, so it must come within milliseconds of the app's own readiness. Later the
//! kubelet asks in its own time, and every round of it is one question to the app; who asks meanwhile gets the same
//! answer. An app that accepts no connection any more is one that starts again: it is asked hard again, and what arrives
//! waits for it.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::grpc_health;
use crate::readiness_probe::{Question, ReadinessProbe};

/// Begins as the kubelet's, which apps may treat apart (in their logs, say).
pub(crate) const USER_AGENT: &str = "kube-probe/rouse-queue-proxy";
/// Bounds of the pause between two tries. Below the first, a start-up would lose noticeable time to our own asking.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// The pause is this part of the time that the start has taken so far, so asking in pauses delays the answer by 5 %.
const PAUSE_PART: u32 = 20;

/// The app, as somebody to be asked.
#[derive(Clone, Debug)]
pub(crate) struct AppProbe {
    probe: ReadinessProbe,
    /// Where it takes requests, which need not be where it is asked.
    app: SocketAddr,
}

/// What came of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ready,
    /// It does not want requests, or answers too late.
    Unready,
    /// It accepts no connections where it takes requests.
    Away,
}

/// Why there was no answer. Nobody asks which: each is a no.
type AskError = Box<dyn std::error::Error + Send + Sync>;

/// The answers, for everybody who waits for one. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct AppReadiness(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    probe: AppProbe,
    /// Whether the app has begun to take requests.
    started: watch::Sender<bool>,
    /// The last answer, and when it came. Locked while the app is asked.
    last: Mutex<Option<(Instant, Verdict)>>,
}

// === impl AppProbe ===

impl AppProbe {
    /// The app that takes requests at `app`, to be asked by `probe`.
    pub(crate) fn new(app: SocketAddr, probe: ReadinessProbe) -> Self {
        Self { probe, app }
    }

    /// Whether the app takes requests now.
    pub(crate) async fn answers(&self) -> bool {
        self.ask().await == Verdict::Ready
    }

    async fn ask(&self) -> Verdict {
        let asked = async {
            match TcpStream::connect(self.address()).await {
                Ok(stream) => match self.ask_over(stream).await {
                    Ok(true) => Verdict::Ready,
                    Ok(false) | Err(_) => Verdict::Unready,
                },
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && self.address() == self.app => {
                    Verdict::Away
                }
                Err(_) => Verdict::Unready,
            }
        };
        timeout(self.probe.timeout, asked).await.unwrap_or(Verdict::Unready)
    }

    async fn ask_over(&self, stream: TcpStream) -> Result<bool, AskError> {
        match &self.probe.question {
            Question::Tcp(_) => Ok(true),
            Question::Http { address, path, headers } => {
                let status = get(stream, path, headers, *address).await?;
                Ok(status.is_success() || status.is_redirection())
            }
            Question::Grpc { service, .. } => grpc_health::serves(stream, service).await,
        }
    }

    fn address(&self) -> SocketAddr {
        match &self.probe.question {
            Question::Tcp(address) | Question::Http { address, .. } | Question::Grpc { address, .. } => {
                *address
            }
        }
    }
}

async fn get(
    stream: TcpStream,
    path: &Uri,
    headers: &HeaderMap,
    address: SocketAddr,
) -> Result<StatusCode, AskError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut request = Request::get(path.clone()).body(Empty::<Bytes>::new())?;
    let to = request.headers_mut();
    to.clone_from(headers);
    to.entry(header::HOST).or_insert(HeaderValue::try_from(address.to_string())?);
    to.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
    to.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
    to.insert(header::CONNECTION, HeaderValue::from_static("close"));
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
    /// Nothing is known until [`watch_starts`](Self::watch_starts) runs.
    pub(crate) fn new(probe: AppProbe) -> Self {
        Self(Arc::new(Shared { probe, started: watch::Sender::new(false), last: Mutex::new(None) }))
    }

    /// The app, for who needs an answer of their own.
    pub(crate) fn probe(&self) -> &AppProbe {
        &self.0.probe
    }

    pub(crate) fn has_started(&self) -> bool {
        *self.0.started.borrow()
    }

    /// Waits until the app has begun to take requests.
    pub(crate) async fn started(&self) {
        self.reached(true).await;
    }

    /// Asks the app once. Who comes while it is being asked gets the same answer.
    pub(crate) async fn ask(&self) -> Verdict {
        let came = Instant::now();
        let mut last = self.0.last.lock().await;
        if let Some((at, verdict)) = *last
            && at >= came
        {
            return verdict;
        }
        let verdict = self.0.probe.ask().await;
        *last = Some((Instant::now(), verdict));
        if verdict == Verdict::Away && self.0.started.send_replace(false) {
            tracing::info!("the app accepts no connection any more");
        }
        verdict
    }

    /// Asks hard through each start of the app. Never returns.
    pub(crate) async fn watch_starts(&self) {
        loop {
            self.reached(false).await;
            let began = Instant::now();
            let mut successes = 0;
            while successes < self.0.probe.probe.successes {
                successes = if self.0.probe.answers().await { successes + 1 } else { 0 };
                if successes < self.0.probe.probe.successes {
                    sleep((began.elapsed() / PAUSE_PART).clamp(PAUSE.0, PAUSE.1)).await;
                }
            }
            tracing::info!(after = ?began.elapsed(), "the app takes requests");
            self.0.started.send_replace(true);
        }
    }

    async fn reached(&self, started: bool) {
        // An error means that the sender is gone, and it lives in self.
        let _ = self.0.started.subscribe().wait_for(|now| *now == started).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_accepted_connection_is_enough_without_a_path() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = app.local_addr().unwrap();
        let probe = AppProbe::new(address, ReadinessProbe::tcp(address));
        // Asked elsewhere than where it takes requests, a no says nothing of those.
        let elsewhere = AppProbe::new(([127, 0, 0, 1], 1).into(), ReadinessProbe::tcp(address));
        assert_eq!((probe.ask().await, elsewhere.ask().await), (Verdict::Ready, Verdict::Ready));
        drop(app);
        assert_eq!((probe.ask().await, elsewhere.ask().await), (Verdict::Away, Verdict::Unready));
    }

    #[tokio::test]
    async fn with_a_path_the_status_decides() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = app.local_addr().unwrap();
        let probe = AppProbe::new(address, ReadinessProbe::http(address, "/healthz").unwrap());
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

    #[tokio::test]
    async fn who_asks_meanwhile_gets_the_same_answer() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = app.local_addr().unwrap();
        let probe = ReadinessProbe::http(address, "/healthz").unwrap();
        let readiness = AppReadiness::new(AppProbe::new(address, probe));
        // It answers once, and whoever came later would wait in vain.
        let answer = async {
            let (mut stream, _) = app.accept().await.unwrap();
            let _ = stream.read(&mut [0; 256]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        };
        let (first, second, ()) = tokio::join!(readiness.ask(), readiness.ask(), answer);
        assert_eq!((first, second), (Verdict::Ready, Verdict::Ready));
    }
}
