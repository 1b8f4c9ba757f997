//! gRPC calls that the sidecar answers itself, and their deadlines in the queue.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "these are tests")]

mod support;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Version};
use http_body_util::Full;
use support::app::TestApp;
use support::{Sidecar, request, send, text, within};

const ONE_SLOT: &str = "--container-concurrency=1";

fn call(path: &str, timeout: &str) -> Request<Full<Bytes>> {
    let call = Request::post(format!("http://web.example{path}")).version(Version::HTTP_2);
    let call = call.header("content-type", "application/grpc").header("grpc-timeout", timeout);
    call.body(Full::default()).unwrap()
}

/// Status and pause of a call that the sidecar answers itself.
async fn answered(sidecar: &Sidecar, call: Request<Full<Bytes>>) -> (String, Option<String>) {
    let response = within(send(sidecar.at.traffic, call)).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/grpc");
    let value = |headers: &HeaderMap, name| {
        headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap().to_owned())
    };
    let headers = response.headers();
    (value(headers, "grpc-status").unwrap(), value(headers, "grpc-retry-pushback-ms"))
}

#[tokio::test]
async fn late_call_that_runs_has_exceeded_its_deadline() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--timeout=100ms"]).await;
    assert_eq!(answered(&sidecar, call("/wait", "1H")).await, ("4".into(), None));
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"5xx\"}").await, 1.0);
}

#[tokio::test]
async fn call_above_the_queue_is_unavailable_and_may_be_retried() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT, "--queue-depth=0"]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    assert_eq!(answered(&sidecar, call("/", "1H")).await, ("14".into(), Some("1000".into())));
    app.open(1);
    within(running).await.unwrap();
}

#[tokio::test]
async fn queued_call_whose_deadline_passes_is_not_sent() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    assert_eq!(answered(&sidecar, call("/wait", "100m")).await, ("4".into(), None));
    // The gate opens once: the call would have passed it as well.
    app.open(1);
    assert_eq!(text(within(running).await.unwrap()).await, "waited");
    assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
}

#[tokio::test]
async fn timeout_of_queued_call_loses_the_time_in_the_queue() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[ONE_SLOT]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    let queued = tokio::spawn(send(sidecar.at.traffic, call("/headers", "20S")));
    sidecar.holds(2.0, 1.0).await;
    let held = Duration::from_millis(50);
    tokio::time::sleep(held).await;
    app.open(1);
    within(running).await.unwrap();
    let headers = text(within(queued).await.unwrap()).await;
    let (_, timeout) = headers.split_once("\"grpc-timeout\": \"").unwrap();
    let micros: u64 = timeout.split_once('u').unwrap().0.parse().unwrap();
    assert!(micros <= 20_000_000 - 50_000, "{micros}");
}
