//! Pods whose address was given to another pod before the activator has seen it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use autoscaler::Protocol;
use autoscaler::contract::INTERNAL_HEADERS;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use support::pod::FakePod;
use support::{Harness, LIMITS, ReceivedResponse, eventually, http2_client, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const POD: &str = "127.0.0.2";
const OTHER_POD: &str = "127.0.0.3";
const OTHER_UID: &str = "uid-of-another-pod";

fn request(harness: &Harness, method: Method) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(harness.url("/")).body(Full::from("all of it")).unwrap()
}

#[tokio::test]
async fn pod_that_refuses_the_probe_gets_no_request() {
    let harness = Harness::start().await;
    let request = harness.get("/");
    harness.until_held(1).await;
    let other = FakePod::with_uid(OTHER_UID, POD, harness.pod_port).await;
    other.becomes_ready();
    harness.pod_seen(POD, false).await;
    eventually("it is probed twice", || async { other.refused() > 1 }).await;
    assert_eq!(harness.held(), 1);

    let _pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(OTHER_POD, false).await;
    let answer = within("answer", request).await.unwrap();
    assert_eq!((answer.status(), answer.body.as_ref()), (200, OTHER_POD.as_bytes()));
    assert_eq!(other.served(), 0);
}

#[tokio::test]
async fn request_that_a_stranger_refuses_is_sent_to_another_pod() {
    for (method, http2) in [(Method::GET, false), (Method::POST, false), (Method::GET, true)] {
        // With a limit of 1 the pod with the lowest address is tried first.
        let harness = Harness::with(LIMITS, |workload| workload.container_concurrency = 1).await;
        let other = FakePod::with_uid(OTHER_UID, POD, harness.pod_port).await;
        let pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
        harness.pod_seen(POD, true).await;
        harness.pod_seen(OTHER_POD, true).await;
        harness.settled().await;
        let answer = if http2 {
            let mut request = request(&harness, method.clone());
            *request.body_mut() = Full::default();
            within("answer", async { http2_client().request(request).await.unwrap() }).await
        } else {
            within("answer", async {
                support::client().request(request(&harness, method.clone())).await.unwrap()
            })
            .await
        };
        let answer = ReceivedResponse::of(answer).await;
        assert_eq!(answer.status(), 200, "{method} {}", String::from_utf8_lossy(&answer.body));
        assert_eq!((other.served(), pod.served()), (0, 1), "{method}");
        assert!(other.refused() > 0, "{method}");
    }
}

#[tokio::test]
async fn connection_that_a_stranger_refuses_goes_to_another_pod() {
    let harness = Harness::with(LIMITS, |workload| {
        workload.container_concurrency = 1;
        workload.ports[0].protocol = Protocol::Tcp;
    })
    .await;
    let other = FakePod::with_uid(OTHER_UID, POD, harness.pod_port).await;
    let _pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    harness.pod_seen(OTHER_POD, true).await;
    harness.settled().await;
    let mut client = within("a connection", TcpStream::connect(("127.0.0.1", harness.port))).await.unwrap();
    client.write_all(b"PING").await.unwrap();
    let mut echo = [0; 4];
    within("an echo", client.read_exact(&mut echo)).await.unwrap();
    assert_eq!((&echo, other.served()), (b"PING", 0));
}

#[tokio::test]
async fn internal_headers_of_clients_do_not_reach_pods() {
    let harness = Harness::start().await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut request = request(&harness, Method::GET);
    // The activator answers requests with the header of probes by itself.
    for name in INTERNAL_HEADERS.into_iter().filter(|name| *name != "rouse-probe") {
        request.headers_mut().insert(name, OTHER_UID.parse().unwrap());
    }
    let answer = within("answer", harness.send(request)).await.unwrap();
    assert_eq!((answer.status(), pod.served()), (200, 1), "{}", String::from_utf8_lossy(&answer.body));
}
