//! A sidecar in front of an app that does not use HTTP: active and idle connections, and tunnels of
//! activators.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::{TCP_PROBE, TUNNEL_PATH, TUNNEL_PROTOCOL};
use http::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use proxy::client_stream::abort::Abort;
use support::reserved_address::ReservedAddress;
use support::{OTHER_UID, POD_UID, Sidecar, eventually, proxied, request, send, text, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TCP: &str = "--protocol=tcp";
const GREETING: &[u8] = b"220 ready\r\n";
/// Longer than a readiness probe keeps its connection open, on a busy machine as well.
const PROBE_TIME: Duration = Duration::from_millis(500);
const OPEN: &str = "rouse_queue_proxy_tcp_connections";
const IN_FLIGHT: &str = "rouse_queue_proxy_requests_in_flight";

/// An app whose connections the test holds.
struct RawApp(TcpListener);

impl RawApp {
    async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// The next connection of a client, after any readiness probes of the sidecar.
    async fn accept(&self) -> TcpStream {
        within(async {
            loop {
                let (stream, _) = self.0.accept().await.unwrap();
                // A probe closes its connection at once.
                let peeked = tokio::time::timeout(PROBE_TIME, stream.peek(&mut [0])).await;
                if peeked.map_or(true, |read| read.is_ok_and(|read| read > 0)) {
                    return stream;
                }
            }
        })
        .await
    }
}

/// Starts a sidecar and waits until its app is ready. A connection that waits for the app would
/// count as active, and would be dropped when its client closes the sending side.
async fn ready_sidecar(app: &RawApp, flags: &[&str]) -> Sidecar {
    let sidecar = Sidecar::start(app.address(), &[&[TCP], flags].concat()).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    sidecar
}

async fn call(sidecar: &Sidecar) -> TcpStream {
    within(TcpStream::connect(sidecar.at.traffic)).await.unwrap()
}

/// How a connection that is refused ends: the reset may arrive before `connect` returns.
async fn refusal(sidecar: &Sidecar) -> ErrorKind {
    let read = async || TcpStream::connect(sidecar.at.traffic).await?.read(&mut [0]).await;
    within(read()).await.unwrap_err().kind()
}

async fn expect_read(stream: &mut (impl AsyncRead + Unpin), bytes: &[u8]) {
    let mut received = vec![0; bytes.len()];
    within(stream.read_exact(&mut received)).await.unwrap();
    assert_eq!(received, bytes);
}

async fn ends(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    // A reset counts as an end.
    within(stream.read(&mut [0])).await.unwrap_or_default() == 0
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    within(stream.write_all(bytes)).await.unwrap();
}

async fn until(sidecar: &Sidecar, metric: &str, value: f64) {
    eventually(async || sidecar.metric(metric).await == value).await;
}

#[tokio::test]
async fn relays_servers_first_bytes_and_does_not_count_idle_connections() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &["--tcp-silence=100ms"]).await;
    let mut client = call(&sidecar).await;
    let mut served = app.accept().await;
    write(&mut served, GREETING).await;
    expect_read(&mut client, GREETING).await;
    assert_eq!(sidecar.metric(IN_FLIGHT).await, 0.0);
    for _ in 0..2 {
        write(&mut client, b"EHLO").await;
        expect_read(&mut served, b"EHLO").await;
        until(&sidecar, IN_FLIGHT, 1.0).await;
        write(&mut served, b"250").await;
        expect_read(&mut client, b"250").await;
        until(&sidecar, IN_FLIGHT, 0.0).await;
        assert_eq!(sidecar.metric(OPEN).await, 1.0);
    }
}

#[tokio::test]
async fn either_side_may_close_its_sending_direction() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &[]).await;
    let mut client = call(&sidecar).await;
    write(&mut client, b"all of it").await;
    client.shutdown().await.unwrap();
    let mut served = app.accept().await;
    let mut request_bytes = Vec::new();
    within(served.read_to_end(&mut request_bytes)).await.unwrap();
    assert_eq!(request_bytes, b"all of it");
    write(&mut served, b"answer").await;
    drop(served);
    let mut answer = Vec::new();
    within(client.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"answer");
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"served\"}", 1.0).await;
}

