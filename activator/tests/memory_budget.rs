//! One memory budget for all workloads: a flood in one namespace takes no place of another.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::cell::RefCell;
use std::io::ErrorKind;
use std::time::Duration;

use activator::args::Limits;
use autoscaler::Protocol;
use bytes::Bytes;
use futures::future::select_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use proxy::memory::estimates::{CONNECTION_BYTES, STREAM_BYTES};
use support::pod::FakePod;
use support::upgrade::read_head;
use support::{Harness, LIMITS, eventually, http2_client, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const POD: &str = "127.0.0.2";
const FULL: &str = "rouse_activator_memory_full_total";
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
/// A client that sends no request: the preface and empty SETTINGS.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A budget of so many connections without requests. A workload alone in its namespace, beside one
/// other namespace, has a sixth of the budget for itself; half is for all.
fn connections(count: u64) -> Limits {
    Limits { queue_depth: 1000, memory_budget: Some(count * CONNECTION_BYTES), ..LIMITS }
}

/// So many connections, which send `bytes`. Those that are refused end.
async fn flood(port: u16, count: usize, bytes: &[u8]) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        let connected = within("a connection", TcpStream::connect(("127.0.0.1", port))).await;
        let Ok(mut stream) = connected else { continue };
        // A connection that is closed already cannot be written to.
        let _ = stream.write_all(bytes).await;
        streams.push(stream);
    }
    streams
}

fn get(harness: &Harness, port: u16) -> tokio::task::JoinHandle<support::ReceivedResponse> {
    harness.send(Request::get(format!("http://127.0.0.1:{port}/")).body(Full::default()).unwrap())
}

#[tokio::test]
async fn flood_of_one_namespace_leaves_another_its_places() {
    let harness = Harness::with(connections(60), |_| {}).await;
    let other = harness.another_in("market", "few", |_| {}).await;
    let idle = flood(harness.port, 20, b"").await;
    let held = flood(harness.port, 100, GET).await;
    eventually("the rest is refused", || async { harness.metric(FULL) >= 80.0 }).await;
    let of_flood = 40;
    harness.until_held(of_flood).await;

    let requests: Vec<_> = (0..9).map(|_| get(&harness, other)).collect();
    harness.until_held(of_flood + 9).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_in("market", "few", POD, true).await;
    for request in requests {
        assert_eq!(within("an answer", request).await.unwrap().status(), 200);
    }

    drop((idle, held));
    let again = RefCell::new(Vec::new());
    eventually("all 40 places of the flood are free again", || async {
        let more = flood(harness.port, 1, GET).await;
        again.borrow_mut().extend(more);
        harness.held() == 40
    })
    .await;
}

#[tokio::test]
async fn flood_on_one_workload_leaves_others_of_its_namespace_their_places() {
    let harness = Harness::with(connections(80), |_| {}).await;
    let few = harness.another("few").await;
    let _flood = flood(harness.port, 100, GET).await;
    // An eighth is reserved for each of two workloads, and a quarter for another namespace.
    eventually("the rest is refused", || async { harness.metric(FULL) >= 50.0 }).await;
    let of_flood = 50;
    harness.until_held(of_flood).await;
    let _requests: Vec<_> = (0..9).map(|_| get(&harness, few)).collect();
    harness.until_held(of_flood + 9).await;
}

#[tokio::test]
async fn connection_beyond_the_budget_is_reset() {
    for (protocol, sent) in [(Protocol::Http, GET), (Protocol::Tcp, b"".as_slice())] {
        let harness = Harness::with(connections(4), |workload| workload.ports[0].protocol = protocol).await;
        // The reset may arrive before the connection is established, or before the request is sent.
        let end = async || {
            let mut stream = TcpStream::connect(("127.0.0.1", harness.port)).await?;
            stream.write_all(sent).await?;
            stream.read(&mut [0]).await
        };
        let ends = std::iter::repeat_with(|| Box::pin(end())).take(10);
        let end = within("an end", select_all(ends)).await.0.map_err(|error| error.kind());
        // One of HTTP that is still idle may close for another.
        let may_close = protocol == Protocol::Http && end == Ok(0);
        assert!(may_close || end == Err(ErrorKind::ConnectionReset), "{protocol:?}: {end:?}");
    }
}

