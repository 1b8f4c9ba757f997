//! Runs rows against a proxy and says which did not hold.
//!
//! Each row has a proxy and an app of its own. After its steps, another request on the same connection, or its end, shows
//! that caller and proxy agree where the last message ended; then a request on a new connection shows that the proxy is
//! well; and then the app must have seen the row's requests and these, and nothing else.

use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use tokio::net::TcpStream;

use crate::app::{REST, Sight, TestApp};
use crate::case::{After, Answer, Case, Kind, Seen, Step, ok, seen};
use crate::http2::{self, Peer, code};
use crate::wire::{Body, Framing, Head, Wire, latin1};

/// More than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);
/// Time for a head where that is what a row is about.
const HURRY: Duration = Duration::from_millis(300);
/// Rows at a time. They wait for timeouts, mostly.
const AT_A_TIME: usize = 16;

/// What a proxy is started with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Where its app listens.
    pub app: SocketAddr,
    /// Time a caller has for a head.
    pub header_timeout: Duration,
}

/// A proxy under test; it ends when this is dropped.
pub struct Running {
    /// Where it takes requests.
    pub address: SocketAddr,
    /// A probe's head, which it answers itself with 200.
    pub probe: &'static str,
    /// What holds it.
    pub guard: Box<dyn Any>,
}

/// Runs rows; `start` starts a proxy.
///
/// # Panics
/// When a row does not hold. The message names all that do not.
#[allow(clippy::panic, reason = "this is what tests call")]
pub async fn check<F: Future<Output = Running>>(start: impl Fn(Setup) -> F, rows: Vec<Case>) {
    let runs = rows.into_iter().map(|row| {
        let (start, acts) = (&start, row.app.clone());
        async move {
            let (name, source) = (row.name, row.source);
            (name, source, in_time(run(start, acts, Vec::new(), &Row::Http1(row))).await)
        }
    });
    report(runs).await;
}

/// Runs rows of HTTP/2.
///
/// # Panics
/// When a row does not hold.
pub async fn check_http2<F: Future<Output = Running>>(start: impl Fn(Setup) -> F, rows: Vec<http2::Case>) {
    let runs = rows.into_iter().map(|row| {
        let (start, acts) = (&start, row.app.clone());
        async move {
            let (name, source) = (row.name, row.source);
            (name, source, in_time(run(start, Vec::new(), acts, &Row::Http2(row))).await)
        }
    });
    report(runs).await;
}

enum Row {
    Http1(Case),
    Http2(http2::Case),
}

#[allow(clippy::panic, reason = "this is what tests call")]
async fn report<F>(runs: impl Iterator<Item = F>)
where
    F: Future<Output = (&'static str, &'static str, anyhow::Result<()>)>,
{
    let all: Vec<_> = futures::stream::iter(runs).buffer_unordered(AT_A_TIME).collect().await;
    let count = all.len();
    let failed: Vec<String> = all
        .into_iter()
        .filter_map(|(name, source, outcome)| Some(format!("✗ {name} ({source})\n  {:#}", outcome.err()?)))
        .collect();
    if !failed.is_empty() {
        panic!("{} of {count} rows do not hold:\n\n{}\n", failed.len(), failed.join("\n\n"));
    }
}

async fn in_time(run: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::time::timeout(3 * DEADLINE, run).await.context("the whole row took too long")?
}

async fn within<T>(what: &str, coming: impl Future<Output = T>) -> anyhow::Result<T> {
    tokio::time::timeout(DEADLINE, coming).await.with_context(|| format!("not within {DEADLINE:?}: {what}"))
}

