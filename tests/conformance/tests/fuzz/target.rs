//! Target: the strict app, a sidecar that lets it have one request at a time, and an activator in
//! front of that.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use conformance::app::TestApp;
use conformance::runner::{ProxySettings, RunningProxy};
use rand::{Rng, RngExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::input::{Input, Leaving};
use crate::support;

/// More than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(10);
const ANSWER: &[u8] = b"HTTP/1.1 ";
const LEAVE: &[u8] = b"HTTP/1.1 100 ";

/// What inputs are sent to.
pub(crate) struct Target {
    app: TestApp,
    sidecar: support::Sidecar,
    activator: RunningProxy,
    /// Requests of HTTP/1 in all inputs so far, at most.
    asked: AtomicUsize,
}

// === impl Target ===

impl Target {
    pub(crate) async fn start() -> Self {
        let app = TestApp::start(Vec::new(), Vec::new()).await.unwrap();
        let sidecar = support::Sidecar::start(setup(app.address), &["--container-concurrency=1"]).await;
        let activator = support::activator(setup(sidecar.traffic)).await;
        Self { app, sidecar, activator, asked: AtomicUsize::new(0) }
    }

    /// Sends an input through one of the proxies and looks at what came of it.
    pub(crate) async fn withstands(&self, input: &Input, random: &mut impl Rng) -> anyhow::Result<()> {
        let proxy = if random.random() { self.sidecar.traffic } else { self.activator.address };
        let answers = in_time("the connection ends", send(proxy, input)).await??;
        if random.random_ratio(1, 8) || input.leaving != Leaving::Finishes {
            self.serves(self.sidecar.traffic).await?;
        }
        let seen = self.app.observed();
        let read_error = seen.iter().find(|request| request.text.starts_with('['));
        ensure!(read_error.is_none(), "the app saw {read_error:?}");
        if input.is_http2() {
            return Ok(());
        }
        let requests = input.most_requests();
        // One more, which is a refusal of what has no version.
        ensure!(answers <= requests + 1, "{answers} answers to {requests} requests");
        let asked = self.asked.fetch_add(requests, Ordering::Relaxed) + requests;
        // In sum: what was cut may reach the app a little later.
        let of_inputs = |text: &str| !text.starts_with(WELL) && text.lines().next().is_some_and(is_http1);
        let seen = seen.iter().filter(|request| of_inputs(&request.text)).count();
        ensure!(seen <= asked, "the app received {seen} requests of {asked}");
        Ok(())
    }

    /// Both serve as ever, and nothing is left of what was.
    pub(crate) async fn is_well(&self) -> anyhow::Result<()> {
        for proxy in [self.sidecar.traffic, self.activator.address] {
            self.serves(proxy).await?;
        }
        in_time("nothing is in flight", async {
            while self.sidecar.metric("rouse_queue_proxy_requests_in_flight").await != 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await
    }

    async fn serves(&self, proxy: SocketAddr) -> anyhow::Result<()> {
        let request = b"GET /well HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let input = Input { segments: vec![request.to_vec()], leaving: Leaving::Waits };
        let answers = in_time("a request is served", send(proxy, &input)).await??;
        ensure!(answers == 1, "{answers} answers to a good request");
        Ok(())
    }
}

/// The start of what the app sees of our own requests.
const WELL: &str = "GET /well HTTP/1.1";

fn is_http1(start: &str) -> bool {
    start.ends_with(" HTTP/1.1")
}

fn setup(app: SocketAddr) -> ProxySettings {
    ProxySettings { app, header_timeout: Duration::from_secs(30) }
}

async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, coming).await.with_context(|| format!("not within {DEADLINE:?}: {what}"))
}

/// Sends an input, and counts the answers of HTTP/1 that came.
async fn send(proxy: SocketAddr, input: &Input) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(proxy).await.context("nobody listens")?;
    stream.set_nodelay(true)?;
    let (mut reading, mut writing) = stream.split();
    let mut came = Vec::new();
    let write = async {
        for segment in &input.segments {
            // It may have closed already, which is its right.
            if writing.write_all(segment).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if input.leaving == Leaving::Finishes {
            let _ = writing.shutdown().await;
        }
    };
    match input.leaving {
        Leaving::Finishes | Leaving::Waits => {
            // A reset is an end as well.
            let (_, _) = tokio::join!(write, reading.read_to_end(&mut came));
        }
        Leaving::HangsUp => write.await,
        Leaving::Resets => {
            write.await;
            reset(&stream)?;
        }
    }
    let count = |what: &[u8]| came.windows(what.len()).filter(|part| *part == what).count();
    Ok(count(ANSWER) - count(LEAVE))
}

/// A close with a linger of zero is a reset.
#[allow(deprecated, reason = "with zero it does not block, which is why it was deprecated")]
fn reset(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_linger(Some(Duration::ZERO))
}
