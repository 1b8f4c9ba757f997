//! Streams of server-sent events that are kept alive while they are held.

use std::convert::Infallible;
use std::time::Duration;

use activator::args::Limits;
use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::support::pod::FakePod;
use crate::support::{Harness, LIMITS, client, eventually, http2_client, within};

const POD: &str = "127.0.0.2";
const EVENTS: &str = "text/event-stream";
const REQUESTS: &str = "rouse_activator_requests_total";
const COMMENT: &str = ": waiting for a pod\n\n";

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn start(limits: Limits) -> Harness {
    Harness::with(limits, |workload| workload.sse_keep_alive = true).await
}

fn request(harness: &Harness, path: &str, body: Body) -> Request<Body> {
    let request = Request::post(harness.url(path)).header("accept", EVENTS).header("accept-encoding", "gzip");
    request.body(body).unwrap()
}

fn empty() -> Body {
    Full::default().boxed_unsync()
}

/// The head of the response, of both versions of HTTP.
async fn head(is_http2: bool, request: Request<Body>) -> Response<Incoming> {
    let client = if is_http2 { http2_client() } else { client() };
    let response = within("head", client.request(request)).await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!((response.status().as_u16(), header("content-type").as_deref()), (200, Some(EVENTS)));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!((header("x-accel-buffering").as_deref(), header("content-length")), (Some("no"), None));
    response
}

/// The next bytes of the stream. Further comments may come before them on a busy machine.
async fn expect(response: &mut Response<Incoming>, expected: &str) {
    let mut read = String::new();
    while read.len() < expected.len() {
        let frame = within("frame", response.body_mut().frame()).await.unwrap().unwrap();
        read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        if expected != COMMENT && read == COMMENT {
            read.clear();
        }
    }
    assert_eq!(read, expected);
}

/// A stream that is cut, so that it has no end, without its comments.
async fn cut(mut response: Response<Incoming>) -> String {
    let mut read = String::new();
    while let Ok(frame) = within("frame", response.body_mut().frame()).await.unwrap() {
        read.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    assert!(read.starts_with(COMMENT), "{read}");
    read.replace(COMMENT, "")
}

#[tokio::test]
async fn held_upload_has_a_head_and_then_the_stream_of_its_pod() {
    for is_http2 in [false, true] {
        let harness = start(LIMITS).await;
        let (upload, events) = mpsc::channel(1);
        let events = stream::unfold(events, async |mut events: mpsc::Receiver<&'static str>| {
            let event = events.recv().await?;
            Some((Ok(Frame::data(Bytes::from(event))), events))
        });
        let body = StreamBody::new(events).boxed_unsync();
        let mut response = head(is_http2, request(&harness, "/events", body)).await;
        expect(&mut response, COMMENT).await;
        assert_eq!((harness.held(), harness.metric(REQUESTS)), (1, 0.0));
        let _pod = FakePod::ready(POD, harness.pod_port).await;
        harness.pod_seen(POD, false).await;
        for event in ["data: 1\n\n", "data: 2\n\n"] {
            upload.send(event).await.unwrap();
            expect(&mut response, event).await;
        }
        drop(upload);
        assert_eq!(within("end", response.into_body().collect()).await.unwrap().to_bytes(), "");
        assert_eq!((harness.held(), harness.metric(REQUESTS)), (0, 1.0));
    }
}

#[tokio::test]
async fn failed_wake_is_an_event_of_a_stream_that_is_cut() {
    for is_http2 in [false, true] {
        let harness = start(Limits { wake_timeout: Duration::from_millis(100), ..LIMITS }).await;
        let response = head(is_http2, request(&harness, "/events", empty())).await;
        let events = cut(response).await;
        let error = r#"event: error
data: {"error":{"code":504,"message":"no pod of the workload could take the request within 100ms","type":"WakeTimeout"}}"#;
        assert_eq!(events, format!("{error}\n\n"));
        assert_eq!((harness.held(), harness.metric(REQUESTS)), (0, 1.0));
    }
}

