//! The sidecar's start and end: probes held open until the app listens, and a drain that loses nobody.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use support::app::TestApp;
use support::{Sidecar, eventually, request, send, text, within};
use tokio::net::TcpListener;

fn probe(of: &str) -> Request<Full<Bytes>> {
    let mut probe = request("/");
    probe.headers_mut().insert("rouse-probe", of.parse().unwrap());
    probe
}

/// An address that is free now, for an app that starts later.
async fn reserved() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn probe_readiness_and_early_requests_are_held_until_the_app_listens() {
    let address = reserved().await;
    let sidecar = Sidecar::start(address, &[]).await;
    let probed = tokio::spawn(send(sidecar.at.traffic, probe("queue-proxy")));
    let ready = tokio::spawn(send(sidecar.at.admin, request("/ready")));
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(1.0, 0.0).await;
    assert!(!probed.is_finished() && !ready.is_finished() && !early.is_finished());

    let _app = TestApp::on(TcpListener::bind(address).await.unwrap());
    let probed = within(probed).await.unwrap();
    assert_eq!(probed.status(), StatusCode::OK);
    assert_eq!(text(probed).await, "queue-proxy");
    assert_eq!(within(ready).await.unwrap().status(), StatusCode::OK);
    assert_eq!(text(within(early).await.unwrap()).await, "ok");
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"2xx\"}").await, 1.0);
}

#[tokio::test]
async fn a_queue_proxy_is_no_activator() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let answer = within(send(sidecar.at.traffic, probe("activator"))).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(text(answer).await.contains("queue-proxy"));
}

