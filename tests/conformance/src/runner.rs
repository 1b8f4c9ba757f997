//! Runs rows against a proxy and reports the failed ones.
//!
//! Each row has its own proxy and app. After the steps, a further request on the same connection,
//! or its end, shows that client and proxy agree on the end of the last message. A request on a new
//! connection then shows that the proxy still works. The app must have received the row's requests
//! and these two, and nothing else.

use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use tokio::net::TcpStream;

use crate::app::{PAUSE, TestApp};
use crate::app_state::ObservedRequest;
use crate::case::{
    Case, ClientStep, ConnectionAfter, ExpectedRequest, ExpectedResponse, ResponseOrigin, Times, observed, ok,
};
use crate::http2::peer::Http2Peer;
use crate::http2::{self, Http2Step, code};
use crate::wire::{Body, Framing, Head, Wire, latin1};

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);
/// Header timeout for rows that test it.
const SHORT_HEADER_TIMEOUT: Duration = Duration::from_millis(300);
/// Idle timeout of connections, of all other rows.
const IDLE_TIMEOUT: Duration = Duration::from_secs(620);
/// Rows that run concurrently; they mostly wait for timeouts.
const CONCURRENT_ROWS: usize = 16;

/// Settings of a started proxy.
#[derive(Clone, Copy, Debug)]
pub struct ProxySettings {
    /// Address of the app.
    pub app: SocketAddr,
    /// Longest time until a head is complete.
    pub header_timeout: Duration,
    /// Time without a request after which a connection is closed.
    pub idle_timeout: Duration,
}

/// A proxy under test; it ends when this is dropped.
pub struct RunningProxy {
    /// Address of its traffic port, of IPv4; the same port is open for IPv6.
    pub address: SocketAddr,
    /// Head of a probe, to which it responds with 200 itself.
    pub probe: &'static str,
    /// Keeps it running.
    pub guard: Box<dyn Any>,
}

/// Runs rows; `start` starts a proxy.
///
/// # Panics
/// When a row fails. The message lists all failed rows.
#[allow(clippy::panic, reason = "this is what tests call")]
pub async fn check<F: Future<Output = RunningProxy>>(start: impl Fn(ProxySettings) -> F, rows: Vec<Case>) {
    let runs = rows.into_iter().map(|row| {
        let (start, actions) = (&start, row.app.clone());
        async move {
            let (name, source) = (row.name, row.source);
            (name, source, in_time(run(start, actions, Vec::new(), &Row::Http1(row))).await)
        }
    });
    report(runs).await;
}

/// Runs rows of HTTP/2.
///
/// # Panics
/// When a row fails.
pub async fn check_http2<F: Future<Output = RunningProxy>>(
    start: impl Fn(ProxySettings) -> F,
    rows: Vec<http2::Http2Case>,
) {
    let runs = rows.into_iter().map(|row| {
        let (start, actions) = (&start, row.app.clone());
        async move {
            let (name, source) = (row.name, row.source);
            (name, source, in_time(run(start, Vec::new(), actions, &Row::Http2(row))).await)
        }
    });
    report(runs).await;
}

enum Row {
    Http1(Case),
    Http2(http2::Http2Case),
}

#[allow(clippy::panic, reason = "this is what tests call")]
async fn report<F>(runs: impl Iterator<Item = F>)
where
    F: Future<Output = (&'static str, &'static str, anyhow::Result<()>)>,
{
    let all: Vec<_> = futures::stream::iter(runs).buffer_unordered(CONCURRENT_ROWS).collect().await;
    let count = all.len();
    let failed: Vec<String> = all
        .into_iter()
        .filter_map(|(name, source, outcome)| Some(format!("✗ {name} ({source})\n  {:#}", outcome.err()?)))
        .collect();
    if !failed.is_empty() {
        panic!("{} of {count} rows failed:\n\n{}\n", failed.len(), failed.join("\n\n"));
    }
}

async fn in_time(run: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::time::timeout(3 * DEADLINE, run).await.context("the row did not end in time")?
}

async fn within<T>(what: &str, coming: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, coming).await.with_context(|| format!("not within {DEADLINE:?}: {what}"))
}