#[tokio::test]
async fn connections_queue_for_a_slot_and_leave_when_the_client_closes() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &["--container-concurrency=1", "--queue-depth=1"]).await;
    let mut first = call(&sidecar).await;
    write(&mut first, b"1").await;
    let mut served = app.accept().await;

    let mut closing = call(&sidecar).await;
    write(&mut closing, b"2").await;
    sidecar.holds(2.0, 1.0).await;
    assert_eq!(refusal(&sidecar).await, ErrorKind::ConnectionReset);
    drop(closing);
    sidecar.holds(1.0, 0.0).await;
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"cancelled\"}", 1.0).await;

    let mut second = call(&sidecar).await;
    write(&mut second, b"3").await;
    sidecar.holds(2.0, 1.0).await;
    expect_read(&mut served, b"1").await;
    drop((first, served));
    let mut served = app.accept().await;
    expect_read(&mut served, b"3").await;
    until(&sidecar, OPEN, 1.0).await;
}

#[tokio::test]
async fn connection_waits_for_the_apps_start() {
    let reserved = ReservedAddress::new();
    let sidecar = Sidecar::start(reserved.address(), &[TCP]).await;
    let mut early = call(&sidecar).await;
    write(&mut early, b"PING").await;
    sidecar.holds(1.0, 0.0).await;
    let app = RawApp(reserved.listen());
    let mut served = app.accept().await;
    expect_read(&mut served, b"PING").await;
    write(&mut served, b"PONG").await;
    expect_read(&mut early, b"PONG").await;
}

#[tokio::test]
async fn activator_path_probe_is_not_counted_and_does_not_reach_the_app() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &[]).await;
    let mut probe = call(&sidecar).await;
    write(&mut probe, TCP_PROBE).await;
    assert!(ends(&mut probe).await);
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"served\"}", 1.0).await;
    // The next bytes at the app are a client's.
    let mut client = call(&sidecar).await;
    write(&mut client, b"PING").await;
    expect_read(&mut app.accept().await, b"PING").await;
    until(&sidecar, IN_FLIGHT, 1.0).await;
}

fn tunnel_request(uid: &str) -> Request<http_body_util::Full<bytes::Bytes>> {
    let mut request_bytes = proxied(TUNNEL_PATH, uid);
    for (name, value) in [("connection", "upgrade"), ("upgrade", TUNNEL_PROTOCOL)] {
        request_bytes.headers_mut().insert(name, value.parse().unwrap());
    }
    request_bytes
}

