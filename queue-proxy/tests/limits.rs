//! Limits of one app's clients: slots, queue, connections, and the release of slots.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::time::Duration;

use http::{StatusCode, Version};
use hyper_util::rt::TokioIo;
use support::app::TestApp;
use support::{Sidecar, request, send, text, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ONE_SLOT: &str = "--container-concurrency=1";

async fn write(to: &Sidecar, bytes: &str) -> TcpStream {
    let mut client = TcpStream::connect(to.at.traffic).await.unwrap();
    client.write_all(bytes.as_bytes()).await.unwrap();
    client
}

/// Reads until the sidecar closes the connection.
async fn read(client: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let _ = within(client.read_to_end(&mut all)).await;
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn rejects_requests_above_the_limit_without_a_queue() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT, "--queue-depth=0"]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut to_send = request("http://web.example/");
        *to_send.version_mut() = version;
        let refused = within(send(sidecar.at.traffic, to_send)).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{version:?}");
        assert_eq!(refused.headers()["retry-after"], "1");
        let problem: serde_json::Value = serde_json::from_str(&text(refused).await).unwrap();
        assert_eq!(problem["status"], 503);
    }
    app.open(1);
    assert_eq!(text(within(running).await.unwrap()).await, "waited");
}

#[tokio::test]
async fn connection_above_the_limit_waits_for_another_to_close() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--max-connections=1"]).await;
    let head = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = write(&sidecar, head).await;
    within(first.read_u8()).await.unwrap();
    let mut second = write(&sidecar, head).await;
    let early = tokio::time::timeout(Duration::from_millis(100), second.read_u8()).await;
    assert!(early.is_err(), "the second connection was served beside the first");
    drop(first);
    assert_eq!(within(second.read_u8()).await.unwrap(), b'H');
}

#[tokio::test]
async fn stalled_upload_loses_its_slot() {
    let app = TestApp::start().await;
    let stalled = "POST /count HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nx";
    for flag in ["--timeout=200ms", "--response-start-timeout=200ms", "--idle-timeout=200ms"] {
        let sidecar = Sidecar::start(app.address, &[ONE_SLOT, flag]).await;
        let mut client = write(&sidecar, stalled).await;
        sidecar.holds(1.0, 0.0).await;
        let answer = read(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 504"), "{flag}: {answer}");
        assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
    }
}

#[tokio::test]
async fn tunnel_holds_its_slot_until_it_closes() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT]).await;
    let mut to_send = request("/upgrade");
    to_send.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    to_send.headers_mut().insert("upgrade", "echo".parse().unwrap());
    let mut response = within(send(sidecar.at.traffic, to_send)).await;
    let tunnel = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
    let queued = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(2.0, 1.0).await;
    drop(tunnel);
    assert_eq!(text(within(queued).await.unwrap()).await, "ok");
}

#[tokio::test]
async fn client_that_drops_a_body_releases_the_slot() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT]).await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let mut to_send = request("http://web.example/endless");
        *to_send.version_mut() = version;
        let endless = within(send(sidecar.at.traffic, to_send)).await;
        let queued = tokio::spawn(send(sidecar.at.traffic, request("/")));
        sidecar.holds(2.0, 1.0).await;
        drop(endless);
        assert_eq!(text(within(queued).await.unwrap()).await, "ok", "{version:?}");
    }
}

#[tokio::test]
async fn app_failure_at_any_point_releases_the_slot() {
    let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sidecar = Sidecar::start(app.local_addr().unwrap(), &[ONE_SLOT]).await;
    let fail = async {
        for sent in ["", "HTTP/1.1 200", "no http", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx"] {
            // Connections without bytes are readiness probes of the sidecar.
            loop {
                let (mut connection, _) = app.accept().await.unwrap();
                if connection.read(&mut [0; 1024]).await.unwrap() > 0 {
                    connection.write_all(sent.as_bytes()).await.unwrap();
                    break;
                }
            }
        }
    };
    let send_requests = async {
        for expected in ["502", "502", "502", "200"] {
            let mut client = write(&sidecar, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
            let answer = read(&mut client).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
            sidecar.holds(0.0, 0.0).await;
        }
    };
    within(async { tokio::join!(fail, send_requests) }).await;
}