#[tokio::test]
async fn response_that_is_no_stream_is_an_event_with_its_text() {
    for is_http2 in [false, true] {
        let harness = start(LIMITS).await;
        let response =
            head(is_http2, request(&harness, "/", Full::from("not an event").boxed_unsync())).await;
        let pod = FakePod::ready(POD, harness.pod_port).await;
        harness.pod_seen(POD, false).await;
        let events = cut(response).await;
        let error = r#"{"error":{"code":200,"message":"not an event","type":"NoStream"}}"#;
        assert_eq!(events, format!("event: error\ndata: {error}\n\n"));
        eventually("the pod is free", || async { (pod.running(), pod.served()) == (0, 1) }).await;
    }
}

#[tokio::test]
async fn client_that_leaves_is_not_held() {
    for is_http2 in [false, true] {
        let harness = start(LIMITS).await;
        let mut response = head(is_http2, request(&harness, "/events", empty())).await;
        expect(&mut response, COMMENT).await;
        harness.until_held(1).await;
        drop(response);
        harness.until_held(0).await;
        let pod = FakePod::ready(POD, harness.pod_port).await;
        harness.pod_seen(POD, true).await;
        harness.settled().await;
        assert_eq!((pod.served(), harness.metric(REQUESTS)), (0, 0.0));
    }
}

#[tokio::test]
async fn request_that_waits_for_a_busy_pod_gets_the_head_of_the_app() {
    let harness = Harness::with(LIMITS, |workload| {
        (workload.container_concurrency, workload.sse_keep_alive) = (1, true);
    })
    .await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    pod.close_gate();
    harness.pod_seen(POD, true).await;
    harness.settled().await;
    let running = harness.get("/");
    eventually("one runs", || async { pod.running() == 1 }).await;
    let waiting = tokio::spawn(client().request(request(&harness, "/", empty())));
    harness.until_held(1).await;
    pod.release(2);
    assert_eq!(within("answer", running).await.unwrap().status(), 200);
    let response = within("answer", waiting).await.unwrap().unwrap();
    assert_eq!(response.headers().get("content-type"), None);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), POD);
}

#[tokio::test]
async fn request_with_a_pod_that_is_gone_is_kept_alive() {
    let harness = start(LIMITS).await;
    harness.pod_seen(POD, true).await;
    harness.settled().await;
    let mut response = head(false, request(&harness, "/events", empty())).await;
    expect(&mut response, COMMENT).await;
    assert_eq!(harness.held(), 1);
}

#[tokio::test]
async fn rejected_request_gets_its_status() {
    let harness = start(Limits { queue_depth: 1, ..LIMITS }).await;
    let _held = head(false, request(&harness, "/events", empty())).await;
    harness.until_held(1).await;
    let refused = within("refusal", client().request(request(&harness, "/", empty()))).await.unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
}

#[tokio::test]
async fn other_requests_are_held_without_a_head() {
    let harness = start(LIMITS).await;
    let of = |method: Method, accept: &str, port: u16| {
        let request = Request::builder().method(method).uri(format!("http://127.0.0.1:{port}/"));
        harness.send(request.header("accept", accept).body(Full::default()).unwrap())
    };
    let without = harness.another_with("plain", |workload| workload.sse_keep_alive = false).await;
    let held = [
        of(Method::HEAD, EVENTS, harness.port),
        of(Method::POST, "application/json, text/event-stream", harness.port),
        of(Method::GET, "*/*", harness.port),
    ];
    let without = of(Method::GET, EVENTS, without);
    harness.until_held(4).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    for request in held {
        let answer = within("answer", request).await.unwrap();
        assert_eq!((answer.status(), answer.header("content-type")), (200, ""));
    }
    assert!(!without.is_finished());
    without.abort();
}
