//! The activator in the path of a workload: claims of ports, reports, health checks, reconnects and
//! draining.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use activator::app::own_pod::OwnPod;
use activator::args::Limits;
use activator::workloads::Workload;
use activator::workloads::no_wake::NoWake;
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER, WORKLOAD_HEADER};
use autoscaler::history::FirstRequest;
use autoscaler::settings::{NoWakeResponse, Pause};
use autoscaler::stats::FirstRequestReport;
use bytes::Bytes;
use fake_api::FakeApi;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use support::pod::FakePod;
use support::receiver::Receiver;
use support::{Harness, LIMITS, ReceivedResponse, client, eventually, key, within};
use tokio::net::TcpStream;

const POD: &str = "127.0.0.2";

async fn with_receivers(harness: &Harness) -> [Receiver; 2] {
    let receivers = [Receiver::start().await, Receiver::start().await];
    harness.receivers.send_replace(BTreeSet::from([receivers[0].address, receivers[1].address]));
    eventually("receivers are connected", || async {
        harness.metric("rouse_activator_push_connections") == 2.0
    })
    .await;
    receivers
}

#[tokio::test]
async fn first_request_pokes_every_receiver_once() {
    let harness = Harness::start().await;
    let receivers = with_receivers(&harness).await;
    let requests = [harness.get("/"), harness.get("/")];
    for mut receiver in receivers {
        let poke = receiver.next().await;
        assert_eq!(poke.activator, "activator-1");
        let [message] = poke.messages.as_slice() else { panic!("{poke:?}") };
        assert_eq!(message.key, key());
        let poke = (message.stat.average_concurrent_requests, message.stat.request_count);
        assert_eq!(poke, (1.0, 1.0));

        // Two requests are in flight, and the poke has reported one. One of the next seconds is
        // reported in two halves.
        let halves = within("two requests reported", async {
            loop {
                let half = receiver.next().await.messages[0].stat.clone();
                assert!(half.is_plausible(), "{half:?}");
                if half.request_count == 0.0 && (0.2..1.8).contains(&half.average_concurrent_requests) {
                    return (half, receiver.next().await.messages[0].stat.clone());
                }
            }
        });
        let (half, rest) = halves.await;
        let second = half.average_concurrent_requests + rest.average_concurrent_requests;
        assert!((second - 2.0).abs() < 0.01, "{half:?} {rest:?}");
        assert_eq!(rest.request_count, 0.0);
    }

    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    for request in requests {
        let answer = within("answer", request).await.unwrap();
        assert!(answer.header("server-timing").contains("rouse-poke"), "{:?}", answer.head.headers);
    }
}

/// `why` names it. The query may have secrets.
#[tokio::test]
async fn client_that_ends_idleness_is_reported_without_the_query_of_its_request() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let scrape = |agent: &str| {
        let request = Request::get(harness.url("/metrics?token=secret")).header("user-agent", agent);
        harness.send(request.body(Full::default()).unwrap())
    };
    let _first = scrape("Prometheus/3.5.0");
    harness.until_held(1).await;
    let _busy = scrape("curl/8.14.1");
    harness.until_held(2).await;
    let mut reports = Vec::new();
    for _ in 0..3 {
        reports.extend(receiver.next_beat().await.first_requests);
    }
    let client = "127.0.0.1".parse().unwrap();
    let request = FirstRequest::of_http(client, "GET", "/metrics", Some(b"Prometheus/3.5.0"));
    assert_eq!(reports, [FirstRequestReport { key: key(), request }]);
}

/// As load balancers check a port.
#[tokio::test]
async fn connection_without_a_byte_neither_counts_nor_pokes() {
    let harness = Harness::start().await;
    let [mut receiver, mut other] = with_receivers(&harness).await;
    for _ in 0..3 {
        drop(within("a connection", TcpStream::connect(("127.0.0.1", harness.port))).await.unwrap());
    }
    // Each receiver gets the same: the seconds with these connections have been reported.
    for _ in 0..3 {
        other.next_beat().await;
    }
    assert_eq!(receiver.rest(), []);
    harness.until_held(0).await;
}

