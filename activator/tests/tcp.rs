//! Connections that are not HTTP's: held, placed, counted while bytes flow, and told apart from the
//! zero-scaler's probes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(
    unreachable_pub,
    missing_debug_implementations,
    reason = "shared by test files, published to nobody"
)]

mod support;

use std::time::Duration;

use activator::args::Limits;
use autoscaler::Protocol;
use autoscaler::contract::TCP_PROBE;
use http::{Method, StatusCode};
use support::pod::FakePod;
use support::receiver::Receiver;
use support::{Harness, LIMITS, eventually, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const POD: &str = "127.0.0.2";
const OTHER_POD: &str = "127.0.0.3";

const ENDED: &str = "rouse_activator_tcp_connections_total";

async fn start(limits: Limits, container_concurrency: u32) -> Harness {
    let harness = Harness::with(limits, |workload| {
        workload.container_concurrency = container_concurrency;
        workload.ports[0].protocol = Protocol::Tcp;
    })
    .await;
    // The one that showed that the port is open.
    eventually("the first connection has ended", || async { harness.metric(ENDED) == 1.0 }).await;
    harness
}

async fn call(harness: &Harness) -> TcpStream {
    within("a connection", TcpStream::connect(("127.0.0.1", harness.port))).await.unwrap()
}

/// Says something to an app that says it again.
async fn echoes(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    hears(stream, bytes).await;
}

async fn hears(stream: &mut TcpStream, bytes: &[u8]) {
    let mut heard = vec![0; bytes.len()];
    within("an echo", stream.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard, bytes);
}

async fn ends(mut stream: TcpStream) {
    let read = within("the end", stream.read(&mut [0])).await;
    assert_eq!(read.unwrap_or_default(), 0);
}

#[tokio::test]
async fn a_connection_is_held_until_its_pod_answers_the_probe_and_nothing_of_it_is_lost() {
    let harness = start(LIMITS, 0).await;
    let mut caller = call(&harness).await;
    caller.write_all(b"SELECT 1").await.unwrap();
    harness.until_held(1).await;
    let pod = FakePod::start(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    eventually("the pod is probed", || async { pod.probes() > 0 }).await;
    assert_eq!(pod.served(), 0);

    pod.becomes_ready();
    hears(&mut caller, b"SELECT 1").await;
    assert_eq!((harness.held(), pod.running()), (0, 1));
    caller.write_all(b"and the end").await.unwrap();
    caller.shutdown().await.unwrap();
    let mut rest = String::new();
    within("the end", caller.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "and the end");
    eventually("the pod is left", || async { pod.running() == 0 }).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_its_place_whatever_it_has_said() {
    let harness = start(Limits { queue_depth: 1, ..LIMITS }, 0).await;
    for said in [b"".as_slice(), b"AUTH"] {
        let mut caller = call(&harness).await;
        caller.write_all(said).await.unwrap();
        harness.until_held(1).await;
        ends(call(&harness).await).await;
        drop(caller);
        harness.until_held(0).await;
    }
}

#[tokio::test]
async fn who_waits_too_long_is_closed_on() {
    let harness = start(Limits { wake_timeout: Duration::from_millis(50), ..LIMITS }, 0).await;
    ends(call(&harness).await).await;
    assert_eq!(harness.held(), 0);
}

#[tokio::test]
async fn a_pod_that_takes_no_connection_is_set_aside_and_another_is_taken() {
    // With a limit of 1 the first pod in order of address is tried first: nobody listens there.
    let harness = start(LIMITS, 1).await;
    let _pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    harness.pod_seen(OTHER_POD, true).await;
    echoes(&mut call(&harness).await, b"PING").await;
}

#[tokio::test]
async fn a_silent_connection_keeps_its_slot() {
    let harness = start(LIMITS, 1).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let first = call(&harness).await;
    eventually("it is placed", || async { pod.running() == 1 }).await;
    let mut second = call(&harness).await;
    harness.until_held(1).await;
    drop(first);
    echoes(&mut second, b"PING").await;
    assert_eq!(pod.most(), 1);
}

#[tokio::test]
async fn a_connection_pokes_when_it_comes_and_when_bytes_flow_again() {
    let harness = start(LIMITS, 0).await;
    let mut receiver = Receiver::start().await;
    harness.receivers.send_replace([receiver.address].into());
    // What came before it was told to nobody.
    eventually("the receiver is connected", || async {
        harness.metric("rouse_activator_push_connections") == 1.0
    })
    .await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut caller = call(&harness).await;
    let mut pokes = 0;
    // The first time the workload may be carried still.
    while pokes < 2 {
        echoes(&mut caller, b"PING").await;
        loop {
            let told = receiver.next().await.messages[0].stat.clone();
            pokes += u32::from((told.average_concurrent_requests, told.request_count) == (1.0, 1.0));
            if told.average_concurrent_requests == 0.0 {
                // The connection is there and silent.
                break;
            }
        }
    }
}

#[tokio::test]
async fn an_expected_probe_is_answered_and_neither_counted_nor_held() {
    let harness = start(LIMITS, 0).await;
    let path = format!("/leases/{}", harness.port);
    let announced = harness.tcp_probes.answer(&Method::GET, &path).unwrap();
    assert_eq!(announced.status(), StatusCode::OK);
    assert_eq!(announced.headers()["rouse-workload"], "shop/web");
    let mut probe = call(&harness).await;
    probe.write_all(TCP_PROBE).await.unwrap();
    let mut answer = String::new();
    within("the answer", probe.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "activator shop/web\r\n");
    assert_eq!(harness.metric(ENDED), 1.0);
}

#[tokio::test]
async fn a_stop_ends_what_rests_and_lets_what_runs_come_to_rest() {
    let harness = start(LIMITS, 0).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut caller = call(&harness).await;
    echoes(&mut caller, b"PING").await;
    harness.stop.cancel();
    // The grace of the drain takes new ones still; what it waits for is the silence after an
    // answer.
    within("the activator ends", harness.running).await.unwrap();
    ends(caller).await;
}
