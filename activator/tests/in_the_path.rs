//! How an activator comes into the path of a workload, tells about it, and gets out of the way.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "shared by test files, published to nobody"
)]

mod support;

use std::collections::BTreeSet;

use autoscaler::contract::{PROBE_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::pod::FakePod;
use support::receiver::Receiver;
use support::{Harness, eventually, key, within};
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
async fn the_first_request_pokes_every_receiver_once() {
    let harness = Harness::start().await;
    let receivers = with_receivers(&harness).await;
    let requests = [harness.get("/"), harness.get("/")];
    for mut receiver in receivers {
        let poke = receiver.next().await;
        assert_eq!(poke.activator, "activator-1");
        let [message] = poke.messages.as_slice() else { panic!("{poke:?}") };
        assert_eq!(message.key, key());
        let told = (message.stat.average_concurrent_requests, message.stat.request_count);
        assert_eq!(told, (1.0, 1.0));

        // Two are there, and one of them was told; of the next second some half is told, and then
        // the rest.
        let told = within("two requests told", async {
            loop {
                let half = receiver.next().await.messages[0].stat.clone();
                assert!(half.is_plausible(), "{half:?}");
                if half.request_count == 0.0 && (0.2..1.8).contains(&half.average_concurrent_requests) {
                    return (half, receiver.next().await.messages[0].stat.clone());
                }
            }
        });
        let (half, rest) = told.await;
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

#[tokio::test]
async fn a_workload_is_told_as_idle_once_and_pokes_again() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    within("answer", harness.get("/")).await.unwrap();
    receiver.next().await;
    // The period of the request, of which the poke told everything already, and one of silence.
    for _ in 0..2 {
        assert!(receiver.next().await.messages[0].stat.is_idle());
    }
    assert!(receiver.rest().is_empty());
    within("answer", harness.get("/")).await.unwrap();
    let stat = &receiver.next().await.messages[0].stat;
    assert_eq!((stat.average_concurrent_requests, stat.request_count), (1.0, 1.0));
}

#[tokio::test]
async fn a_paused_workload_says_so_and_does_not_wake() {
    let harness = Harness::with(support::LIMITS, |workload| workload.paused = true).await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let answer = within("answer", harness.get("/")).await.unwrap();
    assert_eq!((answer.status(), &answer.problem()["reason"]), (503, &"Paused".into()));

    // Pushes come in order: had the refused request poked, that would be first, and would have come
    // for it alone.
    harness.adapt(|workload| workload.paused = false).await;
    let request = within("a held request", eventually_held(&harness)).await;
    let poke = receiver.next().await;
    assert_eq!(poke.messages[0].stat.request_count, 1.0);
    assert!(receiver.rest().iter().all(|push| push.messages[0].stat.request_count == 0.0));

    harness.adapt(|_| {}).await;
    let answer = within("the held caller is told", request).await.unwrap();
    assert_eq!(answer.problem()["reason"], "Paused");
}

/// A request that is held; those that came while the workload was still paused are repeated.
async fn eventually_held(harness: &Harness) -> tokio::task::JoinHandle<support::Answer> {
    loop {
        let request = harness.get("/");
        eventually("held or refused", || async { harness.held() == 1 || request.is_finished() }).await;
        if !request.is_finished() {
            return request;
        }
    }
}

#[tokio::test]
async fn callers_are_sent_away_when_the_workload_serves() {
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
async fn a_caller_with_one_long_http2_connection_is_sent_away_as_well() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let url: http::Uri = harness.url("/").parse().unwrap();
    let stream = TcpStream::connect(url.authority().unwrap().as_str()).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    let connection = tokio::spawn(connection);
    let mut ask = async || {
        let asked = Request::get(url.clone()).body(Full::<Bytes>::default()).unwrap();
        sender.send_request(asked).await
    };
    for _ in 0..2 {
        assert_eq!(within("answer", ask()).await.unwrap().status(), 200);
    }
    harness.adapt(|workload| workload.serving = true).await;
    // The activator hears of it a moment later. Each request until then is served, and the one
    // after that is the last.
    while let Ok(answer) = within("answer", ask()).await {
        assert_eq!(answer.status(), 200);
    }
    within("the connection's end", connection).await.unwrap().unwrap();
}

type TrySendError = hyper::client::conn::TrySendError<Request<Full<Bytes>>>;

/// An answer that is read to its end; `None` if the connection takes no more requests. What was
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
            assert!(error.take_message().is_some(), "{error:?}");
            None
        }
    }
}

/// Asks until it is sent away, and tells how many answers it got.
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
async fn clients_that_keep_their_connections_leave_without_a_failed_request() {
    let harness = Harness::start().await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..10 {
        clients.spawn(client_of_http1(harness.port));
        clients.spawn(client_of_http2(harness.port));
    }
    eventually("they are at work", || async { harness.metric("rouse_activator_requests_total") > 500.0 })
        .await;
    harness.adapt(|workload| workload.serving = true).await;
    let mut answers = 0;
    while let Some(ended) = within("everybody leaves", clients.join_next()).await {
        answers += ended.unwrap();
    }
    assert!(answers > 500, "{answers}");
}

#[tokio::test]
async fn health_checks_neither_wake_a_workload_nor_call_it_dead() {
    let harness = Harness::start().await;
    let [mut receiver, _other] = with_receivers(&harness).await;
    let check = |path: &str| {
        let request = Request::get(harness.url(path)).header("user-agent", "LoadBalancer/1.0");
        harness.send(request.body(Full::default()).unwrap())
    };
    let asleep = within("answer", check("/healthz")).await.unwrap();
    assert_eq!((asleep.status(), asleep.body.as_ref()), (200, b"ok".as_slice()));
    assert!(receiver.rest().is_empty(), "nobody is woken");

    // With a pod it is the app's to say, still uncounted.
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    eventually("the app is asked", || async { within("answer", check("/")).await.unwrap().body == POD })
        .await;
    assert!(receiver.rest().is_empty());
    assert_eq!(harness.metric("rouse_activator_requests_total"), 0.0);

    harness.pod_gone(POD).await;
    harness.adapt(|workload| workload.paused = true).await;
    eventually("a paused workload is not well", || async {
        within("answer", check("/")).await.unwrap().status() == 503
    })
    .await;
}

#[tokio::test]
async fn probes_are_answered_without_being_counted() {
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
async fn a_workload_that_is_deleted_is_served_until_nobody_leads_here_and_then_ends_what_waits() {
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
async fn a_drain_serves_what_is_held() {
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