#[tokio::test]
async fn wake_is_reported_once_with_the_times_of_its_first_request() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let requests = [harness.get("/"), harness.get("/")];
    harness.until_held(2).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    for request in requests {
        within("answer", request).await.unwrap();
    }
    // A second pod of a workload that has one is not a wake.
    harness.pod_seen("127.0.0.3", false).await;
    within("answer", harness.get("/")).await.unwrap();
    let mut wakes = Vec::new();
    let until_idle = async {
        let mut is_idle = false;
        while !is_idle {
            let report = receiver.next().await;
            wakes.extend(report.wakes);
            is_idle = report.messages.iter().all(|message| message.stat.is_idle());
        }
    };
    within("an idle second", until_idle).await;
    let [report] = wakes.as_slice() else { panic!("{wakes:?}") };
    assert_eq!(report.key, key());
    assert!(report.wake.is_plausible(component_base::clock::unix_millis()), "{report:?}");
    let wake = report.wake;
    let moments = [wake.reported.unwrap(), wake.started, wake.verified, wake.forwarded, wake.answered];
    assert!(moments.is_sorted(), "{wake:?}");
}

/// Without them a receiver could not tell an idle activator from one that cannot report.
#[tokio::test]
async fn reports_each_second_without_requests_in_numbered_frames() {
    let harness = Harness::start().await;
    for mut receiver in with_receivers(&harness).await {
        let (first, second) = (receiver.next_beat().await, receiver.next_beat().await);
        assert_eq!((first.messages.len(), second.sequence), (0, first.sequence + 1));
        assert!(first.sequence > 0 && first.activator == second.activator && !first.activator.is_empty());
    }
}

#[tokio::test]
async fn idle_workload_is_reported_once_and_pokes_again() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    within("answer", harness.get("/")).await.unwrap();
    receiver.next().await;
    // The period of the request, which the poke has reported already, and one without requests.
    for _ in 0..2 {
        assert!(receiver.next().await.messages[0].stat.is_idle());
    }
    assert!(receiver.rest().is_empty());
    within("answer", harness.get("/")).await.unwrap();
    let stat = &receiver.next().await.messages[0].stat;
    assert_eq!((stat.average_concurrent_requests, stat.request_count), (1.0, 1.0));
}

#[tokio::test]
async fn paused_workload_rejects_requests_and_does_not_poke() {
    let harness = Harness::with(support::LIMITS, |workload| workload.pause = Pause::On).await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["reason"]), (503, &"Paused".into()));

    // Pushes are ordered: a poke of the rejected request would have arrived first, for it alone.
    harness.adapt(|workload| workload.pause = Pause::Off).await;
    let request = within("a held request", eventually_held(&harness)).await;
    let poke = receiver.next().await;
    assert_eq!(poke.messages[0].stat.request_count, 1.0);
    assert!(receiver.rest().iter().all(|push| push.messages[0].stat.request_count == 0.0));

    harness.adapt(|_| {}).await;
    let answer = within("rejection of the held request", request).await.unwrap();
    assert_eq!(answer.problem()["reason"], "Paused");
}

#[tokio::test]
async fn response_of_a_paused_workload_names_the_end_of_the_pause() {
    let in_an_hour = component_base::clock::unix_millis() + 3_600_000;
    let pause = |until| move |workload: &mut Workload| workload.pause = Pause::Until(until);
    let harness = Harness::with(support::LIMITS, pause(in_an_hour)).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["reason"]), (503, &"Paused".into()));
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!((3500..=3600).contains(&seconds), "{seconds}");
    let detail = answer.problem()["detail"].to_string();
    assert!(detail.contains(" until 20"), "{detail}");

    // Behind its end requests are held, although no zero-scaler has written that it ended.
    harness.adapt(pause(1)).await;
    within("a held request", eventually_held(&harness)).await;
}

/// A held request; repeats requests that were rejected while the workload was still paused.
async fn eventually_held(harness: &Harness) -> tokio::task::JoinHandle<support::ReceivedResponse> {
    loop {
        let request = harness.get("/");
        eventually("held or rejected", || async { harness.held() == 1 || request.is_finished() }).await;
        if !request.is_finished() {
            return request;
        }
    }
}

#[tokio::test]
async fn closes_client_connections_when_service_leads_to_pods() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    assert_eq!(within("answer", harness.get("/")).await.unwrap().header("connection"), "");
    harness.adapt(|workload| workload.serving = true).await;
    eventually("answers close their connections", || async {
        let answer = harness.get("/").await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.header("connection") == "close"
    })
    .await;
}

