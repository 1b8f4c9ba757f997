//! Pods without a queue-proxy: verified as their own readiness probes would, and given requests and
//! connections as a client would send them. Activators report how they serve, for a target that is
//! learned.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::time::Duration;

use activator::workloads::Observation;
use autoscaler::Protocol;
use autoscaler::contract::INTERNAL_HEADERS;
use autoscaler::stats::PodStat;
use bytes::Bytes;
use futures::{SinkExt, channel::mpsc};
use http::{Method, Request, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use proxy::timeouts::request_timer::Timeouts;
use serde_json::{Value, json};
use support::pod::{FakePod, KillablePod};
use support::receiver::Receiver;
use support::upgrade::expect_echo_tunnel;
use support::{
    Harness, LIMITS, ReceivedResponse, client, eventually, http2_client, key, within, without_sidecar,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const POD: &str = "127.0.0.2";
const OTHER_POD: &str = "127.0.0.3";

fn http_get() -> Value {
    json!({"httpGet": {"path": "/healthz", "port": "http"}})
}

fn tcp_socket() -> Value {
    json!({"tcpSocket": {"port": "http"}})
}

/// A probe that only the kubelet can run.
fn exec() -> Value {
    json!({"exec": {"command": ["true"]}})
}

async fn start() -> Harness {
    Harness::with(LIMITS, without_sidecar).await
}

/// With a limit of 1 the pod with the lowest address is tried first.
async fn start_in_order() -> Harness {
    Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.container_concurrency = 1;
    })
    .await
}

async fn answered_by(harness: &Harness, pod: &str) {
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, pod.as_bytes()));
}

/// A request is held until the app answers this probe.
async fn wakes_with(probe: impl FnOnce(u16) -> Value) {
    let harness = start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    let pod = FakePod::plain(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, false, probe(harness.pod_port)).await;
    eventually("the app is probed twice", || async { pod.probes() > 1 }).await;
    assert_eq!((pod.served(), harness.held()), (0, 1));
    pod.becomes_ready();
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, POD.as_bytes()));
    assert!(answer.header("server-timing").contains("rouse-probe"), "{:?}", answer.head.headers);
}

#[tokio::test]
async fn http_probe_of_app_ends_the_hold() {
    wakes_with(|_| http_get()).await;
}

#[tokio::test]
async fn grpc_probe_of_app_ends_the_hold() {
    // The port of such a probe is a number.
    wakes_with(|port| json!({"grpc": {"port": port, "service": "shop"}})).await;
}

#[tokio::test]
async fn open_port_of_app_ends_the_hold() {
    let harness = start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.plain_pod_seen(POD, false, tcp_socket()).await;
    // The variable keeps the listener open until the request is answered.
    let _pod = FakePod::plain(POD, harness.pod_port).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn pod_that_only_the_kubelet_can_probe_gets_requests_once_ready() {
    let harness = start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    let unverified = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, false, exec()).await;
    let _other = FakePod::plain_ready(OTHER_POD, harness.pod_port).await;
    harness.plain_pod_seen(OTHER_POD, true, exec()).await;
    let answer = within("answer", request).await.unwrap();
    assert_eq!(answer.body, OTHER_POD, "it has the Ready condition");
    assert_eq!((unverified.served(), unverified.probes()), (0, 0));
    harness.pod_gone(OTHER_POD).await;
    harness.plain_pod_seen(POD, true, exec()).await;
    harness.settled().await;
    answered_by(&harness, POD).await;
}

#[tokio::test]
async fn pod_is_probed_from_the_end_of_its_startup_probe() {
    let harness = start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    let pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_with(POD, false, http_get(), |containers| containers.is_starting = true).await;
    harness.settled().await;
    assert_eq!((pod.probes(), harness.held()), (0, 1));
    harness.plain_pod_seen(POD, false, http_get()).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
    assert!(pod.probes() > 0);
}

#[tokio::test]
async fn probe_must_succeed_as_often_in_a_row_as_its_threshold() {
    let harness = start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    let pod = FakePod::plain_ready(POD, harness.pod_port).await;
    let probe = json!({"httpGet": {"path": "/healthz", "port": "http"}, "successThreshold": 3});
    harness.plain_pod_seen(POD, false, probe).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
    assert_eq!(pod.probes(), 3);
}

