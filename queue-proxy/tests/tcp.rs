//! A sidecar in front of an app that does not speak HTTP: real connections, silent ones, and those of activators.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::{TCP_PROBE, TUNNEL_PATH, TUNNEL_PROTOCOL};
use autoscaler::stats::Stat;
use http::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use support::{Sidecar, eventually, request, send, text, within};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const TCP: &str = "--protocol=tcp";
const GREETING: &[u8] = b"220 ready\r\n";
/// Longer than the sidecar keeps a connection by which it only asks, on a busy machine too.
const MOMENT: Duration = Duration::from_millis(500);
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

    /// The next connection with a caller behind it. Others are the sidecar's own questions whether the app is there.
    async fn accept(&self) -> TcpStream {
        within(async {
            loop {
                let (stream, _) = self.0.accept().await.unwrap();
                // Who only asks has closed already, or does so at once.
                let looked = tokio::time::timeout(MOMENT, stream.peek(&mut [0])).await;
                if looked.map_or(true, |read| read.is_ok_and(|read| read > 0)) {
                    return stream;
                }
            }
        })
        .await
    }
}

/// It has found the app to be there: who has to wait for that counts meanwhile, and leaves if it ends its side.
async fn sidecar_of(app: &RawApp, flags: &[&str]) -> Sidecar {
    let sidecar = Sidecar::start(app.address(), &[&[TCP], flags].concat()).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    sidecar
}

async fn call(sidecar: &Sidecar) -> TcpStream {
    within(TcpStream::connect(sidecar.at.traffic)).await.unwrap()
}

async fn hears(stream: &mut (impl AsyncRead + Unpin), bytes: &[u8]) {
    let mut heard = vec![0; bytes.len()];
    within(stream.read_exact(&mut heard)).await.unwrap();
    assert_eq!(heard, bytes);
}

async fn ends(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    // A reset is an end as well.
    within(stream.read(&mut [0])).await.unwrap_or_default() == 0
}

async fn says(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    within(stream.write_all(bytes)).await.unwrap();
}

async fn until(sidecar: &Sidecar, metric: &str, value: f64) {
    eventually(async || sidecar.metric(metric).await == value).await;
}

#[tokio::test]
async fn an_app_that_speaks_first_is_heard_and_a_silent_connection_is_no_load() {
    let app = RawApp::start().await;
    let sidecar = sidecar_of(&app, &["--tcp-silence=100ms"]).await;
    let mut caller = call(&sidecar).await;
    let mut served = app.accept().await;
    says(&mut served, GREETING).await;
    hears(&mut caller, GREETING).await;
    assert_eq!(sidecar.metric(IN_FLIGHT).await, 0.0);
    for _ in 0..2 {
        says(&mut caller, b"EHLO").await;
        hears(&mut served, b"EHLO").await;
        until(&sidecar, IN_FLIGHT, 1.0).await;
        says(&mut served, b"250").await;
        hears(&mut caller, b"250").await;
        until(&sidecar, IN_FLIGHT, 0.0).await;
        assert_eq!(sidecar.metric(OPEN).await, 1.0);
    }
}

#[tokio::test]
async fn either_side_may_end_and_listen_on() {
    let app = RawApp::start().await;
    let sidecar = sidecar_of(&app, &[]).await;
    let mut caller = call(&sidecar).await;
    says(&mut caller, b"all of it").await;
    caller.shutdown().await.unwrap();
    let mut served = app.accept().await;
    let mut asked = Vec::new();
    within(served.read_to_end(&mut asked)).await.unwrap();
    assert_eq!(asked, b"all of it");
    says(&mut served, b"answer").await;
    drop(served);
    let mut answer = Vec::new();
    within(caller.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"answer");
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"served\"}", 1.0).await;
}

#[tokio::test]
async fn connections_wait_for_a_slot_in_a_bounded_queue_and_who_hangs_up_leaves_it() {
    let app = RawApp::start().await;
    let sidecar = sidecar_of(&app, &["--container-concurrency=1", "--queue-depth=1"]).await;
    let mut first = call(&sidecar).await;
    says(&mut first, b"1").await;
    let mut served = app.accept().await;

    let mut impatient = call(&sidecar).await;
    says(&mut impatient, b"2").await;
    sidecar.holds(2.0, 1.0).await;
    let mut too_many = call(&sidecar).await;
    assert!(ends(&mut too_many).await);
    drop(impatient);
    sidecar.holds(1.0, 0.0).await;
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"cancelled\"}", 1.0).await;

    let mut second = call(&sidecar).await;
    says(&mut second, b"3").await;
    sidecar.holds(2.0, 1.0).await;
    hears(&mut served, b"1").await;
    drop((first, served));
    let mut served = app.accept().await;
    hears(&mut served, b"3").await;
    until(&sidecar, OPEN, 1.0).await;
}