async fn run<F: Future<Output = RunningProxy>>(
    start: impl Fn(ProxySettings) -> F,
    actions: Vec<crate::case::AppAction>,
    http2_actions: Vec<http2::Http2Action>,
    row: &Row,
) -> anyhow::Result<()> {
    let (times, any_requests, addresses) = match row {
        Row::Http1(row) => (row.times, false, row.addresses),
        Row::Http2(row) => (row.times, row.any_requests, row.addresses),
    };
    let app = TestApp::start(addresses.app, actions, http2_actions).await?;
    let (header_timeout, idle_timeout) = match times {
        Times::Default => (Duration::from_secs(30), IDLE_TIMEOUT),
        Times::ShortHead => (SHORT_HEADER_TIMEOUT, IDLE_TIMEOUT),
        Times::ShortHeadAndIdle => (SHORT_HEADER_TIMEOUT, SHORT_HEADER_TIMEOUT),
    };
    let settings = ProxySettings { app: app.address, header_timeout, idle_timeout };
    let mut proxy = within("the proxy's start", start(settings)).await?;
    proxy.address.set_ip(addresses.client);
    let (outcome, mut receives, may_receive) = match row {
        Row::Http1(row) => {
            (run_http1_client(row, &proxy, &app).await, row.receives.clone(), &row.may_receive)
        }
        Row::Http2(row) => {
            (run_http2_client(row, &proxy, &app).await, row.receives.clone(), &row.may_receive)
        }
    };
    let (after, next) = match row {
        Row::Http1(row) => (row.after, observed("GET /next HTTP/1.1\nhost: next")),
        Row::Http2(row) => (row.after, observed("GET /next HTTP/2\n:authority: a")),
    };
    let describe = || {
        format!(
            "the app received {:?}",
            app.observed().into_iter().map(|observed_request| observed_request.text).collect::<Vec<_>>()
        )
    };
    outcome.with_context(describe)?;
    if after == ConnectionAfter::StaysOpen {
        receives.push(next);
    }
    within("all requests at the app", app.wait_for_requests(receives.len())).await.with_context(describe)?;
    // On a busy machine a head may take longer than the short timeout.
    let attempts = if header_timeout == SHORT_HEADER_TIMEOUT { 5 } else { 1 };
    check_new_connection(&proxy, attempts)
        .await
        .context("afterwards, on a new connection")
        .with_context(describe)?;
    let clients = app.clients();
    let is_local = addresses.hides_loopback && clients.iter().any(|client| client.is_loopback());
    ensure!(!is_local, "the app sees clients at {clients:?}");
    if any_requests {
        let read_error =
            app.observed().into_iter().find(|observed_request| observed_request.text.starts_with('['));
        return read_error.map_or(Ok(()), |observed_request| {
            Err(anyhow::anyhow!("the app received {}", observed_request.text))
        });
    }
    receives.push(observed("GET /last HTTP/1.1\nhost: last"));
    for observed in &mut receives {
        observed.text = observed.text.replace("{proxy}", &proxy.address.to_string());
    }
    let mut observed = app.observed();
    if let Some(at) =
        observed.iter().position(|observed_request| Some(&observed_request.text) == may_receive.as_ref())
    {
        observed.remove(at);
    }
    compare(&observed, &receives)
}

/// Checks that a request on a new connection is served.
async fn check_new_connection(proxy: &RunningProxy, attempts: usize) -> anyhow::Result<()> {
    let mut served = Ok(());
    for _ in 0..attempts {
        let mut client = TestClient::connect(proxy).await?;
        client.wire.send(b"GET /last HTTP/1.1\r\nhost: last\r\n\r\n").await;
        served = client.gets(&ok()).await;
        if served.is_ok() {
            break;
        }
    }
    served
}

fn compare(observed: &[ObservedRequest], expected: &[ExpectedRequest]) -> anyhow::Result<()> {
    let texts: Vec<&str> = observed.iter().map(|observed_request| observed_request.text.as_str()).collect();
    let wanted: Vec<&str> = expected.iter().map(|observed| observed.text.as_str()).collect();
    ensure!(texts == wanted, "the app received {texts:#?}\n  instead of {wanted:#?}");
    for (observed_request, expected) in observed.iter().zip(expected) {
        fields(&observed_request.fields, &expected.with, &expected.without).context("at the app")?;
    }
    Ok(())
}

fn fields(come: &[(String, String)], with: &[&str], without: &[&str]) -> anyhow::Result<()> {
    let come: Vec<String> = come.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    for field in with {
        ensure!(come.iter().any(|come| come == field), "no {field:?} in {come:#?}");
    }
    for name in without {
        ensure!(!come.iter().any(|come| come.starts_with(name)), "{name:?} in {come:#?}");
    }
    Ok(())
}

// === HTTP/1 ===

struct TestClient {
    wire: Wire<TcpStream>,
}

