//! Requests that exceed a timeout, and their slots.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, channel::mpsc};
use http::{Request, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::app::TestApp;
use support::{Sidecar, eventually, request, send, text, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

const ONE_SLOT: &str = "--container-concurrency=1";

fn of(version: Version, path: &str) -> Request<Full<Bytes>> {
    let request = Request::get(format!("http://web.example{path}")).version(version);
    request.header("host", "web.example").body(Full::default()).unwrap()
}

/// Checks that the slot is free and the next request is served.
async fn assert_serves(sidecar: &Sidecar) {
    sidecar.holds(0.0, 0.0).await;
    assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
}

#[tokio::test]
async fn request_without_response_in_time_gets_504_and_releases_its_slot() {
    let app = TestApp::start().await;
    for (flag, detail) in [
        ("--timeout=100ms", "did not complete within 100ms"),
        ("--response-start-timeout=100ms", "did not start its response within 100ms"),
        ("--idle-timeout=100ms", "no byte was sent or received for 100ms"),
    ] {
        let sidecar = Sidecar::start(app.address, &[ONE_SLOT, flag]).await;
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let began = Instant::now();
            let late = within(send(sidecar.at.traffic, of(version, "/wait"))).await;
            assert!(began.elapsed() >= Duration::from_millis(99), "{:?}", began.elapsed());
            assert_eq!(late.status(), StatusCode::GATEWAY_TIMEOUT, "{flag} {version:?}");
            assert_eq!(late.headers()["content-type"], "application/problem+json");
            let problem = text(late).await;
            assert!(problem.contains(detail), "{problem}");
            assert_serves(&sidecar).await;
        }
        assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"5xx\"}").await, 2.0);
    }
}

#[tokio::test]
async fn counts_time_in_the_queue() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT, "--response-start-timeout=300ms"]).await;
    let mut running = within(sidecar.get("/slow-body")).await;
    within(running.frame()).await.unwrap().unwrap();
    let queued = within(sidecar.get("/")).await;
    assert_eq!(queued.status(), StatusCode::GATEWAY_TIMEOUT);
    // A response that has begun is bounded by --timeout alone.
    sidecar.holds(1.0, 0.0).await;
    app.open(1);
    assert_eq!(within(running.frame()).await.unwrap().unwrap().into_data().unwrap(), "end");
}

#[tokio::test]
async fn cuts_late_response_so_that_client_detects_it() {
    let app = TestApp::start().await;
    for flag in ["--timeout=200ms", "--idle-timeout=200ms"] {
        let sidecar = Sidecar::start(app.address, &[ONE_SLOT, flag]).await;
        let mut client = TcpStream::connect(sidecar.at.traffic).await.unwrap();
        client.write_all(b"GET /slow-body HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut all = Vec::new();
        // A close and a reset both mark it as incomplete.
        let _ = within(client.read_to_end(&mut all)).await;
        let all = String::from_utf8(all).unwrap();
        assert!(all.starts_with("HTTP/1.1 200") && all.ends_with("begin\r\n"), "{flag}: {all}");
        assert_serves(&sidecar).await;

        let mut stream = within(send(sidecar.at.traffic, of(Version::HTTP_2, "/slow-body"))).await;
        assert_eq!(within(stream.frame()).await.unwrap().unwrap().into_data().unwrap(), "begin");
        assert!(within(stream.frame()).await.unwrap().is_err(), "{flag}: the stream must be reset");
        assert_serves(&sidecar).await;
    }
}

#[tokio::test]
async fn upload_is_not_idle() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--idle-timeout=300ms", "--timeout=0"]).await;
    let stream = TokioIo::new(TcpStream::connect(sidecar.at.traffic).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let (mut upload, parts) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(0);
    let upload_request = Request::post("/count").header("host", "x").body(StreamBody::new(parts)).unwrap();
    let response = tokio::spawn(sender.send_request(upload_request));
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(900) {
        upload.send(Ok(Frame::data(Bytes::from("part")))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    drop(upload);
    assert_eq!(within(response).await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn client_that_reads_nothing_loses_its_slot() {
    let app = TestApp::start().await;
    for flag in ["--timeout=300ms", "--idle-timeout=300ms"] {
        let sidecar = Sidecar::start(app.address, &[ONE_SLOT, flag]).await;
        let mut client = TcpStream::connect(sidecar.at.traffic).await.unwrap();
        client.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        sidecar.holds(1.0, 0.0).await;
        assert_serves(&sidecar).await;

        let stream = TokioIo::new(TcpStream::connect(sidecar.at.traffic).await.unwrap());
        let mut http2 = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        // With a window of zero the sidecar may send nothing.
        http2.initial_stream_window_size(0);
        let (mut sender, connection) = http2.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        let stalled = within(sender.send_request(of(Version::HTTP_2, "/endless"))).await.unwrap();
        assert_eq!(stalled.status(), StatusCode::OK);
        assert_serves(&sidecar).await;
        drop((client, stalled));
    }
}

#[tokio::test]
async fn only_the_idle_timeout_ends_an_upgraded_connection() {
    let app = TestApp::start().await;
    let flags = [ONE_SLOT, "--timeout=100ms", "--response-start-timeout=50ms", "--idle-timeout=400ms"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    let mut upgrade = request("/upgrade");
    upgrade.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    upgrade.headers_mut().insert("upgrade", "echo".parse().unwrap());
    let mut response = within(send(sidecar.at.traffic, upgrade)).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1000) {
        tunnel.write_all(b"word").await.unwrap();
        within(tunnel.read_exact(&mut [0; 4])).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(within(tunnel.read(&mut [0; 4])).await.unwrap_or_default(), 0);
    assert_serves(&sidecar).await;
}

#[tokio::test]
async fn serves_long_requests_without_timeouts() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--timeout=0", "--response-start-timeout=0"]).await;
    let waiting = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    app.open(1);
    assert_eq!(text(within(waiting).await.unwrap()).await, "waited");
    let mut slow = within(sidecar.get("/slow-body")).await;
    within(slow.frame()).await.unwrap().unwrap();
    app.open(1);
    assert_eq!(within(slow.frame()).await.unwrap().unwrap().into_data().unwrap(), "end");
    eventually(async || sidecar.metric("rouse_queue_proxy_requests_in_flight").await == 0.0).await;
}
