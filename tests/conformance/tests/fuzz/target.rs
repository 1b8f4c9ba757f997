//! The target: a strict app, a queue-proxy with a container concurrency of 1, and an activator in
//! front of it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use conformance::addresses::AppAddress;
use conformance::app::TestApp;
use conformance::runner::{ProxySettings, RunningProxy};
use rand::{Rng, RngExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::input::{ConnectionEnd, Input};
use crate::support;

/// Longer than any connection takes unless it hangs.
const DEADLINE: Duration = Duration::from_secs(10);
const RESPONSE: &[u8] = b"HTTP/1.1 ";
const CONTINUE: &[u8] = b"HTTP/1.1 100 ";

/// The receiver of the inputs.
pub(crate) struct Target {
    app: TestApp,
    queue_proxy: support::QueueProxy,
    activator: RunningProxy,
    /// Upper bound of the HTTP/1 requests in all inputs so far.
    requests_sent: AtomicUsize,
}

// === impl Target ===

impl Target {
    pub(crate) async fn start() -> Self {
        let app = TestApp::start(AppAddress::Loopback, Vec::new(), Vec::new()).await.unwrap();
        let queue_proxy =
            support::QueueProxy::start(setup(app.address), &["--container-concurrency=1"]).await;
        let activator = support::activator(setup(queue_proxy.traffic)).await;
        Self { app, queue_proxy, activator, requests_sent: AtomicUsize::new(0) }
    }

    /// Sends an input through one of the proxies and checks the invariants.
    pub(crate) async fn check_input(&self, input: &Input, random: &mut impl Rng) -> anyhow::Result<()> {
        let proxy = if random.random() { self.queue_proxy.traffic } else { self.activator.address };
        let responses = in_time("the connection ends", send(proxy, input)).await??;
        if random.random_ratio(1, 8) || input.end != ConnectionEnd::ClosesWrite {
            self.serves(self.queue_proxy.traffic).await?;
        }
        let seen = self.app.observed();
        let read_error = seen.iter().find(|request| request.text.starts_with('['));
        ensure!(read_error.is_none(), "the app received invalid bytes: {read_error:?}");
        if input.is_http2() {
            return Ok(());
        }
        let requests = input.max_requests();
        // One more for the rejection of a request without a version.
        ensure!(responses <= requests + 1, "{responses} responses to {requests} requests");
        let requests_sent = self.requests_sent.fetch_add(requests, Ordering::Relaxed) + requests;
        // Checked as a sum, because a cut request may reach the app later.
        let of_inputs = |text: &str| !text.starts_with(HEALTH) && text.lines().next().is_some_and(is_http1);
        let seen = seen.iter().filter(|request| of_inputs(&request.text)).count();
        ensure!(seen <= requests_sent, "the app received {seen} requests of {requests_sent}");
        Ok(())
    }

    /// Checks that both proxies serve requests and that none is in flight.
    pub(crate) async fn check_health(&self) -> anyhow::Result<()> {
        for proxy in [self.queue_proxy.traffic, self.activator.address] {
            self.serves(proxy).await?;
        }
        in_time("nothing is in flight", async {
            while self.queue_proxy.metric("rouse_queue_proxy_requests_in_flight").await != 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }

    async fn serves(&self, proxy: SocketAddr) -> anyhow::Result<()> {
        let request = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let input = Input { segments: vec![request.to_vec()], end: ConnectionEnd::Reads };
        let responses = in_time("a request is served", send(proxy, &input)).await??;
        ensure!(responses == 1, "{responses} responses to a valid request");
        Ok(())
    }
}

/// Start of the health requests as the app receives them.
const HEALTH: &str = "GET /health HTTP/1.1";

fn is_http1(start: &str) -> bool {
    start.ends_with(" HTTP/1.1")
}

fn setup(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: Duration::from_secs(30), idle_timeout: Duration::from_secs(620) }
}

async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, coming)
        .await
        .with_context(|| format!("timed out after {DEADLINE:?}: {what}"))
}

/// Sends an input. Returns the number of final HTTP/1 responses.
async fn send(proxy: SocketAddr, input: &Input) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(proxy).await.context("connect to the proxy")?;
    stream.set_nodelay(true)?;
    let (mut reading, mut writing) = stream.split();
    let mut came = Vec::new();
    let write = async {
        for segment in &input.segments {
            // The proxy may have closed the connection already.
            if writing.write_all(segment).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if input.end == ConnectionEnd::ClosesWrite {
            let _ = writing.shutdown().await;
        }
    };
    match input.end {
        ConnectionEnd::ClosesWrite | ConnectionEnd::Reads => {
            // A reset is a valid end.
            let (_, _) = tokio::join!(write, reading.read_to_end(&mut came));
        }
        ConnectionEnd::Closes => write.await,
        ConnectionEnd::Resets => {
            write.await;
            reset(&stream)?;
        }
    }
    let count = |what: &[u8]| came.windows(what.len()).filter(|part| *part == what).count();
    Ok(count(RESPONSE) - count(CONTINUE))
}

/// A close with a linger time of zero sends a reset.
#[allow(deprecated, reason = "with zero it does not block, which is why it was deprecated")]
fn reset(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_linger(Some(Duration::ZERO))
}
