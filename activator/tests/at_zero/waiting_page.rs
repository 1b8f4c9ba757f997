//! The waiting page: which requests get it, and that the wake goes on behind it.

use std::collections::BTreeSet;
use std::time::Duration;

use activator::args::Limits;
use activator::workloads::StartFailure;
use autoscaler::scaling::pod_start::StartCause;
use autoscaler::settings::Pause;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use tokio::task::JoinHandle;

use crate::support::pod::FakePod;
use crate::support::receiver::Receiver;
use crate::support::{Harness, LIMITS, ReceivedResponse, eventually, http2_client, key, within};

const POD: &str = "127.0.0.2";
const PAGES: &str = "rouse_activator_waiting_pages_total";
const ACCEPT: &str = "text/html,application/xhtml+xml,*/*;q=0.8";
/// Longer than each test takes.
const LONG: Duration = Duration::from_secs(3600);

async fn start(limits: Limits) -> Harness {
    Harness::with(limits, |workload| workload.waiting_page = true).await
}

fn navigation(harness: &Harness, method: Method) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(harness.url("/shop?item=1"));
    request.header("sec-fetch-mode", "navigate").header("accept", ACCEPT).body(Full::default()).unwrap()
}

fn navigate(harness: &Harness) -> JoinHandle<ReceivedResponse> {
    harness.send(navigation(harness, Method::GET))
}

fn retry(harness: &Harness) -> JoinHandle<ReceivedResponse> {
    let request = Request::get(harness.url("/shop?item=1")).header("rouse-waiting-page", "retry");
    harness.send(request.header("sec-fetch-mode", "cors").body(Full::default()).unwrap())
}

fn text(response: &ReceivedResponse) -> &str {
    std::str::from_utf8(&response.body).unwrap()
}

#[tokio::test]
async fn browser_gets_the_page_and_its_retry_waits_for_the_app() {
    let harness = start(LIMITS).await;
    let mut receiver = Receiver::start().await;
    harness.receivers.send_replace(BTreeSet::from([receiver.address]));
    eventually("the receiver is connected", || async {
        harness.metric("rouse_activator_push_connections") == 1.0
    })
    .await;
    let page = within("page", navigate(&harness)).await.unwrap();
    assert_eq!((page.status(), page.header("content-type")), (503, "text/html; charset=utf-8"));
    assert_eq!((page.header("retry-after"), page.header("cache-control")), ("5", "no-store"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'nonce-"));
    assert!(text(&page).contains("<title>web is starting</title>"), "{}", text(&page));
    assert_eq!(receiver.next().await.messages[0].key, key(), "it wakes the workload");
    let counts = ["rouse_activator_requests_total", PAGES].map(|name| harness.metric(name));
    assert_eq!(counts, [0.0, 1.0], "the page is not a failure of the app");

    let retry = retry(&harness);
    harness.until_held(1).await;
    within("the retry is reported as load", async {
        while receiver.next().await.messages[0].stat.average_concurrent_requests == 0.0 {}
    })
    .await;
    tokio::time::sleep(2 * LIMITS.waiting_page_after).await;
    assert!(!retry.is_finished(), "it gets no page itself");

    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    let ready = within("answer", retry).await.unwrap();
    assert_eq!((ready.status(), ready.header("rouse-waiting-page")), (204, ""));
    assert!(ready.header("server-timing").contains("rouse-hold"), "{:?}", ready.head.headers);
    assert_eq!(pod.served(), 0, "the app gets the request once, by the page's reload");
    let app = within("answer", navigate(&harness)).await.unwrap();
    assert_eq!((app.status(), text(&app), pod.served()), (200, POD, 1));
}

#[tokio::test]
async fn browser_gets_the_answer_of_an_app_that_starts_in_time() {
    let harness = start(Limits { waiting_page_after: LONG, ..LIMITS }).await;
    let request = navigate(&harness);
    harness.until_held(1).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), text(&answer)), (200, POD));
    assert!(answer.header("server-timing").contains("rouse-hold"), "{:?}", answer.head.headers);
    assert_eq!(harness.metric(PAGES), 0.0);
}

