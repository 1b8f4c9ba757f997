//! Held requests, and what ends the hold: a pod, a full queue, a timeout, a client that
//! disconnects.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::time::Duration;

use activator::args::Limits;
use activator::workloads::StartFailure;
use autoscaler::scaling::pod_start::StartCause;
use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use support::pod::FakePod;
use support::upgrade::expect_echo_tunnel;
use support::{Harness, LIMITS, client, eventually, http2_client, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const POD: &str = "127.0.0.2";
const OTHER_POD: &str = "127.0.0.3";

#[tokio::test]
async fn holds_request_until_its_pod_answers_the_probe() {
    let harness = Harness::start().await;
    let request = harness.get("/");
    harness.until_held(1).await;

    let pod = FakePod::start(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    eventually("the pod is probed", || async { pod.probes() > 0 }).await;
    assert_eq!((pod.served(), harness.held()), (0, 1));

    pod.becomes_ready();
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, POD.as_bytes()));
    for part in ["rouse-hold", "rouse-pod", "rouse-probe", "rouse-forward"] {
        assert!(answer.header("server-timing").contains(part), "{:?}", answer.head.headers);
    }
    harness.until_held(0).await;
}

#[tokio::test]
async fn probes_pod_until_its_port_is_open() {
    let harness = Harness::start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.pod_seen(POD, false).await;
    // The variable keeps the listener open until the request is answered.
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn does_not_probe_workload_without_requests() {
    let harness = Harness::start().await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    harness.pod_seen(POD, true).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(pod.probes(), 0, "a Ready pod needs no probe");
    assert_eq!(answer.header("server-timing"), "", "it was not held");
}

#[tokio::test]
async fn ejects_pod_that_refuses_and_sends_request_to_another() {
    // With a limit of 1 the pod with the lowest address is tried first, which has no listener.
    let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
    let _pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    harness.pod_seen(OTHER_POD, true).await;
    let request = Request::post(harness.url("/")).body(Full::from("all of it")).unwrap();
    let answer = within("answer", harness.send(request)).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, b"all of it".as_slice()));

    let back = FakePod::ready(POD, harness.pod_port).await;
    eventually("it is probed and used again", || async {
        assert_eq!(harness.get("/").await.unwrap().status(), 200);
        back.served() > 0
    })
    .await;
    assert!(back.probes() > 0);
}

#[tokio::test]
async fn never_exceeds_container_concurrency_of_a_pod() {
    let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
    let pods =
        [FakePod::ready(POD, harness.pod_port).await, FakePod::ready(OTHER_POD, harness.pod_port).await];
    for pod in &pods {
        pod.close_gate();
    }
    harness.pod_seen(POD, true).await;
    harness.pod_seen(OTHER_POD, true).await;
    let requests: Vec<_> = (0..10).map(|_| harness.get("/")).collect();
    harness.until_held(8).await;
    eventually("one on each", || async { pods.iter().all(|pod| pod.running() == 1) }).await;
    for pod in &pods {
        pod.release(100);
    }
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    assert_eq!(pods.map(|pod| pod.most()), [1, 1]);
}

/// A burst at zero, and the first pods of a rollout that doubles the limit of the pods.
#[tokio::test]
async fn burst_fills_each_pod_up_to_the_limit_of_its_queue_proxy() {
    let harness = Harness::start().await;
    let requests: Vec<_> = (0..60).map(|_| harness.get("/")).collect();
    harness.until_held(60).await;
    let pods =
        [FakePod::ready(POD, harness.pod_port).await, FakePod::ready(OTHER_POD, harness.pod_port).await];
    for pod in &pods {
        pod.close_gate();
    }
    for (pod, address, limit, held) in [(&pods[0], POD, 10, 50), (&pods[1], OTHER_POD, 20, 30)] {
        harness.limited_pod_seen(address, false, limit).await;
        harness.until_held(held).await;
        eventually("it is full", || async { pod.running() == limit as usize }).await;
    }
    for pod in &pods {
        pod.release(100);
    }
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    assert_eq!(pods.map(|pod| pod.most()), [10, 20]);
}

#[tokio::test]
async fn deleted_pod_ends_its_requests_and_gets_no_more() {
    let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
    let leaving = FakePod::ready(POD, harness.pod_port).await;
    leaving.close_gate();
    harness.pod_seen(POD, true).await;
    let long = harness.get("/");
    eventually("it runs", || async { leaving.running() == 1 }).await;

    harness.pod_gone(POD).await;
    let next = harness.get("/");
    harness.until_held(1).await;
    let _staying = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(OTHER_POD, false).await;
    let answer = within("answer of the other pod", next).await.unwrap();
    assert_eq!(answer.body, OTHER_POD);

    leaving.release(1);
    assert_eq!(within("answer of the deleted pod", long).await.unwrap().body, POD);
}