#[tokio::test]
async fn ends_long_http2_connection_when_service_leads_to_pods() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let url: http::Uri = harness.url("/").parse().unwrap();
    let stream = TcpStream::connect(url.authority().unwrap().as_str()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let mut send = async || {
        let request = Request::get(url.clone()).body(Full::<Bytes>::default()).unwrap();
        sender.send_request(request).await
    };
    for _ in 0..2 {
        assert_eq!(within("answer", send()).await.unwrap().status(), 200);
    }
    harness.adapt(|workload| workload.serving = true).await;
    // The change takes effect a moment later. Every request until then is served, and the next one
    // is the last.
    while let Ok(answer) = within("answer", send()).await {
        assert_eq!(answer.status(), 200);
    }
    within("the connection's end", connection).await.unwrap().unwrap();
}

type TrySendError = hyper::client::conn::TrySendError<Request<Full<Bytes>>>;

/// Reads a response to its end; `None` if the connection takes no more requests. A request that was
/// sent must not fail.
async fn read(
    answer: Result<http::Response<hyper::body::Incoming>, TrySendError>,
) -> Option<http::response::Parts> {
    match answer {
        Ok(answer) => {
            let (head, body) = answer.into_parts();
            body.collect().await.unwrap();
            assert_eq!(head.status, 200);
            Some(head)
        }
        Err(mut error) => {
            // A request that was queued when GOAWAY arrived was not sent, and hyper does not return
            // it.
            let is_unsent =
                error.take_message().is_some() || format!("{error:?}").contains("NO_ERROR, Remote");
            assert!(is_unsent, "{error:?}");
            None
        }
    }
}

/// Sends requests until the connection closes; returns the number of responses.
async fn client_of_http1(port: u16) -> usize {
    let stream = TokioIo::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answers = 0;
    while sender.ready().await.is_ok() {
        let request = Request::get("/").header("host", "a").body(Full::default()).unwrap();
        if read(sender.try_send_request(request).await).await.is_none() {
            break;
        }
        answers += 1;
    }
    connection.await.unwrap().unwrap();
    answers
}

/// The same with five streams at a time.
async fn client_of_http2(port: u16) -> usize {
    let stream = TokioIo::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
    let (sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let streams = (0..5).map(|_| {
        let mut sender = sender.clone();
        async move {
            let mut answers = 0;
            while sender.ready().await.is_ok() {
                let request = Request::get("http://a/").body(Full::default()).unwrap();
                if read(sender.try_send_request(request).await).await.is_none() {
                    break;
                }
                answers += 1;
            }
            answers
        }
    });
    let answers = futures::future::join_all(streams).await.iter().sum();
    drop(sender);
    connection.await.unwrap().unwrap();
    answers
}

#[tokio::test]
async fn clients_with_keepalive_reconnect_without_a_failed_request() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..10 {
        clients.spawn(client_of_http1(harness.port));
        clients.spawn(client_of_http2(harness.port));
    }
    eventually("requests are served", || async { harness.metric("rouse_activator_requests_total") > 500.0 })
        .await;
    harness.adapt(|workload| workload.serving = true).await;
    let mut answers = 0;
    while let Some(ended) = within("every client ends", clients.join_next()).await {
        answers += ended.unwrap();
    }
    assert!(answers > 500, "{answers}");
    // Every request that reached the activator got its response.
    eventually("all requests are counted", || async {
        harness.metric("rouse_activator_requests_total") >= answers as f64
    })
    .await;
    assert_eq!(harness.metric("rouse_activator_requests_total"), answers as f64);
}

#[tokio::test]
async fn health_check_of_workload_at_zero_succeeds_without_a_poke() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let check = |path: &str| {
        let request = Request::get(harness.url(path)).header("user-agent", "LoadBalancer/1.0");
        harness.send(request.body(Full::default()).unwrap())
    };
    let at_zero = within("answer", check("/healthz")).await.unwrap();
    assert_eq!((at_zero.status(), at_zero.body.as_ref()), (200, b"ok".as_slice()));
    assert!(receiver.rest().is_empty(), "no poke");

    // With a pod, the check is forwarded to the app, and still not counted.
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    eventually("the app responds", || async { within("answer", check("/")).await.unwrap().body == POD })
        .await;
    assert!(receiver.rest().is_empty());
    assert_eq!(harness.metric("rouse_activator_requests_total"), 0.0);

    harness.pod_gone(POD).await;
    harness.adapt(|workload| workload.pause = Pause::On).await;
    eventually("a paused workload is unhealthy", || async {
        within("answer", check("/")).await.unwrap().status() == 503
    })
    .await;
}