async fn run_http1_client(row: &Case, proxy: &RunningProxy, app: &TestApp) -> anyhow::Result<()> {
    let mut client = TestClient::connect(proxy).await?;
    for step in &row.client {
        match step {
            ClientStep::Sends(bytes) => client.wire.send(bytes).await,
            ClientStep::Gets(response) => client.gets(response).await?,
            ClientStep::GetsBytes(bytes) => {
                let got = within("bytes", client.wire.take(bytes.len())).await?;
                ensure!(got == *bytes, "received {:?} instead of {:?}", latin1(&got), latin1(bytes));
            }
            ClientStep::AwaitsApp(count) => within("the app sees it", app.wait_for_requests(*count)).await?,
            ClientStep::AwaitsProxy => await_proxy(proxy).await?,
            ClientStep::ClosesWrite => client.wire.close_write().await,
            ClientStep::Pauses => tokio::time::sleep(PAUSE).await,
            ClientStep::Resets => {
                client.wire.set_reset()?;
                client = TestClient::connect(proxy).await?;
            }
            ClientStep::AwaitsEnd => {
                let more = within("the end of the bytes", client.wire.take(1)).await?;
                ensure!(more.is_empty() && !client.wire.was_reset(), "no end: {more:?}");
            }
            ClientStep::IsReset => {
                let more = within("the end of the connection", client.wire.take(usize::MAX)).await?;
                ensure!(more.is_empty() && client.wire.was_reset(), "an end instead of a reset: {more:?}");
            }
            ClientStep::Disconnects => client = TestClient::connect(proxy).await?,
        }
    }
    match row.after {
        ConnectionAfter::StaysOpen => {
            client.wire.send(b"GET /next HTTP/1.1\r\nhost: next\r\n\r\n").await;
            client.gets(&ok()).await.context("the next request on the connection")
        }
        ConnectionAfter::Closes => {
            let more = within("the end of the connection", client.wire.take(usize::MAX)).await?;
            let was_reset = client.wire.was_reset();
            ensure!(more.is_empty() && !was_reset, "reset: {was_reset}, bytes: {:?}", latin1(&more));
            Ok(())
        }
        ConnectionAfter::Over => Ok(()),
    }
}

/// Sends a few probes, which use no upstream connection. After them the proxy has processed the
/// events of all its connections.
async fn await_proxy(proxy: &RunningProxy) -> anyhow::Result<()> {
    let mut prober = TestClient::connect(proxy).await?;
    for _ in 0..3 {
        prober.wire.send(proxy.probe.as_bytes()).await;
        prober
            .gets(&ExpectedResponse { status: 200, ..ExpectedResponse::default() })
            .await
            .context("a probe")?;
    }
    Ok(())
}

impl TestClient {
    async fn connect(proxy: &RunningProxy) -> anyhow::Result<Self> {
        let stream = within("a connection", TcpStream::connect(proxy.address)).await?.context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { wire: Wire::new(stream) })
    }

    async fn gets(&mut self, response: &ExpectedResponse) -> anyhow::Result<()> {
        let expected = response.status;
        let head = within("a response", self.wire.head()).await??;
        let Some(head) = head else { bail!("the connection ended before the {expected}") };
        let status = head.status()?;
        let framing = head.framing_of_response(response.to_head).with_context(|| head.start.clone())?;
        let body = if status == 101 || framing == Framing::Sized(0) {
            Body::default()
        } else {
            within("a body", self.wire.body(framing)).await??
        };
        check_response(status, &head, &body, response).with_context(|| describe(&head, &body))
    }
}

fn describe(head: &Head, body: &Body) -> String {
    let cut = if body.cut { " and was cut" } else { "" };
    format!(
        "received {} {:?} with {:?}{cut}, {:?}",
        head.start,
        head.fields,
        latin1(&body.bytes),
        body.trailers
    )
}

fn check_response(status: u16, head: &Head, body: &Body, response: &ExpectedResponse) -> anyhow::Result<()> {
    ensure!(status == response.status, "expected {}", response.status);
    ensure!(response.start.is_none_or(|start| start == head.start), "expected {:?}", response.start);
    fields(&head.fields, &response.with, &response.without)?;
    ensure!(body.cut == response.cut, "cut: {} instead of {}", body.cut, response.cut);
    if let Some(expected) = &response.body {
        ensure!(body.bytes == *expected, "expected the body {:?}", latin1(expected));
    }
    let trailers: Vec<_> = body.trailers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    ensure!(trailers == response.trailers, "expected the trailers {:?}", response.trailers);
    match response.kind {
        ResponseOrigin::App => Ok(()),
        ResponseOrigin::ProxyWithoutBody if body.bytes.is_empty() => Ok(()),
        ResponseOrigin::ProxyProblem | ResponseOrigin::ProxyWithoutBody => {
            is_problem(status, head, body).context("no problem document")
        }
    }
}