#[tokio::test]
async fn a_drain_serves_what_is_here_and_what_still_comes() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--drain-quiet-period=300ms"]).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;

    let hook = tokio::spawn(send(sidecar.at.admin, request("/wait-for-drain")));
    eventually(async || {
        send(sidecar.at.admin, request("/ready")).await.status() == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    let refused = within(send(sidecar.at.traffic, probe("queue-proxy"))).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let late = within(sidecar.get("/")).await;
    assert_eq!(late.headers()["connection"], "close");
    assert_eq!(text(late).await, "ok");
    assert!(!hook.is_finished());

    app.open(1);
    assert_eq!(text(within(running).await.unwrap()).await, "waited");
    assert_eq!(within(hook).await.unwrap().status(), StatusCode::OK);
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_signal_alone_drains_and_ends_the_process() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--drain-quiet-period=100ms"]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    sidecar.stop.cancel();
    eventually(async || sidecar.get("/").await.headers().contains_key("connection")).await;
    assert!(!sidecar.run.is_finished());
    app.open(1);
    assert_eq!(text(within(running).await.unwrap()).await, "waited");
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_drain_is_bounded() {
    let app = TestApp::start().await;
    let flags = ["--drain-quiet-period=10ms", "--drain-timeout=100ms"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    let _endless = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pod_that_stops_before_its_app_started_stops() {
    let sidecar = Sidecar::start(reserved().await, &["--drain-quiet-period=10ms"]).await;
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn after_a_restart_of_the_app_alone_the_sidecar_is_ready_again() {
    let app = TestApp::start().await;
    let flags = ["--drain-quiet-period=10ms", "--readiness-path=/healthz"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    assert_eq!(within(send(sidecar.at.admin, request("/wait-for-drain"))).await.status(), StatusCode::OK);
    app.fail(true);
    eventually(async || app.was_seen_failing()).await;
    let away = within(send(sidecar.at.admin, request("/ready"))).await;
    assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE);
    app.fail(false);
    eventually(async || send(sidecar.at.admin, request("/ready")).await.status() == StatusCode::OK).await;
    assert!(!within(sidecar.get("/")).await.headers().contains_key("connection"));
}

async fn app_ready(sidecar: &Sidecar) -> StatusCode {
    within(send(sidecar.at.admin, request("/app-ready"))).await.status()
}

#[tokio::test]
async fn an_app_that_turns_unready_is_said_to_be_and_comes_back() {
    let app = TestApp::start().await;
    let port = app.address.port();
    for probe in [
        format!(r#"{{"httpGet": {{"path": "/healthz", "port": {port}}}}}"#),
        format!(r#"{{"grpc": {{"port": {port}, "service": "web"}}}}"#),
    ] {
        let sidecar = Sidecar::start(app.address, &["--readiness-probe", &probe]).await;
        assert_eq!(app_ready(&sidecar).await, StatusCode::OK, "{probe}");
        app.fail(true);
        assert_eq!(app_ready(&sidecar).await, StatusCode::SERVICE_UNAVAILABLE, "{probe}");
        // What arrives all the same is the app's to answer.
        assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
        app.fail(false);
        assert_eq!(app_ready(&sidecar).await, StatusCode::OK, "{probe}");
    }
}

#[tokio::test]
async fn a_service_that_the_app_does_not_know_is_not_ready() {
    let app = TestApp::start().await;
    let probe = format!(r#"{{"grpc": {{"port": {}, "service": "other"}}}}"#, app.address.port());
    let sidecar = Sidecar::start(app.address, &["--readiness-probe", &probe]).await;
    let ready = tokio::spawn(send(sidecar.at.admin, request("/ready")));
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(1.0, 0.0).await;
    assert!(!ready.is_finished() && !early.is_finished());
}

#[tokio::test]
async fn an_app_that_crashes_is_waited_for_as_at_its_start() {
    let app = TestApp::start().await;
    let address = app.address;
    let sidecar = Sidecar::start(address, &[]).await;
    assert_eq!(app_ready(&sidecar).await, StatusCode::OK);
    drop(app);
    // Until somebody asks, the sidecar cannot know; the kubelet asks as soon as it has started the app again.
    eventually(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    let ready = tokio::spawn(send(sidecar.at.admin, request("/app-ready")));
    eventually(async || {
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), sidecar.get("/")).await;
        early.is_err()
    })
    .await;
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    assert!(!ready.is_finished());
    let _app = TestApp::on(TcpListener::bind(address).await.unwrap());
    assert_eq!(within(ready).await.unwrap().status(), StatusCode::OK);
    assert_eq!(text(within(early).await.unwrap()).await, "ok");
}

#[tokio::test]
async fn a_probe_that_cannot_be_asked_ends_the_start_with_the_reason() {
    let any = "127.0.0.1:0";
    let probe = r#"{"httpGet": {"port": "http"}}"#;
    let flags = ["--listen", any, "--stats-listen", any, "--admin-listen", any, "--readiness-probe", probe];
    let args = <queue_proxy::Args as clap::Parser>::parse_from(["queue-proxy"].iter().chain(&flags));
    let app = queue_proxy::App::bind(args).await.unwrap();
    let error = within(app.run(Default::default())).await.unwrap_err();
    assert!(format!("{error:#}").contains("must be a number"), "{error:#}");
}

/// A caller of HTTP/2 as gRPC makes them: one connection, and another when that takes no more.
struct Http2Caller {
    to: SocketAddr,
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    connections: usize,
}

impl Http2Caller {
    async fn new(to: SocketAddr) -> Self {
        Self { to, sender: Self::connect(to).await, connections: 1 }
    }

    async fn connect(to: SocketAddr) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(tokio::net::TcpStream::connect(to).await.unwrap());
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn call(&mut self, path: &str) -> hyper::Result<hyper::Response<hyper::body::Incoming>> {
        let mut asked = Request::get(format!("http://web.example{path}")).body(Full::default()).unwrap();
        loop {
            match self.sender.try_send_request(asked).await {
                Ok(response) => return Ok(response),
                // It was never sent, so it is safe to send it elsewhere.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => asked = unsent,
                    None => return Err(error.into_error()),
                },
            }
            self.sender = Self::connect(self.to).await;
            self.connections += 1;
        }
    }
}

#[tokio::test]
async fn a_caller_with_one_long_connection_leaves_during_the_drain_and_loses_nothing() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--drain-quiet-period=300ms"]).await;
    let mut caller = Http2Caller::new(sidecar.at.traffic).await;
    for _ in 0..3 {
        assert_eq!(text(within(caller.call("/")).await.unwrap()).await, "ok");
    }
    assert_eq!(caller.connections, 1);
    let streaming = within(caller.call("/slow-body")).await.unwrap();
    let waiting =
        caller.sender.send_request(Request::get("http://web.example/wait").body(Full::default()).unwrap());
    let waiting = tokio::spawn(waiting);
    sidecar.holds(2.0, 0.0).await;

    let hook = tokio::spawn(send(sidecar.at.admin, request("/wait-for-drain")));
    eventually(async || {
        send(sidecar.at.admin, request("/ready")).await.status() == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    // Told by the next response, it goes, and comes back as long as it knows of no other pod.
    within(async {
        while caller.connections < 3 {
            assert_eq!(text(caller.call("/").await.unwrap()).await, "ok");
        }
    })
    .await;
    // What was on its way over the old connection ends there.
    app.open(2);
    assert_eq!(text(within(waiting).await.unwrap().unwrap()).await, "waited");
    assert_eq!(text(streaming).await, "beginend");
    assert_eq!(within(hook).await.unwrap().status(), StatusCode::OK);
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}