#[tokio::test]
async fn scrape_of_workload_at_zero_gets_no_samples_and_wakes_nothing() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let scrape = || {
        let request =
            Request::get(harness.url("/metrics")).header("x-prometheus-scrape-timeout-seconds", "10");
        harness.send(request.body(Full::default()).unwrap())
    };
    let at_zero = within("answer", scrape()).await.unwrap();
    assert_eq!((at_zero.status(), at_zero.body.as_ref()), (200, b"".as_slice()));
    assert_eq!(at_zero.header("content-type"), "text/plain; version=0.0.4");
    assert!(receiver.rest().is_empty(), "no poke");

    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    eventually("the app responds", || async { within("answer", scrape()).await.unwrap().body == POD }).await;
    assert!(receiver.rest().is_empty());
    assert_eq!(harness.metric("rouse_activator_requests_total"), 0.0);
}

#[tokio::test]
async fn health_checks_beyond_the_places_of_the_pod_count() {
    let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let check = || {
        let request = Request::get(harness.url("/")).header("user-agent", "LoadBalancer/1.0");
        harness.send(request.body(Full::default()).unwrap())
    };
    eventually("the pod is usable", || async { within("answer", check()).await.unwrap().body == POD }).await;
    pod.close_gate();
    let checks: Vec<_> = (0..6).map(|_| check()).collect();
    // Four do not count, one has the slot, one waits for it.
    harness.until_held(1).await;
    eventually("they run", || async { pod.running() == 5 }).await;
    pod.release(6);
    for check in checks {
        assert_eq!(within("answer", check).await.unwrap().body, POD);
    }
}

#[tokio::test]
async fn request_of_a_no_wake_rule_neither_wakes_nor_counts() {
    let harness = Harness::with(LIMITS, |workload| {
        let rules = "GET /healthz, HEAD, User-Agent: *UptimeRobot*".parse().unwrap();
        let response = NoWakeResponse::parse("200 at zero").unwrap();
        workload.no_wake = Some(Arc::new(NoWake { rules, response }));
    })
    .await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let send = |method: &str, path: &str, agent: &str| {
        let request = Request::builder().method(method).uri(harness.url(path)).header("user-agent", agent);
        harness.send(request.body(Full::default()).unwrap())
    };
    let monitors = [("GET", "/healthz?a=b", "curl"), ("HEAD", "/", "curl"), ("POST", "/", "UptimeRobot/2")];
    for (method, path, agent) in monitors {
        let at_zero = within("answer", send(method, path, agent)).await.unwrap();
        assert_eq!((at_zero.status(), at_zero.header("cache-control")), (200, "no-store"), "{method} {path}");
        let body = if method == "HEAD" { "" } else { "at zero" };
        assert_eq!(at_zero.body, body, "{method} {path}");
    }
    assert!(receiver.rest().is_empty(), "no poke");
    harness.until_held(0).await;

    let client = send("GET", "/", "curl");
    assert_eq!(receiver.next().await.messages[0].key, key(), "another request pokes");
    harness.until_held(1).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    assert_eq!(within("answer", client).await.unwrap().body, POD);
    // With a pod, the app responds, and its requests are still not counted.
    pod.close_gate();
    let running = send("POST", "/", "UptimeRobot/2");
    eventually("it runs", || async { pod.running() == 1 }).await;
    within("a period without concurrency is reported", async {
        while receiver.next().await.messages[0].stat.average_concurrent_requests > 0.0 {}
    })
    .await;
    pod.release(1);
    assert_eq!(within("answer", running).await.unwrap().body, POD);
    assert_eq!(harness.metric("rouse_activator_requests_total"), 1.0, "the client's");
}

#[tokio::test]
async fn answers_probes_without_counting_them() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let probe =
        Request::get(harness.url("/")).header(PROBE_HEADER, "activator").body(Full::default()).unwrap();
    let answer = within("answer", harness.send(probe)).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, b"activator".as_slice()));
    assert_eq!(answer.header(WORKLOAD_HEADER), "shop/web");
    assert_eq!(harness.metric("rouse_activator_requests_total"), 0.0);
    assert!(receiver.rest().is_empty());
}