#[tokio::test]
async fn idle_connections_that_fill_the_budget_close_for_new_requests() {
    let harness = Harness::with(connections(12), |_| {}).await;
    let mut idle = flood(harness.port, 9, b"").await;
    // Older than the next connection; times are in milliseconds.
    tokio::time::sleep(Duration::from_millis(10)).await;
    let _http2 = flood(harness.port, 1, HTTP2).await;
    eventually("three are closed for one of HTTP/2", || async { harness.metric(FULL) >= 3.0 }).await;
    let requests: Vec<_> = (0..6).map(|_| get(&harness, harness.port)).collect();
    harness.until_held(6).await;
    eventually("one is closed for each request", || async { harness.metric(FULL) >= 9.0 }).await;
    let oldest = within("an end", idle[0].read(&mut [0])).await.unwrap_or_default();
    assert_eq!(oldest, 0);
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    for request in requests {
        assert_eq!(within("an answer", request).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn idle_http2_connection_that_closes_for_a_request_gets_goaway() {
    let harness = Harness::with(connections(12), |_| {}).await;
    let mut http2 = flood(harness.port, 1, HTTP2).await;
    // Its settings: HTTP/2 has begun.
    let mut received = vec![0; 1024];
    let length = within("settings", http2[0].read(&mut received)).await.unwrap();
    received.truncate(length);
    let _requests: Vec<_> = (0..9).map(|_| get(&harness, harness.port)).collect();
    within("the end", http2[0].read_to_end(&mut received)).await.unwrap();
    // Length 8, type 7, stream 0; last stream 0, NO_ERROR.
    let goaway = [&[0, 0, 8, 7][..], &[0; 13]].concat();
    assert!(received.ends_with(&goaway), "{received:?}");
}

#[tokio::test]
async fn request_beyond_the_budget_gets_503() {
    let harness = Harness::with(connections(12), |_| {}).await;
    let small = harness.get("/");
    harness.until_held(1).await;
    let large = || Request::post(harness.url("/")).body(Full::from(vec![0; 80_000])).unwrap();
    let _held = harness.send(large());
    harness.until_held(2).await;
    let answer = within("refusal", harness.send(large())).await.unwrap();
    assert_eq!((answer.status(), answer.header("retry-after")), (503, "1"));
    assert_eq!(answer.problem()["reason"], "ActivatorMemoryFull");
    assert_eq!(harness.metric(FULL), 1.0);
    assert!(!small.is_finished());
}

#[tokio::test]
async fn http2_stream_beyond_the_budget_gets_503_and_its_connection_stays() {
    // A quarter of the budget is for another namespace.
    let limits = Limits { memory_budget: Some(32 * STREAM_BYTES), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let client = http2_client();
    let send = || {
        let request = Request::get(harness.url("/")).body(Full::<Bytes>::default()).unwrap();
        tokio::spawn(client.request(request))
    };
    let mut held = vec![send()];
    harness.until_held(1).await;
    held.extend((0..12).map(|_| send()));
    harness.until_held(13).await;
    held.extend((0..20).map(|_| send()));
    eventually("the rest is refused", || async { harness.metric(FULL) >= 10.0 }).await;
    let refused = loop {
        match held.iter().position(tokio::task::JoinHandle::is_finished) {
            Some(finished) => break held.swap_remove(finished).await.unwrap().unwrap(),
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));

    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut served = 0;
    for response in held {
        let response = within("an answer", response).await.unwrap().unwrap();
        served += usize::from(response.status() == 200);
        response.into_body().collect().await.unwrap();
    }
    assert!(served >= 13, "{served}");
}

#[tokio::test]
async fn tunnel_keeps_its_place_until_it_ends() {
    let harness = Harness::with(connections(4), |_| {}).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut tunnel = harness.send_upgrade().await;
    read_head(&mut tunnel).await;
    let _idle = flood(harness.port, 3, b"").await;
    eventually("one more is refused", || async { harness.metric(FULL) >= 1.0 }).await;
    drop(tunnel);
    eventually("its place is free", || async {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", harness.port)).await else { return false };
        let _ = stream.write_all(GET).await;
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.is_ok() && &status == b"HTTP/1.1 200"
    })
    .await;
}
