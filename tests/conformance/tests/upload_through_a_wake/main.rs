//! Uploads that begin before there is a pod: whole at the app, and never in memory.
//!
//! Callers, both proxies and the app are in this process, so what it takes bounds what any of them
//! takes. That is why these tests have a binary of their own: others would take as well.

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
#[path = "../real_clients/caller.rs"]
mod caller;
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
use self::support::asleep::Asleep;

/// More than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);
/// By so much the process may grow over an upload of any length, for all four of its parts.
const GROWTH: u64 = 32 << 20;
/// Of a body whose request waits, an activator reads no more: a frame, the one behind it, and what
/// came with that, each as large as a connection's buffer at most.
const READ_WHILE_HELD: u64 = 3 * (64 << 10);
/// So long without another byte means that the sender was stopped.
const STILL: Duration = Duration::from_millis(300);

/// Reads an upload, and says how long it was; or where it was damaged.
async fn measured(request: Request<Incoming>) -> Response<Body> {
    let (mut body, mut length) = (request.into_body(), 0);
    while let Some(bytes) = caller::next(&mut body).await {
        if !pattern::is_part(length, &bytes) {
            return Response::new(app::full(format!("damaged after {length} bytes")));
        }
        length += bytes.len() as u64;
    }
    Response::new(app::full(length.to_string()))
}

async fn app() -> SocketAddr {
    app::serve(measured).await
}

async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn whole_and_never_in_memory(all: u64) {
    for (version, is_length_known) in
        [(Version::HTTP_11, true), (Version::HTTP_11, false), (Version::HTTP_2, false)]
    {
        let path = Asleep::in_front_of(app().await).await;
        let mut request = Request::post("/");
        if is_length_known {
            request = request.header(CONTENT_LENGTH, all);
        }
        let (before, begun) = (most_resident("self").unwrap(), Instant::now());
        let sent = caller::send(path.address, version, request.body(pattern::of(all)).unwrap());
        let woken = async {
            path.until_held().await;
            path.wakes().await;
        };
        let uploaded = timeout(DEADLINE, async { tokio::join!(sent, woken).0 });
        assert_eq!(text(uploaded.await.expect("an answer")).await, all.to_string(), "{version:?}");
        let growth = most_resident("self").unwrap() - before;
        println!("{version:?}: {all} bytes in {:?}, {growth} bytes more in memory", begun.elapsed());
        assert!(growth < GROWTH, "{version:?}: {growth} bytes more in memory");
    }
}

#[tokio::test]
async fn an_upload_arrives_whole_and_is_never_in_memory() {
    whole_and_never_in_memory(256 << 20).await;
}

#[tokio::test]
#[ignore = "takes a minute without optimization"]
async fn an_upload_of_two_gibibytes_arrives_whole_and_is_never_in_memory() {
    whole_and_never_in_memory(2 << 30).await;
}

#[tokio::test]
async fn what_is_read_of_a_body_before_there_is_a_pod_is_bounded() {
    const ALL: u64 = 64 << 20;
    let path = Asleep::in_front_of(app().await).await;
    let mut caller = TcpStream::connect(path.address).await.unwrap();
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {ALL}\r\n\r\n");
    caller.write_all(head.as_bytes()).await.unwrap();
    path.until_held().await;
    let mut sent = 0;
    while let Ok(written) = timeout(STILL, caller.write(&pattern::piece(sent, ALL))).await {
        sent += written.unwrap() as u64;
        assert!(sent < ALL, "nobody stops it");
    }
    let read = sent.saturating_sub(proc::in_sockets(path.address.port()));
    println!("{sent} bytes were sent, and {read} read, before there was a pod");
    assert!(read <= READ_WHILE_HELD, "{read} bytes");

    path.wakes().await;
    while sent < ALL {
        let piece = pattern::piece(sent, ALL);
        caller.write_all(&piece).await.unwrap();
        sent += piece.len() as u64;
    }
    assert!(answer(&mut caller).await.ends_with(&format!("\r\n{ALL}")));
}

#[tokio::test]
async fn over_http_2_it_is_bounded_as_well() {
    const ALL: u64 = 64 << 20;
    let path = Asleep::in_front_of(app().await).await;
    let sent = Arc::new(AtomicU64::new(0));
    let body = {
        let sent = sent.clone();
        pattern::of(ALL).map_frame(move |frame| {
            sent.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
            frame
        })
    };
    let request = Request::post("/").body(body.boxed_unsync()).unwrap();
    let answer = tokio::spawn(caller::send(path.address, Version::HTTP_2, request));
    path.until_held().await;
    let mut before = 0;
    while before == 0 || sent.load(Ordering::Relaxed) > before {
        before = sent.load(Ordering::Relaxed);
        tokio::time::sleep(STILL).await;
    }
    println!("{before} bytes were sent over HTTP/2 before there was a pod");
    assert!(before <= READ_WHILE_HELD, "{before} bytes");

    path.wakes().await;
    let answer = timeout(DEADLINE, answer).await.expect("an answer").unwrap();
    assert_eq!(text(answer).await, ALL.to_string());
}

/// An activator gives leave when it begins to hold, and not when there is a pod: it has to read of
/// a body that is to come, or it would not see its caller leave, who would keep a place and count
/// as load. nginx and Envoy give leave as well.
#[tokio::test]
async fn who_asks_for_leave_gets_it_once_and_before_there_is_a_pod() {
    let path = Asleep::in_front_of(app().await).await;
    let mut caller = TcpStream::connect(path.address).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 1000\r\n\r\n";
    caller.write_all(head.as_bytes()).await.unwrap();
    path.until_held().await;
    let leave = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut told = vec![0; leave.len()];
    timeout(DEADLINE, caller.read_exact(&mut told)).await.expect("leave").unwrap();
    assert_eq!(told, leave);

    caller.write_all(&pattern::piece(0, 1000)).await.unwrap();
    path.wakes().await;
    let answer = answer(&mut caller).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n1000"), "{answer}");
}

/// All that comes until the connection ends.
async fn answer(caller: &mut TcpStream) -> String {
    let mut answer = String::new();
    timeout(DEADLINE, caller.read_to_string(&mut answer)).await.expect("an answer").unwrap();
    answer
}