async fn run<F: Future<Output = Running>>(
    start: impl Fn(Setup) -> F,
    acts: Vec<crate::case::Act>,
    http2_acts: Vec<http2::Act>,
    row: &Row,
) -> anyhow::Result<()> {
    let app = TestApp::start(acts, http2_acts).await?;
    let (hurry, whatever) = match row {
        Row::Http1(row) => (row.hurry, false),
        Row::Http2(row) => (row.hurry, row.whatever),
    };
    let header_timeout = if hurry { HURRY } else { Duration::from_secs(30) };
    let proxy = within("the proxy's start", start(Setup { app: app.address, header_timeout })).await?;
    let (outcome, mut sees, may_see) = match row {
        Row::Http1(row) => (http1_caller(row, &proxy, &app).await, row.sees.clone(), &row.may_see),
        Row::Http2(row) => (http2_caller(row, &proxy, &app).await, row.sees.clone(), &row.may_see),
    };
    let (after, next) = match row {
        Row::Http1(row) => (row.after, seen("GET /next HTTP/1.1\nhost: next")),
        Row::Http2(row) => (row.after, seen("GET /next HTTP/2\n:authority: a")),
    };
    let told =
        || format!("the app saw {:?}", app.seen().into_iter().map(|sight| sight.text).collect::<Vec<_>>());
    outcome.with_context(told)?;
    if after == After::StaysOpen {
        sees.push(next);
    }
    within("all requests at the app", app.has_seen(sees.len())).await.with_context(told)?;
    is_well(&proxy).await.context("afterwards, on a new connection").with_context(told)?;
    if whatever {
        let broken = app.seen().into_iter().find(|sight| sight.text.starts_with('['));
        return broken.map_or(Ok(()), |sight| Err(anyhow::anyhow!("the app saw {}", sight.text)));
    }
    sees.push(seen("GET /last HTTP/1.1\nhost: last"));
    for seen in &mut sees {
        seen.text = seen.text.replace("{proxy}", &proxy.address.to_string());
    }
    let mut seen = app.seen();
    if let Some(at) = seen.iter().position(|sight| Some(&sight.text) == may_see.as_ref()) {
        seen.remove(at);
    }
    compare(&seen, &sees)
}

/// A request on a new connection is answered as ever.
async fn is_well(proxy: &Running) -> anyhow::Result<()> {
    let mut caller = Caller::connect(proxy).await?;
    caller.wire.send(b"GET /last HTTP/1.1\r\nhost: last\r\n\r\n").await;
    caller.gets(&ok()).await
}