/// Checks a problem document of RFC 9457 with this status.
fn is_problem(status: u16, head: &Head, body: &Body) -> anyhow::Result<()> {
    ensure!(head.all("content-type") == ["application/problem+json"], "{:?}", head.all("content-type"));
    ensure!(body.bytes.len() < 512, "{} bytes", body.bytes.len());
    let document: serde_json::Value = serde_json::from_slice(&body.bytes)?;
    ensure!(document["status"] == status, "{document}");
    for member in ["title", "detail"] {
        ensure!(document[member].as_str().is_some_and(|text| !text.is_empty()), "{member} in {document}");
    }
    Ok(())
}

// === HTTP/2 ===

async fn run_http2_client(row: &http2::Http2Case, proxy: &RunningProxy, app: &TestApp) -> anyhow::Result<()> {
    let stream = within("a connection", TcpStream::connect(proxy.address)).await?.context("connect")?;
    stream.set_nodelay(true)?;
    let mut peer = Http2Peer::client(stream).await;
    for step in &row.client {
        match step {
            Http2Step::Sends(frames) => peer.send_all(frames).await,
            Http2Step::Uploads(stream, body) => {
                within("credit for a body", peer.upload(*stream, body)).await??;
            }
            Http2Step::Gets(stream, response) => gets(&mut peer, *stream, response).await?,
            Http2Step::IsReset(stream, code) => {
                let reset = within("a reset", peer.reset_code(*stream)).await??;
                ensure!(reset == *code, "a reset with {reset} instead of {code}");
            }
            Http2Step::GetsInterim(stream, fields) => {
                within("an interim response", peer.expect_interim(*stream, fields)).await??;
            }
            Http2Step::IsCut(stream) => {
                let message = within("a reset", peer.message(*stream)).await??;
                ensure!(message.reset.is_some() && !message.ended, "not cut: {message:?}");
            }
            Http2Step::AwaitsEnd(stream) => {
                within("the end of a stream", peer.message(*stream)).await??;
            }
            Http2Step::AwaitsProxy => await_proxy(proxy).await?,
            Http2Step::IsRejected(stream, code) => {
                let refused = match within("a rejection", peer.message(*stream)).await? {
                    Ok(message) => message.reset,
                    Err(_) => within("GOAWAY", peer.goaway_code()).await??,
                };
                ensure!(refused == Some(*code), "expected a rejection with {code}: {refused:?}");
            }
            Http2Step::Pauses => peer.read_for(PAUSE).await?,
            Http2Step::StopsPingReplies => peer.stop_ping_replies(),
            Http2Step::GetsGoaway(codes) => {
                let goaway_code = within("GOAWAY", peer.goaway_code()).await??;
                ensure!(
                    goaway_code.is_some_and(|code| codes.contains(&code)),
                    "GOAWAY with {goaway_code:?} instead of {codes:?}"
                );
            }
            Http2Step::AwaitsApp(count) => within("the app sees it", app.wait_for_requests(*count)).await?,
        }
    }
    match row.after {
        ConnectionAfter::StaysOpen => {
            // Above any stream of a row, and odd.
            peer.send(&http2::get(0x1001, "/next")).await;
            gets(&mut peer, 0x1001, &ok()).await.context("the next request on the connection")
        }
        ConnectionAfter::Closes => {
            within("the end of the connection", peer.goaway_code()).await??;
            Ok(())
        }
        ConnectionAfter::Over => Ok(()),
    }
}

async fn gets(peer: &mut Http2Peer, stream: u32, response: &ExpectedResponse) -> anyhow::Result<()> {
    let message = within("a response", peer.message(stream)).await??;
    ensure!(message.interim.is_empty(), "interim responses: {:?}", message.interim);
    let mut head = Head { start: "HTTP/2".to_owned(), fields: message.fields.clone() };
    let status = head.all(":status").first().and_then(|status| status.parse().ok()).unwrap_or_default();
    head.fields.retain(|(name, _)| name != ":status");
    let mut body = message.body.clone();
    // After its response a server may reset the rest of a request with NO_ERROR (RFC 9113, 8.1).
    body.cut = message.reset.is_some_and(|code| !(message.ended && code == code::NO_ERROR));
    check_response(status, &head, &body, response).with_context(|| describe(&head, &body))
}