#[tokio::test]
async fn full_queue_rejects_requests() {
    let limits = Limits { queue_depth: 1, ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let _held = harness.get("/");
    harness.until_held(1).await;
    let refused = within("refusal", harness.get("/")).await.unwrap();
    assert_eq!((refused.status(), refused.header("retry-after")), (503, "1"));
    assert_eq!(refused.problem()["reason"], "QueueFull");
    assert_eq!(harness.metric("rouse_activator_queue_full_total"), 1.0);
}

#[tokio::test]
async fn disconnected_client_leaves_the_queue() {
    let limits = Limits { queue_depth: 2, ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let requests =
        ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nall"];
    let mut clients = Vec::new();
    for request in requests {
        let mut client = TcpStream::connect(("127.0.0.1", harness.port)).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        clients.push(client);
    }
    harness.until_held(2).await;
    drop(clients);
    harness.until_held(0).await;

    let next = harness.get("/");
    harness.until_held(1).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    assert_eq!(within("answer", next).await.unwrap().status(), 200);
}

#[tokio::test]
async fn answers_504_after_the_wake_timeout() {
    let limits = Limits { wake_timeout: Duration::from_millis(30), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!(answer.status(), 504);
    let problem = answer.problem();
    assert_eq!((&problem["reason"], &problem["workload"]), (&"WakeTimeout".into(), &"shop/web".into()));
    harness.until_held(0).await;
}

#[tokio::test]
async fn names_a_pod_that_waits_for_its_own_workload() {
    let limits = Limits { wake_timeout: Duration::from_millis(100), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    // The address of the client, and no app there.
    harness.pod_seen("127.0.0.1", false).await;
    harness.settled().await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["reason"]), (508, &"OwnRequest".into()));
}

#[tokio::test]
async fn workload_overrides_wake_timeout_and_queue_depth() {
    let limits = Limits { wake_timeout: Duration::from_millis(1), queue_depth: 5, ..LIMITS };
    let harness = Harness::with(limits, |workload| {
        workload.wake_timeout = Some(Duration::from_secs(3000));
        workload.queue_depth = Some(1);
    })
    .await;
    let held = harness.get("/");
    harness.until_held(1).await;
    assert_eq!(within("refusal", harness.get("/")).await.unwrap().problem()["reason"], "QueueFull");
    // Without overrides, the limits of the process apply to new requests.
    harness.adapt(|workload| (workload.wake_timeout, workload.queue_depth) = (None, None)).await;
    eventually("the process's own times", || async {
        within("answer", harness.get("/")).await.unwrap().status() == 504
    })
    .await;
    assert!(!held.is_finished());
}

#[tokio::test]
async fn response_names_cause_when_pods_cannot_start() {
    let harness = Harness::start().await;
    let held = harness.get("/");
    harness.until_held(1).await;
    let failure = |given_up| StartFailure { cause: StartCause::ImagePull, awaited: None, given_up };
    harness.adapt(|workload| workload.start_failure = Some(failure(false).into())).await;
    let also_held = harness.get("/");
    harness.until_held(2).await;

    harness.adapt(|workload| workload.start_failure = Some(failure(true).into())).await;
    for request in [held, also_held, harness.get("/")] {
        let answer = within("answer", request).await.unwrap();
        assert_eq!((answer.status(), answer.header("retry-after")), (503, "10"));
        let problem = answer.problem();
        assert_eq!((&problem["reason"], &problem["cause"]), (&"CannotStart".into(), &"ImagePull".into()));
    }

    // A pod that starts after all is used, although the failure is still set.
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    eventually("it serves", || async { within("answer", harness.get("/")).await.unwrap().status() == 200 })
        .await;
}

#[tokio::test]
async fn timeout_names_start_failure_that_is_not_given_up() {
    let limits = Limits { wake_timeout: Duration::from_millis(30), ..LIMITS };
    let failure = StartFailure {
        cause: StartCause::Unschedulable,
        awaited: Some("0/3 nodes are available: 3 node(s) had untolerated taint {gpu: true}".into()),
        given_up: false,
    };
    let harness = Harness::with(limits, |workload| workload.start_failure = Some(failure.into())).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["cause"]), (503, &"Unschedulable".into()));
    let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
    assert!(detail.ends_with("untolerated taint {gpu: true}"), "{detail}");
}

#[tokio::test]
async fn body_streams_in_both_directions_after_a_hold() {
    let harness = Harness::start().await;
    let (parts, body) = mpsc::channel::<Result<Frame<Bytes>, std::convert::Infallible>>(1);
    let body = StreamBody::new(futures::stream::unfold(body, |mut body| async {
        body.recv().await.map(|part| (part, body))
    }));
    let request = Request::post(harness.url("/echo")).body(body.boxed_unsync()).unwrap();
    let response = tokio::spawn(async move { client().request(request).await.unwrap() });
    let send = async |part: &'static str| parts.send(Ok(Frame::data(part.into()))).await.unwrap();
    send("first ").await;
    harness.until_held(1).await;

    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    let mut echo = within("head", response).await.unwrap().into_body();
    let mut next =
        async || within("part", echo.frame()).await.map(|frame| frame.unwrap().into_data().unwrap());
    assert_eq!(next().await.unwrap(), "first ");
    send("second").await;
    assert_eq!(next().await.unwrap(), "second");
    drop(parts);
    assert!(next().await.is_none());
}

#[tokio::test]
async fn forwards_http2_requests_by_http2() {
    let harness = Harness::start().await;
    let request = Request::post(harness.url("/echo")).body(Full::<Bytes>::from("all")).unwrap();
    let response = tokio::spawn(async move { http2_client().request(request).await.unwrap() });
    harness.until_held(1).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    let response = within("head", response).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "all");
}

#[tokio::test]
async fn upgraded_connection_becomes_a_tunnel() {
    let harness = Harness::start().await;
    let mut client = harness.send_upgrade().await;
    harness.until_held(1).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;

    expect_echo_tunnel(&mut client).await;
}