fn compare(seen: &[Sight], expected: &[Seen]) -> anyhow::Result<()> {
    let texts: Vec<&str> = seen.iter().map(|sight| sight.text.as_str()).collect();
    let wanted: Vec<&str> = expected.iter().map(|seen| seen.text.as_str()).collect();
    ensure!(texts == wanted, "the app saw {texts:#?}\n  instead of {wanted:#?}");
    for (sight, expected) in seen.iter().zip(expected) {
        fields(&sight.fields, &expected.with, &expected.without).context("at the app")?;
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

struct Caller {
    wire: Wire<TcpStream>,
}

async fn http1_caller(row: &Case, proxy: &Running, app: &TestApp) -> anyhow::Result<()> {
    let mut caller = Caller::connect(proxy).await?;
    for step in &row.caller {
        match step {
            Step::Sends(bytes) => caller.wire.send(bytes).await,
            Step::Gets(answer) => caller.gets(answer).await?,
            Step::GetsBytes(bytes) => {
                let got = within("bytes", caller.wire.take(bytes.len())).await?;
                ensure!(got == *bytes, "{:?} came instead of {:?}", latin1(&got), latin1(bytes));
            }
            Step::AwaitsApp(count) => within("the app sees it", app.has_seen(*count)).await?,
            Step::AwaitsProxy => await_proxy(proxy).await?,
            Step::Finishes => caller.wire.finish().await,
            Step::Rests => tokio::time::sleep(REST).await,
            Step::HangsUp => caller = Caller::connect(proxy).await?,
        }
    }
    match row.after {
        After::StaysOpen => {
            caller.wire.send(b"GET /next HTTP/1.1\r\nhost: next\r\n\r\n").await;
            caller.gets(&ok()).await.context("the next request on the connection")
        }
        After::Closes => {
            let more = within("the end of the connection", caller.wire.take(usize::MAX)).await?;
            ensure!(more.is_empty(), "more came before the end: {:?}", latin1(&more));
            Ok(())
        }
        After::Over => Ok(()),
    }
}

/// Probes take no upstream connection; after a few, whatever had come on one has been read.
async fn await_proxy(proxy: &Running) -> anyhow::Result<()> {
    let mut prober = Caller::connect(proxy).await?;
    for _ in 0..3 {
        prober.wire.send(proxy.probe.as_bytes()).await;
        prober.gets(&Answer { status: 200, ..Answer::default() }).await.context("a probe")?;
    }
    Ok(())
}

impl Caller {
    async fn connect(proxy: &Running) -> anyhow::Result<Self> {
        let stream = within("a connection", TcpStream::connect(proxy.address)).await?.context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { wire: Wire::new(stream) })
    }

    async fn gets(&mut self, answer: &Answer) -> anyhow::Result<()> {
        let expected = answer.status;
        let head = within("a response", self.wire.head()).await??;
        let Some(head) = head else { bail!("the connection ended before the {expected}") };
        let status = head.status()?;
        let framing = head.framing_of_response(answer.to_head).with_context(|| head.start.clone())?;
        let body = if status == 101 || framing == Framing::Sized(0) {
            Body::default()
        } else {
            within("a body", self.wire.body(framing)).await??
        };
        judge(status, &head, &body, answer).with_context(|| told(&head, &body))
    }
}

fn told(head: &Head, body: &Body) -> String {
    let cut = if body.cut { " and was cut" } else { "" };
    format!("{} {:?} came with {:?}{cut}, {:?}", head.start, head.fields, latin1(&body.bytes), body.trailers)
}

fn judge(status: u16, head: &Head, body: &Body, answer: &Answer) -> anyhow::Result<()> {
    ensure!(status == answer.status, "expected {}", answer.status);
    ensure!(answer.start.is_none_or(|start| start == head.start), "expected {:?}", answer.start);
    fields(&head.fields, &answer.with, &answer.without)?;
    ensure!(body.cut == answer.cut, "cut: {} instead of {}", body.cut, answer.cut);
    if let Some(expected) = &answer.body {
        ensure!(body.bytes == *expected, "expected the body {:?}", latin1(expected));
    }
    let trailers: Vec<_> = body.trailers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    ensure!(trailers == answer.trailers, "expected the trailers {:?}", answer.trailers);
    match answer.kind {
        Kind::App => Ok(()),
        Kind::Refusal if body.bytes.is_empty() => Ok(()),
        Kind::Problem | Kind::Refusal => is_problem(status, head, body).context("no problem document"),
    }
}

/// Short, of RFC 9457, and about this status.
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

async fn http2_caller(row: &http2::Case, proxy: &Running, app: &TestApp) -> anyhow::Result<()> {
    let stream = within("a connection", TcpStream::connect(proxy.address)).await?.context("connect")?;
    stream.set_nodelay(true)?;
    let mut peer = Peer::caller(stream).await;
    for step in &row.caller {
        match step {
            http2::Step::Sends(frames) => peer.send_all(frames).await,
            http2::Step::Uploads(stream, body) => {
                within("credit for a body", peer.upload(*stream, body)).await??;
            }
            http2::Step::Gets(stream, answer) => gets(&mut peer, *stream, answer).await?,
            http2::Step::IsReset(stream, code) => {
                let message = within("a reset", peer.message(*stream)).await??;
                ensure!(message.reset == Some(*code), "instead of a reset with {code}: {message:?}");
            }
            http2::Step::IsCut(stream) => {
                let message = within("a reset", peer.message(*stream)).await??;
                ensure!(message.reset.is_some() && !message.ended, "not cut: {message:?}");
            }
            http2::Step::Settles => await_proxy(proxy).await?,
            http2::Step::IsRefused(stream, code) => {
                let refused = match within("a refusal", peer.message(*stream)).await? {
                    Ok(message) => message.reset,
                    Err(_) => within("GOAWAY", peer.given_up()).await??,
                };
                ensure!(refused == Some(*code), "not refused with {code} but {refused:?}");
            }
            http2::Step::TurnsDeaf => peer.turn_deaf(),
            http2::Step::IsGivenUp(codes) => {
                let given_up = within("GOAWAY", peer.given_up()).await??;
                ensure!(
                    given_up.is_some_and(|code| codes.contains(&code)),
                    "given up with {given_up:?}, not {codes:?}"
                );
            }
            http2::Step::AwaitsApp(count) => within("the app sees it", app.has_seen(*count)).await?,
        }
    }
    match row.after {
        After::StaysOpen => {
            // Far above any stream of a row, and odd.
            peer.send(&http2::get(0x1001, "/next")).await;
            gets(&mut peer, 0x1001, &ok()).await.context("the next request on the connection")
        }
        After::Closes => {
            within("the end of the connection", peer.given_up()).await??;
            Ok(())
        }
        After::Over => Ok(()),
    }
}

async fn gets(peer: &mut Peer, stream: u32, answer: &Answer) -> anyhow::Result<()> {
    let message = within("a response", peer.message(stream)).await??;
    let mut head = Head { start: "HTTP/2".to_owned(), fields: message.fields.clone() };
    let status = head.all(":status").first().and_then(|status| status.parse().ok()).unwrap_or_default();
    head.fields.retain(|(name, _)| name != ":status");
    let mut body = message.body.clone();
    // A server may ask for the rest of a request to be spared once it has answered (RFC 9113, 8.1).
    body.cut = message.reset.is_some_and(|code| !(message.ended && code == code::NO_ERROR));
    judge(status, &head, &body, answer).with_context(|| told(&head, &body))
}
