//! Pods that are killed with requests in flight: only requests that are safe to repeat are sent to
//! another pod.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use support::pod::{FakePod, KillablePod};
use support::work_log::{NUMBER, TAKES};
use support::{Harness, LIMITS, client, eventually, http2_client, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const POD: &str = "127.0.0.2";
const OTHER_POD: &str = "127.0.0.3";
const PODS: [&str; 4] = [POD, OTHER_POD, "127.0.0.4", "127.0.0.5"];
const CLIENTS: usize = 16;
/// Responses between two kills.
const ANSWERS: usize = 100;

fn request(url: &str, method: Method, body: &'static str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(url).body(Full::from(body)).unwrap()
}

/// Sends requests until `stop` is set.
async fn send_requests(url: String, http2: bool, answers: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    let client = if http2 { http2_client() } else { client() };
    // Over HTTP/2 a pod may be killed between the head and the body of a response.
    let method = if http2 { Method::HEAD } else { Method::GET };
    while !stop.load(Ordering::SeqCst) {
        let mut request = request(&url, method.clone(), "");
        request.headers_mut().insert(NUMBER, 0.into());
        request.headers_mut().insert(TAKES, 2.into());
        let answer = support::ReceivedResponse::of(client.request(request).await.unwrap()).await;
        assert_eq!(answer.status(), 200, "{}", String::from_utf8_lossy(&answer.body));
        answers.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn no_get_fails_while_pods_are_killed_and_replaced() {
    let harness = Harness::start().await;
    let mut pods = Vec::new();
    for ip in PODS {
        pods.push(Some(KillablePod::start(ip, harness.pod_port).await));
        harness.pod_seen(ip, true).await;
    }
    let (answers, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| tokio::spawn(send_requests(harness.url("/"), n % 2 == 0, answers.clone(), stop.clone())))
        .collect();
    let more = async || {
        let before = answers.load(Ordering::SeqCst);
        eventually("clients get responses", || async {
            clients.iter().any(|client| client.is_finished())
                || answers.load(Ordering::SeqCst) >= before + ANSWERS
        })
        .await;
    };
    // The pods stay Ready in Kubernetes.
    for (pod, ip) in pods.iter_mut().zip(PODS) {
        more().await;
        pod.take().unwrap().kill().await;
        more().await;
        *pod = Some(KillablePod::start(ip, harness.pod_port).await);
    }
    more().await;
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        within("the last answer", client).await.unwrap();
    }
    harness.until_held(0).await;
}

#[tokio::test]
async fn sends_only_idempotent_requests_of_killed_pod_to_another() {
    for (method, is_resent) in [(Method::PUT, true), (Method::DELETE, true), (Method::POST, false)] {
        // With a limit of 1 the pod with the lowest address is tried first.
        let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
        let dying = KillablePod::start(POD, harness.pod_port).await;
        dying.close_gate();
        let other = FakePod::ready(OTHER_POD, harness.pod_port).await;
        harness.pod_seen(POD, true).await;
        harness.pod_seen(OTHER_POD, true).await;
        harness.settled().await;
        let answer = harness.send(request(&harness.url("/"), method.clone(), "all of it"));
        eventually("it runs", || async { dying.running() == 1 }).await;
        dying.kill().await;
        let answer = within("answer", answer).await.unwrap();
        if is_resent {
            assert_eq!((answer.status(), answer.body.as_ref()), (200, b"all of it".as_slice()), "{method}");
        } else {
            assert_eq!((answer.status(), other.served()), (502, 0), "{method}");
            assert_eq!(answer.problem()["reason"], "PodFailed");
        }
    }
}

#[tokio::test]
async fn gives_up_request_that_crashes_every_pod() {
    let harness = Harness::start().await;
    let listener = TcpListener::bind((POD, harness.pod_port)).await.unwrap();
    let killed = Arc::new(AtomicUsize::new(0));
    tokio::spawn(crash_on_requests(listener, killed.clone()));
    harness.pod_seen(POD, true).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["reason"]), (502, &"PodFailed".into()));
    // Each attempt may use the connection of the probe and one of its own.
    let killed = killed.load(Ordering::SeqCst);
    assert!((4..=8).contains(&killed), "{killed}");
}

/// A pod that answers probes only, and closes the connection of any request.
async fn crash_on_requests(listener: TcpListener, killed: Arc<AtomicUsize>) {
    while let Ok((mut connection, _)) = listener.accept().await {
        let killed = killed.clone();
        tokio::spawn(async move {
            let mut head = Vec::new();
            while connection.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
                if !head.ends_with(b"\r\n\r\n") {
                    continue;
                }
                if !head.windows(11).any(|part| part == b"rouse-probe") {
                    killed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                head.clear();
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nqueue-proxy";
                connection.write_all(answer).await.unwrap();
            }
        });
    }
}