#[tokio::test]
async fn app_gets_no_header_of_ours() {
    let harness = start_in_order().await;
    let pod = FakePod::plain_ready(OTHER_POD, harness.pod_port).await;
    // The first attempt goes to a pod that still has a queue-proxy, and is marked for that.
    harness.pod_seen(POD, true).await;
    harness.plain_pod_seen(OTHER_POD, true, Value::Null).await;
    harness.settled().await;
    let mut request = Request::post(harness.url("/")).body(Full::from("all of it")).unwrap();
    for name in INTERNAL_HEADERS.into_iter().filter(|name| *name != "rouse-probe") {
        request.headers_mut().insert(name, "of-the-client".parse().unwrap());
    }
    let answer = within("answer", harness.send(request)).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, b"all of it".as_slice()));
    assert_eq!(pod.served(), 1);
}

#[tokio::test]
async fn misdirected_response_of_app_is_passed_on() {
    let harness = start().await;
    let _pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    assert_eq!(within("answer", harness.get("/misdirected")).await.unwrap().status(), 421);
}

#[tokio::test]
async fn http2_requests_reach_the_app_by_http2() {
    let harness = start().await;
    let _pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    let request = Request::post(harness.url("/echo")).body(Full::<Bytes>::from("all")).unwrap();
    let response = within("head", http2_client().request(request)).await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "all");
}

#[tokio::test]
async fn killed_app_is_left_at_once_and_used_again_when_it_is_back() {
    // By its own probe, and by a connection because only the kubelet can run it.
    for probe in [http_get(), exec()] {
        let harness = start_in_order().await;
        let dying = KillablePod::plain(POD, harness.pod_port).await;
        let _other = FakePod::plain_ready(OTHER_POD, harness.pod_port).await;
        harness.plain_pod_seen(POD, true, probe.clone()).await;
        harness.plain_pod_seen(OTHER_POD, true, probe).await;
        harness.settled().await;
        answered_by(&harness, POD).await;
        dying.kill().await;
        answered_by(&harness, OTHER_POD).await;
        let back = FakePod::plain_ready(POD, harness.pod_port).await;
        eventually("it is used again", || async {
            assert_eq!(harness.get("/").await.unwrap().status(), 200);
            back.served() > 0
        })
        .await;
    }
}

#[tokio::test]
async fn pod_that_is_no_longer_ready_gets_no_request() {
    let harness = start_in_order().await;
    let left = FakePod::plain_ready(POD, harness.pod_port).await;
    let _other = FakePod::plain_ready(OTHER_POD, harness.pod_port).await;
    for (ip, ready) in [(POD, true), (OTHER_POD, true), (POD, false)] {
        harness.plain_pod_seen(ip, ready, exec()).await;
    }
    harness.settled().await;
    answered_by(&harness, OTHER_POD).await;
    assert_eq!(left.served(), 0);
}

#[tokio::test]
async fn only_idempotent_request_of_killed_app_is_sent_again() {
    for (method, status) in [(Method::PUT, 200), (Method::POST, 502)] {
        let harness = start_in_order().await;
        let dying = KillablePod::plain(POD, harness.pod_port).await;
        dying.close_gate();
        let _other = FakePod::plain_ready(OTHER_POD, harness.pod_port).await;
        harness.plain_pod_seen(POD, true, Value::Null).await;
        harness.plain_pod_seen(OTHER_POD, true, Value::Null).await;
        harness.settled().await;
        let request = Request::builder().method(method.clone()).uri(harness.url("/"));
        let answer = harness.send(request.body(Full::from("all of it")).unwrap());
        eventually("it runs", || async { dying.running() == 1 }).await;
        dying.kill().await;
        assert_eq!(within("answer", answer).await.unwrap().status(), status, "{method}");
    }
}

#[tokio::test]
async fn upgraded_connection_becomes_a_tunnel_to_the_app() {
    let harness = start().await;
    let _pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    let mut client = harness.send_upgrade().await;
    expect_echo_tunnel(&mut client).await;
}