#[tokio::test]
async fn request_that_the_app_works_on_is_not_replaced_by_the_page() {
    let harness = Harness::with(LIMITS, |workload| {
        (workload.container_concurrency, workload.waiting_page) = (1, true);
    })
    .await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    pod.close_gate();
    harness.pod_seen(POD, true).await;
    harness.settled().await;
    let requests = [navigate(&harness), navigate(&harness)];
    harness.until_held(1).await;
    eventually("one runs", || async { pod.running() == 1 }).await;
    tokio::time::sleep(3 * LIMITS.waiting_page_after).await;
    pod.release(2);
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    assert_eq!(harness.metric(PAGES), 0.0);
}

#[tokio::test]
async fn browser_behind_an_ingress_with_http2_gets_the_page() {
    let harness = start(LIMITS).await;
    let page = within("page", http2_client().request(navigation(&harness, Method::GET))).await.unwrap();
    assert_eq!((page.status().as_u16(), harness.metric(PAGES)), (503, 1.0));
}

#[tokio::test]
async fn other_clients_are_held() {
    let harness = start(LIMITS).await;
    let curl = harness.get("/");
    let script = Request::get(harness.url("/")).header("sec-fetch-mode", "cors").header("accept", ACCEPT);
    let script = harness.send(script.body(Full::default()).unwrap());
    let post = harness.send(navigation(&harness, Method::POST));
    let head = harness.send(navigation(&harness, Method::HEAD));
    let without = harness.another_with("plain", |workload| workload.waiting_page = false).await;
    let mut without = Request::get(format!("http://127.0.0.1:{without}/"));
    for (name, value) in [("sec-fetch-mode", "navigate"), ("accept", ACCEPT)] {
        without = without.header(name, value);
    }
    let without = harness.send(without.body(Full::default()).unwrap());
    harness.until_held(5).await;
    tokio::time::sleep(4 * LIMITS.waiting_page_after).await;
    assert_eq!((harness.held(), harness.metric(PAGES)), (5, 0.0));
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    for request in [curl, script, post, head] {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    without.abort();
}

#[tokio::test]
async fn failed_retry_shows_whether_the_page_should_stay() {
    let harness = start(Limits { wake_timeout: Duration::from_millis(100), ..LIMITS }).await;
    let timed_out = within("answer", retry(&harness)).await.unwrap();
    assert_eq!((timed_out.status(), timed_out.header("rouse-waiting-page")), (504, "retry"));
    let failure = StartFailure { cause: StartCause::ImagePull, awaited: None, given_up: true };
    harness.adapt(|workload| workload.start_failure = Some(failure.into())).await;
    eventually("pods cannot start", || async {
        let failed = within("answer", retry(&harness)).await.unwrap();
        assert_eq!(failed.header("rouse-waiting-page"), "retry");
        failed.status() == 503
    })
    .await;
    let refused = within("answer", navigate(&harness)).await.unwrap();
    assert_eq!((refused.status(), &refused.problem()["reason"]), (503, &"CannotStart".into()));
    harness.adapt(|workload| workload.pause = Pause::On).await;
    eventually("the page loads the error of a paused workload", || async {
        let paused = within("answer", retry(&harness)).await.unwrap();
        paused.status() == 503 && paused.header("rouse-waiting-page").is_empty()
    })
    .await;
}

#[tokio::test]
async fn full_queue_rejects_browsers_as_before() {
    let harness = start(Limits { queue_depth: 1, ..LIMITS }).await;
    let _held = harness.get("/");
    harness.until_held(1).await;
    let refused = within("refusal", navigate(&harness)).await.unwrap();
    assert_eq!((refused.status(), &refused.problem()["reason"]), (503, &"QueueFull".into()));
}
