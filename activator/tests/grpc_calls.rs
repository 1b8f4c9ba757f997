//! gRPC calls that are held: their deadlines, and the status of those that are not sent.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::time::Duration;

use activator::args::Limits;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use support::pod::FakePod;
use support::{Harness, LIMITS, http2_client, within};
use tokio::task::JoinHandle;

const POD: &str = "127.0.0.2";

fn call(harness: &Harness, timeout: &str) -> JoinHandle<Response<Incoming>> {
    let request = Request::post(harness.url("/")).header("content-type", "application/grpc");
    let request = request.header("grpc-timeout", timeout).body(Full::<Bytes>::from("call")).unwrap();
    tokio::spawn(async move { http2_client().request(request).await.unwrap() })
}

fn header<'a>(response: &'a Response<Incoming>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn held_call_whose_deadline_passes_is_not_sent() {
    let harness = Harness::start().await;
    let late = within("answer", call(&harness, "100m")).await.unwrap();
    assert_eq!((late.status().as_u16(), header(&late, "grpc-status")), (200, Some("4")));
    assert_eq!(header(&late, "grpc-retry-pushback-ms"), None);
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    within("answer", harness.get("/")).await.unwrap();
    assert_eq!((pod.served(), harness.held()), (1, 0));
}

#[tokio::test]
async fn timeout_of_held_call_loses_the_time_of_the_hold() {
    let harness = Harness::start().await;
    let held = call(&harness, "20S");
    harness.until_held(1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let response = within("answer", held).await.unwrap();
    let left = header(&response, "grpc-timeout").and_then(|left| left.strip_suffix('u')).unwrap();
    assert!(left.parse::<u64>().unwrap() <= 20_000_000 - 50_000, "{left}");
    // A call that is not held keeps its timeout.
    let response = within("answer", call(&harness, "20S")).await.unwrap();
    assert_eq!(header(&response, "grpc-timeout"), Some("20S"));
}

#[tokio::test]
async fn call_that_is_held_too_long_is_unavailable_and_may_be_retried() {
    let limits = Limits { wake_timeout: Duration::from_millis(100), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let refused = within("answer", call(&harness, "1H")).await.unwrap();
    assert_eq!((refused.status().as_u16(), header(&refused, "grpc-status")), (200, Some("14")));
    assert_eq!(header(&refused, "grpc-retry-pushback-ms"), Some("1000"));
    assert_eq!(header(&refused, "content-type"), Some("application/grpc"));
}
