//! TCP connections: held, relayed, counted while bytes flow, and distinguished from the probes of
//! the zero-scaler.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::io::ErrorKind;
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
    // The connection that waited for the port to open.
    eventually("the first connection has ended", || async { harness.metric(ENDED) == 1.0 }).await;
    harness
}

async fn connect(harness: &Harness) -> TcpStream {
    within("a connection", TcpStream::connect(("127.0.0.1", harness.port))).await.unwrap()
}

/// Sends data to an app that echoes it.
async fn echoes(stream: &mut TcpStream, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    receives(stream, bytes).await;
}

async fn receives(stream: &mut TcpStream, bytes: &[u8]) {
    let mut received = vec![0; bytes.len()];
    within("an echo", stream.read_exact(&mut received)).await.unwrap();
    assert_eq!(received, bytes);
}

async fn ends(mut stream: TcpStream) {
    let read = within("the end", stream.read(&mut [0])).await;
    assert_eq!(read.unwrap_or_default(), 0);
}

#[tokio::test]
async fn holds_connection_without_data_loss_until_pod_answers_probe() {
    let harness = start(LIMITS, 0).await;
    let mut client = connect(&harness).await;
    client.write_all(b"SELECT 1").await.unwrap();
    harness.until_held(1).await;
    let pod = FakePod::start(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    eventually("the pod is probed", || async { pod.probes() > 0 }).await;
    assert_eq!(pod.served(), 0);

    pod.becomes_ready();
    receives(&mut client, b"SELECT 1").await;
    assert_eq!((harness.held(), pod.running()), (0, 1));
    client.write_all(b"and the end").await.unwrap();
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    within("the end", client.read_to_string(&mut rest)).await.unwrap();
    assert_eq!(rest, "and the end");
    eventually("the connection to the pod has ended", || async { pod.running() == 0 }).await;
}

#[tokio::test]
async fn disconnected_client_leaves_the_queue_with_or_without_data() {
    let harness = start(Limits { queue_depth: 1, ..LIMITS }, 0).await;
    for data in [b"".as_slice(), b"AUTH"] {
        let mut client = connect(&harness).await;
        client.write_all(data).await.unwrap();
        harness.until_held(1).await;
        // The reset may arrive before the connection is established.
        if let Ok(refused) = TcpStream::connect(("127.0.0.1", harness.port)).await {
            ends(refused).await;
        }
        drop(client);
        harness.until_held(0).await;
    }
}

#[tokio::test]
async fn resets_connection_after_the_wake_timeout() {
    let harness = start(Limits { wake_timeout: Duration::from_millis(50), ..LIMITS }, 0).await;
    let mut client = connect(&harness).await;
    let error = within("the end", client.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    harness.until_held(0).await;
}

#[tokio::test]
async fn ejects_pod_that_refuses_and_connects_to_another() {
    // With a limit of 1 the pod with the lowest address is tried first, which has no listener.
    let harness = start(LIMITS, 1).await;
    let _pod = FakePod::ready(OTHER_POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    harness.pod_seen(OTHER_POD, true).await;
    echoes(&mut connect(&harness).await, b"PING").await;
}

#[tokio::test]
async fn silent_connection_keeps_its_slot() {
    let harness = start(LIMITS, 1).await;
    let pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let first = connect(&harness).await;
    eventually("it is placed", || async { pod.running() == 1 }).await;
    let mut second = connect(&harness).await;
    harness.until_held(1).await;
    drop(first);
    echoes(&mut second, b"PING").await;
    assert_eq!(pod.most(), 1);
}

#[tokio::test]
async fn connection_pokes_on_arrival_and_when_bytes_flow_again() {
    let harness = start(LIMITS, 0).await;
    let mut receiver = Receiver::start().await;
    harness.receivers.send_replace([receiver.address].into());
    // Reports before that have no receiver.
    eventually("the receiver is connected", || async {
        harness.metric("rouse_activator_push_connections") == 1.0
    })
    .await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut client = connect(&harness).await;
    let mut pokes = 0;
    // In the first round the workload may still be reported, so that it does not poke.
    while pokes < 2 {
        echoes(&mut client, b"PING").await;
        loop {
            let stat = receiver.next().await.messages[0].stat.clone();
            pokes += u32::from((stat.average_concurrent_requests, stat.request_count) == (1.0, 1.0));
            if stat.average_concurrent_requests == 0.0 {
                // The connection is open and silent.
                break;
            }
        }
    }
}

#[tokio::test]
async fn answers_announced_probe_without_counting_or_holding_it() {
    let harness = start(LIMITS, 0).await;
    let path = format!("/leases/{}", harness.port);
    let announced = harness.tcp_probes.answer(&Method::GET, &path).unwrap();
    assert_eq!(announced.status(), StatusCode::OK);
    assert_eq!(announced.headers()["rouse-workload"], "shop/web");
    let mut probe = connect(&harness).await;
    probe.write_all(TCP_PROBE).await.unwrap();
    let mut answer = String::new();
    within("the answer", probe.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "activator shop/web\r\n");
    assert_eq!(harness.metric(ENDED), 1.0);
}

#[tokio::test]
async fn stop_waits_for_active_connections_to_become_silent() {
    let harness = start(LIMITS, 0).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, true).await;
    let mut client = connect(&harness).await;
    echoes(&mut client, b"PING").await;
    harness.stop.cancel();
    // The drain waits until the connection is silent after a response.
    within("the activator ends", harness.running).await.unwrap();
    ends(client).await;
}
