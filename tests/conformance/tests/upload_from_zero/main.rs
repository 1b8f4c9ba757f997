//! Uploads to a workload at zero: complete at the app, and never in memory.
//!
//! Clients, both proxies and the app share this process, so its memory is a bound for each of them.
//! The tests have a binary of their own, because other tests would increase its memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]
#![allow(dead_code, reason = "a part of what the real clients need")]

#[path = "../real_clients/app.rs"]
mod app;
#[path = "../real_clients/client.rs"]
mod client;
#[path = "../real_clients/pattern.rs"]
mod pattern;
mod proc;
#[path = "../support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bench_proxies::memory::most_resident;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use self::app::Body;
use self::support::workload_at_zero::WorkloadAtZero;

/// Longer than any test takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// Bound of the process's growth during an upload of any length, for all four components.
const MAX_GROWTH: u64 = 32 << 20;
/// Bound of the body that an activator reads while it holds the request: a frame, the next one, and
/// the data received with it, each at most as large as a connection's buffer.
const MAX_READ_WHILE_HELD: u64 = 3 * (64 << 10);
/// A sender without progress for this long has stopped.
const STOPPED_AFTER: Duration = Duration::from_millis(300);

/// Reads an upload. Responds with its length, or with the place of a damage.
async fn measure_upload(request: Request<Incoming>) -> Response<Body> {
    let (mut body, mut length) = (request.into_body(), 0);
    while let Some(bytes) = client::next(&mut body).await {
        if !pattern::is_part(length, &bytes) {
            return Response::new(app::full(format!("damaged after {length} bytes")));
        }
        length += bytes.len() as u64;
    }
    Response::new(app::full(length.to_string()))
}

async fn app() -> SocketAddr {
    app::serve(measure_upload).await
}

async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn assert_complete_and_never_in_memory(all: u64) {
    for (version, is_length_known) in
        [(Version::HTTP_11, true), (Version::HTTP_11, false), (Version::HTTP_2, false)]
    {
        let path = WorkloadAtZero::start(app().await).await;
        let mut request = Request::post("/");
        if is_length_known {
            request = request.header(CONTENT_LENGTH, all);
        }
        let (before, begun) = (most_resident("self").unwrap(), Instant::now());
        let sent = client::send(path.address, version, request.body(pattern::of(all)).unwrap());
        let scaled = async {
            path.wait_until_held().await;
            path.report_pod().await;
        };
        let uploaded = timeout(DEADLINE, async { tokio::join!(sent, scaled).0 });
        assert_eq!(text(uploaded.await.expect("a response")).await, all.to_string(), "{version:?}");
        // The kernel counts pages in batches, so its maximum may be lower for a moment.
        let growth = most_resident("self").unwrap().saturating_sub(before);
        println!("{version:?}: {all} bytes in {:?}, memory grew by {growth} bytes", begun.elapsed());
        assert!(growth < MAX_GROWTH, "{version:?}: memory grew by {growth} bytes");
    }
}

#[tokio::test]
async fn upload_is_complete_and_never_in_memory() {
    assert_complete_and_never_in_memory(4 * MAX_GROWTH).await;
}

#[tokio::test]
#[ignore = "takes a minute without optimization"]
async fn upload_of_2_gib_is_complete_and_never_in_memory() {
    assert_complete_and_never_in_memory(2 << 30).await;
}

#[tokio::test]
async fn reads_a_bounded_part_of_a_body_before_a_pod_is_ready() {
    const ALL: u64 = 64 << 20;
    let path = WorkloadAtZero::start(app().await).await;
    let mut client = TcpStream::connect(path.address).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {ALL}\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    path.wait_until_held().await;
    let mut sent = 0;
    while let Ok(written) = timeout(STOPPED_AFTER, client.write(&pattern::piece(sent, ALL))).await {
        sent += written.unwrap() as u64;
        assert!(sent < ALL, "the sender was not stopped");
    }
    let read = sent.saturating_sub(proc::queued_bytes(path.address.port()));
    println!("{sent} bytes were sent, and {read} read, before a pod was ready");
    assert!(read <= MAX_READ_WHILE_HELD, "{read} bytes were read");

    path.report_pod().await;
    while sent < ALL {
        let piece = pattern::piece(sent, ALL);
        client.write_all(&piece).await.unwrap();
        sent += piece.len() as u64;
    }
    assert!(response(&mut client).await.ends_with(&format!("\r\n{ALL}")));
}

#[tokio::test]
async fn reads_a_bounded_part_of_an_http2_body_before_a_pod_is_ready() {
    const ALL: u64 = 64 << 20;
    let path = WorkloadAtZero::start(app().await).await;
    let sent = Arc::new(AtomicU64::new(0));
    let body = {
        let sent = sent.clone();
        pattern::of(ALL).map_frame(move |frame| {
            sent.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
            frame
        })
    };
    let request = Request::post("/").body(body.boxed_unsync()).unwrap();
    let response = tokio::spawn(client::send(path.address, Version::HTTP_2, request));
    path.wait_until_held().await;
    let mut before = 0;
    while before == 0 || sent.load(Ordering::Relaxed) > before {
        before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(STOPPED_AFTER).await;
    }
    println!("{before} bytes were sent over HTTP/2 before a pod was ready");
    assert!(before <= MAX_READ_WHILE_HELD, "{before} bytes");

    path.report_pod().await;
    let response = timeout(DEADLINE, response).await.expect("a response").unwrap();
    assert_eq!(text(response).await, ALL.to_string());
}

/// An activator sends 100 Continue when it begins to hold a request. It must read the body to
/// detect a disconnected client, which would keep its place in the queue and count as load. nginx
/// and Envoy send 100 Continue early as well.
#[tokio::test]
async fn sends_one_100_continue_before_a_pod_is_ready() {
    let path = WorkloadAtZero::start(app().await).await;
    let mut client = TcpStream::connect(path.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 1000\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    path.wait_until_held().await;
    let expected = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut received = vec![0; expected.len()];
    timeout(DEADLINE, client.read_exact(&mut received)).await.expect("100 Continue").unwrap();
    assert_eq!(received, expected);

    client.write_all(&pattern::piece(0, 1000)).await.unwrap();
    path.report_pod().await;
    let response = response(&mut client).await;
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n1000"), "{response}");
}

/// Reads until the connection ends.
async fn response(client: &mut TcpStream) -> String {
    let mut response = String::new();
    timeout(DEADLINE, client.read_to_string(&mut response)).await.expect("a response").unwrap();
    response
}