#[tokio::test]
async fn tcp_connection_is_held_and_relayed_to_the_app() {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.ports[0].protocol = Protocol::Tcp;
    })
    .await;
    let mut client = within("a connection", TcpStream::connect(("127.0.0.1", harness.port))).await.unwrap();
    client.write_all(b"SELECT 1").await.unwrap();
    harness.until_held(1).await;
    harness.plain_pod_seen(POD, false, tcp_socket()).await;
    let app = TcpListener::bind((POD, harness.pod_port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = app.accept().await {
            // The first ones are probes.
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.into_split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    let mut echo = [0; 8];
    within("an echo", client.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"SELECT 1");
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    within("the end", client.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "");
    harness.until_held(0).await;
}

#[tokio::test]
async fn connections_stay_open_while_the_mode_changes() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut client = TcpStream::connect(("127.0.0.1", harness.port)).await.unwrap();
    for _ in 0..3 {
        harness.adapt(without_sidecar).await;
        // Back to the first mode, by which the pod has a queue-proxy as well.
        harness.settled().await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(POD.as_bytes()) {
            assert!(within("a response", client.read_buf(&mut answer)).await.unwrap() > 0, "closed");
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
}

const NONE: Duration = Duration::ZERO;
const SHORT: Duration = Duration::from_millis(100);

/// A workload with a limit of 1 and these timeouts, and its pod.
async fn start_with_timeouts(timeouts: Timeouts) -> (Harness, FakePod) {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        (workload.container_concurrency, workload.timeouts) = (1, timeouts);
    })
    .await;
    let pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    harness.settled().await;
    (harness, pod)
}

#[tokio::test]
async fn request_without_response_in_time_gets_504_and_releases_its_slot() {
    for (timeouts, detail) in [
        (Timeouts::new(SHORT, NONE, NONE), "did not complete within 100ms (timeout)"),
        (Timeouts::new(NONE, SHORT, NONE), "within 100ms (response-start-timeout)"),
        (Timeouts::new(NONE, NONE, SHORT), "for 100ms (idle-timeout)"),
    ] {
        let (harness, pod) = start_with_timeouts(timeouts).await;
        pod.close_gate();
        for client in [client(), http2_client()] {
            let request = Request::get(harness.url("/")).body(Full::<Bytes>::default()).unwrap();
            let late = ReceivedResponse::of(within("answer", client.request(request)).await.unwrap()).await;
            let problem = late.problem();
            assert_eq!((late.status(), &problem["reason"]), (504, &json!("RequestTimeout")));
            assert!(problem["detail"].as_str().unwrap().contains(detail), "{problem}");
        }
        eventually("the app is left", || async { pod.running() == 0 }).await;
        pod.release(1);
        answered_by(&harness, POD).await;
    }
}

#[tokio::test]
async fn time_in_the_hold_is_no_part_of_a_timeout() {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.timeouts = Timeouts::new(2 * SHORT, NONE, SHORT);
    })
    .await;
    let request = harness.get("/");
    harness.until_held(1).await;
    tokio::time::sleep(3 * SHORT).await;
    let _pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
}

/// An upload that the app returns as it arrives.
async fn echo_stream(
    harness: &Harness,
) -> (mpsc::Sender<Result<Frame<Bytes>, Infallible>>, hyper::body::Incoming) {
    let (sender, frames) = mpsc::channel(1);
    let request = Request::post(harness.url("/echo")).body(StreamBody::new(frames)).unwrap();
    let response = within("head", client().request(request)).await.unwrap();
    assert_eq!(response.status(), 200);
    (sender, response.into_body())
}

#[tokio::test]
async fn response_that_has_begun_is_cut_at_the_total_timeout() {
    let (harness, _pod) = start_with_timeouts(Timeouts::new(2 * SHORT, SHORT, NONE)).await;
    let (mut sender, mut body) = echo_stream(&harness).await;
    sender.send(Ok(Frame::data(Bytes::from("half")))).await.unwrap();
    assert_eq!(within("frame", body.frame()).await.unwrap().unwrap().into_data().unwrap(), "half");
    assert!(within("end", body.frame()).await.unwrap().is_err(), "half a body must not look complete");
    answered_by(&harness, POD).await;
}