#[tokio::test]
async fn serves_deleted_workload_for_a_while_then_rejects_held_requests() {
    let harness = Harness::start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.delete().await;
    let late = harness.get("/");
    harness.until_held(2).await;
    for request in [request, late] {
        assert_eq!(within("answer", request).await.unwrap().status(), 404);
    }
    eventually("the port is closed", || async {
        TcpStream::connect(("127.0.0.1", harness.port)).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn drain_serves_held_requests() {
    let harness = Harness::start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    assert!(harness.readiness.is_ready());
    harness.stop.cancel();
    eventually("it is not ready", || async { !harness.readiness.is_ready() }).await;
    eventually("the port is closed", || async {
        TcpStream::connect(("127.0.0.1", harness.port)).await.is_err()
    })
    .await;
    assert!(!harness.running.is_finished());

    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.header("connection")), (200, "close"));
    within("the end", harness.running).await.unwrap();
}

#[tokio::test]
async fn drain_that_is_shorter_than_a_wake_ends_held_requests_with_a_retry() {
    let drain_timeout = Duration::from_millis(1500);
    let harness = Harness::with(Limits { drain_timeout, ..LIMITS }, |_| {}).await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.stop.cancel();
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.header("retry-after")), (503, "1"));
    assert_eq!(answer.header("connection"), "close");
    assert_eq!(answer.problem()["reason"], "ActivatorStopping");
    within("the end", harness.running).await.unwrap();
}

#[tokio::test]
async fn kubelet_that_gives_less_than_a_drain_ends_held_requests_with_a_retry() {
    let api = FakeApi::default();
    let deleted = json!({"deletionTimestamp": "2026-11-28T12:00:00Z", "deletionGracePeriodSeconds": 2});
    api.put("/api/v1/namespaces/rouse-system/pods/activator-1", json!({"metadata": deleted}));
    let pod = OwnPod::new(&api.client(), "rouse-system", "activator-1");
    let limits = Limits { drain_timeout: Duration::from_secs(600), ..LIMITS };
    let harness = Harness::with_own_pod(pod, limits).await;
    let request = harness.get("/");
    harness.until_held(1).await;
    harness.stop.cancel();
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.problem()["reason"].as_str()), (503, Some("ActivatorStopping")));
    within("the end", harness.running).await.unwrap();
}

#[tokio::test]
async fn drain_accepts_connections_until_none_arrives() {
    let limits = Limits { drain_grace: Duration::from_secs(1), ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    harness.stop.cancel();
    // Twice as long as the grace period.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        TcpStream::connect(("127.0.0.1", harness.port)).await.unwrap();
    }
    within("the end", harness.running).await.unwrap();
}

#[tokio::test]
async fn drain_ends_while_connections_still_arrive() {
    let longest_drain_grace = Duration::from_millis(600);
    let limits = Limits { drain_grace: Duration::from_millis(500), longest_drain_grace, ..LIMITS };
    let harness = Harness::with(limits, |_| {}).await;
    harness.stop.cancel();
    eventually("the port is closed", || async {
        TcpStream::connect(("127.0.0.1", harness.port)).await.is_err()
    })
    .await;
    within("the end", harness.running).await.unwrap();
}

/// The workload to which the harness' port leads; `None` while it is closed.
async fn workload_of_port(harness: &Harness) -> Option<String> {
    let probe = Request::get(harness.url("/")).header(PROBE_HEADER, PROBE_ACTIVATOR);
    let probe = probe.body(Full::<Bytes>::default()).unwrap();
    let response = ReceivedResponse::of(client().request(probe).await.ok()?).await;
    Some(response.header(WORKLOAD_HEADER).to_owned())
}

#[tokio::test]
async fn first_claim_keeps_the_port_until_it_ends() {
    let harness = Harness::start().await;
    harness.another_at("thief", harness.port).await;
    // Its port opens after the change before it is applied.
    harness.another("witness-1").await;
    for _ in 0..20 {
        assert_eq!(workload_of_port(&harness).await.as_deref(), Some("shop/web"));
    }
    harness.adapt(|workload| workload.ports.clear()).await;
    eventually("the other claim has the port", || async {
        workload_of_port(&harness).await.as_deref() == Some("shop/thief")
    })
    .await;
    // It comes back, behind the claim that lasted.
    harness.adapt(|_| {}).await;
    harness.another_at("last", harness.port).await;
    harness.another("witness-2").await;
    assert_eq!(workload_of_port(&harness).await.as_deref(), Some("shop/thief"));
}