#[tokio::test]
async fn activator_tunnel_on_the_admin_port_counts_as_proxied() {
    let reserved = ReservedAddress::new();
    let flags = [TCP, "--container-concurrency=1", "--pod-uid", POD_UID];
    let sidecar = Sidecar::start(reserved.address(), &flags).await;
    let mut probe = request("/");
    probe.headers_mut().insert("rouse-probe", "queue-proxy".parse().unwrap());
    let probed = tokio::spawn(send(sidecar.at.admin, probe));
    let opened = tokio::spawn(send(sidecar.at.admin, tunnel_request(POD_UID)));
    sidecar.holds(1.0, 0.0).await;
    assert!(!probed.is_finished() && !opened.is_finished(), "the app has not started");

    let app = RawApp(reserved.listen());
    assert_eq!(text(within(probed).await.unwrap()).await, "queue-proxy");
    let mut opened = within(opened).await.unwrap();
    assert_eq!(opened.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = TokioIo::new(within(hyper::upgrade::on(&mut opened)).await.unwrap());
    write(&mut tunnel, b"PING").await;
    let mut served = app.accept().await;
    expect_read(&mut served, b"PING").await;
    write(&mut served, b"PONG").await;
    expect_read(&mut tunnel, b"PONG").await;
    eventually(async || {
        let stat = sidecar.stat().await;
        stat.average_proxied_concurrent_requests == 1.0 && stat.average_concurrent_requests == 1.0
    })
    .await;

    let waiting = tokio::spawn(send(sidecar.at.admin, tunnel_request(POD_UID)));
    sidecar.holds(2.0, 1.0).await;
    assert!(!waiting.is_finished(), "the tunnel has no slot");
    drop(tunnel);
    assert_eq!(within(served.read(&mut [0])).await.unwrap(), 0);
    drop(served);
    assert_eq!(within(waiting).await.unwrap().status(), StatusCode::SWITCHING_PROTOCOLS);
}

#[tokio::test]
async fn tunnel_without_the_pods_uid_counts_as_direct_or_is_refused() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &["--pod-uid", POD_UID]).await;
    let refused = within(send(sidecar.at.admin, tunnel_request(OTHER_UID))).await;
    assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(refused.headers()["rouse-misdirected"], "pod");

    let mut opened = within(send(sidecar.at.admin, tunnel_request("activator"))).await;
    assert_eq!(opened.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = TokioIo::new(within(hyper::upgrade::on(&mut opened)).await.unwrap());
    write(&mut tunnel, b"PING").await;
    let mut served = app.accept().await;
    expect_read(&mut served, b"PING").await;
    eventually(async || {
        let stat = sidecar.stat().await;
        stat.average_proxied_concurrent_requests == 0.0 && stat.average_concurrent_requests == 1.0
    })
    .await;
}

#[tokio::test]
async fn rejects_tunnel_to_an_http_app_with_the_fix() {
    let app = RawApp::start().await;
    let sidecar = Sidecar::start(app.address(), &[]).await;
    let refused = within(send(sidecar.at.admin, tunnel_request(POD_UID))).await;
    assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
    assert!(text(refused).await.contains("autoscaling.rouse.dev/protocol: tcp"));
}

#[tokio::test]
async fn drain_waits_for_active_connections_and_closes_idle_ones() {
    let app = RawApp::start().await;
    let flags = [TCP, "--drain-quiet-period=300ms", "--tcp-silence=100ms"];
    let sidecar = Sidecar::start(app.address(), &flags).await;
    let mut idle = call(&sidecar).await;
    let _idle_app = app.accept().await;
    let mut running = call(&sidecar).await;
    write(&mut running, b"SELECT").await;
    let mut runs = app.accept().await;
    expect_read(&mut runs, b"SELECT").await;

    sidecar.stop.cancel();
    let mut late = call(&sidecar).await;
    write(&mut late, b"PING").await;
    let mut serves_late = app.accept().await;
    expect_read(&mut serves_late, b"PING").await;
    drop(serves_late);
    assert!(!sidecar.run.is_finished());
    write(&mut runs, b"1").await;
    expect_read(&mut running, b"1").await;
    within(sidecar.run).await.unwrap().unwrap();
    assert!(ends(&mut idle).await && ends(&mut running).await);
}

/// Without a byte, an orderly end would look like an empty answer.
#[tokio::test]
async fn connection_without_a_slot_is_reset() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &["--container-concurrency=1", "--queue-depth=0"]).await;
    let _first = call(&sidecar).await;
    let _served = app.accept().await;
    assert_eq!(refusal(&sidecar).await, ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn reset_of_app_or_client_stays_a_reset() {
    let app = RawApp::start().await;
    let sidecar = ready_sidecar(&app, &[]).await;
    for client_resets in [true, false] {
        let mut client = call(&sidecar).await;
        write(&mut client, b"GET").await;
        let mut served = app.accept().await;
        expect_read(&mut served, b"GET").await;
        write(&mut served, b"half").await;
        expect_read(&mut client, b"half").await;
        let (resets, mut other) = if client_resets { (client, served) } else { (served, client) };
        resets.abort();
        drop(resets);
        let error = within(other.read(&mut [0])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{client_resets}");
    }
}