#[tokio::test]
async fn a_connection_waits_for_the_apps_start() {
    let address = RawApp::start().await.address();
    let sidecar = Sidecar::start(address, &[TCP]).await;
    let mut early = call(&sidecar).await;
    says(&mut early, b"PING").await;
    sidecar.holds(1.0, 0.0).await;
    let app = RawApp(TcpListener::bind(address).await.unwrap());
    let mut served = app.accept().await;
    hears(&mut served, b"PING").await;
    says(&mut served, b"PONG").await;
    hears(&mut early, b"PONG").await;
}

#[tokio::test]
async fn the_zero_scalers_probe_is_neither_counted_nor_seen_by_the_app() {
    let app = RawApp::start().await;
    let sidecar = sidecar_of(&app, &[]).await;
    let mut probe = call(&sidecar).await;
    says(&mut probe, TCP_PROBE).await;
    assert!(ends(&mut probe).await);
    until(&sidecar, "rouse_queue_proxy_tcp_connections_total{outcome=\"served\"}", 1.0).await;
    // The next that the app is asked is somebody's question.
    let mut caller = call(&sidecar).await;
    says(&mut caller, b"PING").await;
    hears(&mut app.accept().await, b"PING").await;
    until(&sidecar, IN_FLIGHT, 1.0).await;
}

fn tunnel_request() -> Request<http_body_util::Full<bytes::Bytes>> {
    let mut asked = request(TUNNEL_PATH);
    for (name, value) in
        [("connection", "upgrade"), ("upgrade", TUNNEL_PROTOCOL), ("rouse-proxied", "activator")]
    {
        asked.headers_mut().insert(name, value.parse().unwrap());
    }
    asked
}

#[tokio::test]
async fn an_activators_connection_comes_by_the_admin_port_and_is_told_apart() {
    let address = RawApp::start().await.address();
    let sidecar = Sidecar::start(address, &[TCP, "--container-concurrency=1"]).await;
    let mut probe = request("/");
    probe.headers_mut().insert("rouse-probe", "queue-proxy".parse().unwrap());
    let probed = tokio::spawn(send(sidecar.at.admin, probe));
    let opened = tokio::spawn(send(sidecar.at.admin, tunnel_request()));
    sidecar.holds(1.0, 0.0).await;
    assert!(!probed.is_finished() && !opened.is_finished(), "the app has not started");

    let app = RawApp(TcpListener::bind(address).await.unwrap());
    assert_eq!(text(within(probed).await.unwrap()).await, "queue-proxy");
    let mut opened = within(opened).await.unwrap();
    assert_eq!(opened.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut tunnel = TokioIo::new(within(hyper::upgrade::on(&mut opened)).await.unwrap());
    says(&mut tunnel, b"PING").await;
    let mut served = app.accept().await;
    hears(&mut served, b"PING").await;
    says(&mut served, b"PONG").await;
    hears(&mut tunnel, b"PONG").await;
    eventually(async || {
        let told = text(send(sidecar.at.stats, request("/stat")).await).await;
        let stat: Stat = serde_json::from_str(&told).unwrap_or_default();
        stat.average_proxied_concurrent_requests == 1.0 && stat.average_concurrent_requests == 1.0
    })
    .await;

    let waiting = tokio::spawn(send(sidecar.at.admin, tunnel_request()));
    sidecar.holds(2.0, 1.0).await;
    assert!(!waiting.is_finished(), "it has no slot");
    drop(tunnel);
    assert_eq!(within(served.read(&mut [0])).await.unwrap(), 0);
    drop(served);
    assert_eq!(within(waiting).await.unwrap().status(), StatusCode::SWITCHING_PROTOCOLS);
}

#[tokio::test]
async fn a_sidecar_that_speaks_http_says_what_to_do_about_a_tunnel() {
    let app = RawApp::start().await;
    let sidecar = Sidecar::start(app.address(), &[]).await;
    let refused = within(send(sidecar.at.admin, tunnel_request())).await;
    assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
    assert!(text(refused).await.contains("autoscaling.rouse.dev/protocol: tcp"));
}

#[tokio::test]
async fn a_drain_takes_new_connections_waits_for_those_that_run_and_ends_those_that_rest() {
    let app = RawApp::start().await;
    let flags = [TCP, "--drain-quiet-period=300ms", "--tcp-silence=100ms"];
    let sidecar = Sidecar::start(app.address(), &flags).await;
    let mut resting = call(&sidecar).await;
    let _rests = app.accept().await;
    let mut running = call(&sidecar).await;
    says(&mut running, b"SELECT").await;
    let mut runs = app.accept().await;
    hears(&mut runs, b"SELECT").await;

    sidecar.stop.cancel();
    let mut late = call(&sidecar).await;
    says(&mut late, b"PING").await;
    let mut serves_late = app.accept().await;
    hears(&mut serves_late, b"PING").await;
    drop(serves_late);
    assert!(!sidecar.run.is_finished());
    says(&mut runs, b"1").await;
    hears(&mut running, b"1").await;
    within(sidecar.run).await.unwrap().unwrap();
    assert!(ends(&mut resting).await && ends(&mut running).await);
}