#[tokio::test]
async fn only_silence_exceeds_the_idle_timeout() {
    let (harness, _pod) = start_with_timeouts(Timeouts::new(NONE, NONE, 3 * SHORT)).await;
    let (mut sender, mut body) = echo_stream(&harness).await;
    for _ in 0..6 {
        tokio::time::sleep(SHORT).await;
        sender.send(Ok(Frame::data(Bytes::from("more")))).await.unwrap();
        within("frame", body.frame()).await.unwrap().unwrap();
    }
    assert!(within("end", body.frame()).await.unwrap().is_err());
}

#[tokio::test]
async fn idle_timeout_resets_an_upgraded_connection() {
    let (harness, _pod) = start_with_timeouts(Timeouts::new(SHORT, SHORT, 3 * SHORT)).await;
    let mut client = harness.send_upgrade().await;
    expect_echo_tunnel(&mut client).await;
    let mut rest = Vec::new();
    let end = within("end", client.read_to_end(&mut rest)).await.unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset, "an end would make a part look like the whole");
    answered_by(&harness, POD).await;
}

#[tokio::test]
async fn idle_timeout_resets_a_tcp_connection() {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.ports[0].protocol = Protocol::Tcp;
        workload.timeouts = Timeouts::new(SHORT, SHORT, 3 * SHORT);
    })
    .await;
    let app = TcpListener::bind((POD, harness.pod_port)).await.unwrap();
    harness.plain_pod_seen(POD, true, Value::Null).await;
    let mut client = TcpStream::connect(("127.0.0.1", harness.port)).await.unwrap();
    client.write_all(b"ping").await.unwrap();
    // A probe of the port is a connection without bytes.
    loop {
        let (mut served, _) = within("connection", app.accept()).await.unwrap();
        let mut received = Vec::new();
        let end = within("end", served.read_to_end(&mut received)).await;
        if received == b"ping" {
            assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
            break;
        }
    }
}

// === reports ===

/// A workload with these settings, its ready pod, and a receiver of its reports.
async fn start_observed(observation: Option<Observation>) -> (Harness, FakePod, Receiver) {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.observation = observation;
    })
    .await;
    let receiver = Receiver::start().await;
    harness.receivers.send_replace(BTreeSet::from([receiver.address]));
    let pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    harness.settled().await;
    (harness, pod, receiver)
}

/// The reports up to the one in which the workload is idle.
async fn reported(receiver: &mut Receiver) -> Vec<PodStat> {
    let mut pods = Vec::new();
    loop {
        let report = receiver.next().await;
        pods.extend(report.pods);
        if report.messages.iter().any(|message| message.stat.is_idle()) {
            return pods;
        }
    }
}

#[tokio::test]
async fn requests_of_each_pod_are_reported_with_their_time_in_the_app() {
    let objective = Duration::from_nanos(1_000);
    let (harness, pod, mut receiver) = start_observed(Some(Observation { objective: Some(objective) })).await;
    pod.close_gate();
    let requests: Vec<_> = (0..3).map(|_| harness.get("/")).collect();
    eventually("they run", || async { pod.running() == 3 }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    pod.release(3);
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    let pods = reported(&mut receiver).await;
    assert!(pods.iter().all(|pod| pod.key == key() && pod.ip.to_string() == POD));
    let app: Vec<_> = pods.iter().filter_map(|pod| pod.stat.app).collect();
    assert!(app.iter().all(|app| app.objective_micros == 1), "{app:?}");
    // A period may last a little longer than a second.
    let sum = |of: fn(&PodStat) -> f64| pods.iter().map(of).sum::<f64>();
    let app_sum = |of: fn(&autoscaler::stats::AppStat) -> f64| app.iter().map(of).sum::<f64>();
    assert!(
        sum(|pod| pod.stat.request_count) > 1.4 && sum(|pod| pod.stat.average_concurrent_requests) > 0.07
    );
    assert!(app_sum(|app| app.completions) > 1.4 && app_sum(|app| app.seconds) > 0.07, "{app:?}");
    assert!(app_sum(|app| app.misses) > 1.4, "all took longer than a microsecond");
    assert!(app_sum(|app| app.errors).abs() < 1e-9);
}

#[tokio::test]
async fn pods_are_not_reported_unless_a_target_is_learned() {
    let (harness, _pod, mut receiver) = start_observed(None).await;
    assert_eq!(within("answer", harness.get("/")).await.unwrap().status(), 200);
    assert_eq!(reported(&mut receiver).await, []);
}
