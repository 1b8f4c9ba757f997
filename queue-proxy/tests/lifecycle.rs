//! The sidecar's start and end: probes that wait for the app's start, and a drain that loses no
//! request.

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
use clap::Parser;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use queue_proxy::{App, Args, start_drain};
use support::app::TestApp;
use support::reserved_address::ReservedAddress;
use support::{OTHER_UID, POD_UID, Sidecar, eventually, request, send, text, within};
use tokio::net::TcpSocket;
use tokio_util::sync::CancellationToken;

fn probe(of: &str) -> Request<Full<Bytes>> {
    let mut probe = request("/");
    probe.headers_mut().insert("rouse-probe", of.parse().unwrap());
    probe
}

#[tokio::test]
async fn holds_probe_readiness_and_early_requests_until_the_app_listens() {
    let reserved = ReservedAddress::new();
    let sidecar = Sidecar::start(reserved.address(), &[]).await;
    let probed = tokio::spawn(send(sidecar.at.traffic, probe("queue-proxy")));
    let ready = tokio::spawn(send(sidecar.at.admin, request("/ready")));
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(1.0, 0.0).await;
    assert!(!probed.is_finished() && !ready.is_finished() && !early.is_finished());

    let _app = TestApp::on(reserved.listen());
    let probed = within(probed).await.unwrap();
    assert_eq!(probed.status(), StatusCode::OK);
    assert_eq!(text(probed).await, "queue-proxy");
    assert_eq!(within(ready).await.unwrap().status(), StatusCode::OK);
    assert_eq!(text(within(early).await.unwrap()).await, "ok");
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"2xx\"}").await, 1.0);
}

#[tokio::test]
async fn idle_connections_of_another_pod_leave_room_for_probes() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    for (port, path) in [(sidecar.at.admin, "/live"), (sidecar.at.stats, "/metrics")] {
        let mut idle = Vec::new();
        for _ in 0..150 {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 2], 0).into()).unwrap();
            idle.push(socket.connect(port).await.unwrap());
        }
        assert_eq!(within(send(port, request(path))).await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn rejects_probe_for_an_activator() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let answer = within(send(sidecar.at.traffic, probe("activator"))).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert!(text(answer).await.contains("queue-proxy"));
}

#[tokio::test]
async fn serves_running_and_new_requests_during_a_drain() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--drain-quiet-period=300ms"]).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;

    let hook = tokio::spawn(send(sidecar.at.admin, request("/wait-for-drain")));
    within(start_drain(sidecar.at.admin, None)).await.unwrap();
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
async fn wait_for_drain_of_another_pod_leaves_the_pod_ready() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    let waited = within(send(sidecar.at.admin, request("/wait-for-drain"))).await;
    assert_eq!(waited.status(), StatusCode::OK);
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    assert!(!within(sidecar.get("/")).await.headers().contains_key("connection"));
}

#[tokio::test]
async fn drain_is_started_with_the_uid_of_the_pod_alone() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--pod-uid", POD_UID]).await;
    let mut webhook =
        Request::post("/start-drain").header("host", "hooks.example").body(Full::default()).unwrap();
    assert_eq!(within(send(sidecar.at.admin, webhook.clone())).await.status(), StatusCode::FORBIDDEN);
    webhook.headers_mut().insert("rouse-start-drain", OTHER_UID.parse().unwrap());
    assert_eq!(within(send(sidecar.at.admin, webhook)).await.status(), StatusCode::FORBIDDEN);
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    within(start_drain(sidecar.at.admin, Some(POD_UID.parse().unwrap()))).await.unwrap();
    let draining = within(send(sidecar.at.admin, request("/ready"))).await;
    assert_eq!(draining.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn refuses_to_start_in_front_of_itself() {
    let free = ReservedAddress::new().address();
    let address = free.to_string();
    for (flag, upstream) in [
        ("--listen", address.clone()),
        ("--admin-listen", address.clone()),
        ("--stats-listen", format!("0.0.0.0:{}", free.port())),
        ("--listen", format!("[::ffff:127.0.0.1]:{}", free.port())),
    ] {
        // The port was free a moment ago, and nothing else is known to take it.
        let any = ["--listen", "--stats-listen", "--admin-listen"].into_iter().filter(|other| *other != flag);
        let any = any.flat_map(|other| [other, "127.0.0.1:0"]);
        let flags = ["queue-proxy", "--upstream", &upstream, flag, &address].into_iter().chain(any);
        let app = App::bind(Args::parse_from(flags)).await.unwrap();
        let error = within(app.run(CancellationToken::new())).await.unwrap_err().to_string();
        assert!(error.contains("is the sidecar's own; set --app-port"), "{error}");
    }
}

#[tokio::test]
async fn start_drain_fails_without_a_sidecar() {
    let closed = ReservedAddress::new();
    let error = within(start_drain(closed.address(), None)).await.unwrap_err();
    assert!(format!("{error:#}").contains("no response of the sidecar"), "{error:#}");
}

#[tokio::test]
async fn drains_and_ends_after_a_signal_without_hook() {
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
async fn ends_drain_at_its_timeout() {
    let app = TestApp::start().await;
    let flags = ["--drain-quiet-period=10ms", "--drain-timeout=100ms"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    let _endless = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn stops_before_the_app_has_started() {
    let closed = ReservedAddress::new();
    let sidecar = Sidecar::start(closed.address(), &["--drain-quiet-period=10ms"]).await;
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}

#[tokio::test]
async fn serves_again_if_the_app_restarts_after_a_drain() {
    let app = TestApp::start().await;
    let flags = ["--drain-quiet-period=10ms", "--readiness-path=/healthz"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    within(start_drain(sidecar.at.admin, None)).await.unwrap();
    assert_eq!(within(send(sidecar.at.admin, request("/wait-for-drain"))).await.status(), StatusCode::OK);
    app.fail(true);
    eventually(async || app.has_failed_probe()).await;
    let draining = within(send(sidecar.at.admin, request("/ready"))).await;
    assert_eq!(draining.status(), StatusCode::SERVICE_UNAVAILABLE);
    app.fail(false);
    eventually(async || send(sidecar.at.admin, request("/ready")).await.status() == StatusCode::OK).await;
    assert!(!within(sidecar.get("/")).await.headers().contains_key("connection"));
}

async fn app_ready(sidecar: &Sidecar) -> StatusCode {
    within(send(sidecar.at.admin, request("/app-ready"))).await.status()
}

#[tokio::test]
async fn reports_app_that_becomes_unready_and_ready_again() {
    let app = TestApp::start().await;
    let port = app.address.port();
    for probe in [
        format!(r#"{{"httpGet": {{"path": "/healthz", "port": {port}}}}}"#),
        format!(r#"{{"grpc": {{"port": {port}, "service": "web"}}}}"#),
    ] {
        let sidecar = Sidecar::start(app.address, &["--readiness-probe", &probe]).await;
        assert_eq!(app_ready(&sidecar).await, StatusCode::OK, "{probe}");
        app.fail(true);
        eventually(async || app_ready(&sidecar).await == StatusCode::SERVICE_UNAVAILABLE).await;
        // Requests are forwarded to an unready app.
        assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
        app.fail(false);
        eventually(async || app_ready(&sidecar).await == StatusCode::OK).await;
    }
}

#[tokio::test]
async fn is_not_ready_if_the_app_lacks_the_grpc_service() {
    let app = TestApp::start().await;
    let probe = format!(r#"{{"grpc": {{"port": {}, "service": "other"}}}}"#, app.address.port());
    let sidecar = Sidecar::start(app.address, &["--readiness-probe", &probe]).await;
    let ready = tokio::spawn(send(sidecar.at.admin, request("/ready")));
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(1.0, 0.0).await;
    assert!(!ready.is_finished() && !early.is_finished());
}

#[tokio::test]
async fn holds_requests_during_a_crash_of_the_app() {
    let reserved = ReservedAddress::new();
    let address = reserved.address();
    let app = TestApp::on(reserved.listen());
    let sidecar = Sidecar::start(address, &[]).await;
    assert_eq!(within(send(sidecar.at.admin, request("/ready"))).await.status(), StatusCode::OK);
    drop(app);
    // The sidecar detects the crash with the next probe.
    eventually(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    let ready = tokio::spawn(send(sidecar.at.admin, request("/app-ready")));
    eventually(async || {
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), sidecar.get("/")).await;
        early.is_err()
    })
    .await;
    let early = tokio::spawn(send(sidecar.at.traffic, request("/")));
    assert!(!ready.is_finished());
    let _app = TestApp::on(reserved.listen());
    assert_eq!(within(ready).await.unwrap().status(), StatusCode::OK);
    assert_eq!(text(within(early).await.unwrap()).await, "ok");
}

#[tokio::test]
async fn fails_to_start_with_an_unsupported_probe() {
    let any = "127.0.0.1:0";
    let probe = r#"{"httpGet": {"port": "http"}}"#;
    let flags = ["--listen", any, "--stats-listen", any, "--admin-listen", any, "--readiness-probe", probe];
    let args = <queue_proxy::Args as clap::Parser>::parse_from(["queue-proxy"].iter().chain(&flags));
    let app = queue_proxy::App::bind(args).await.unwrap();
    let error = within(app.run(Default::default())).await.unwrap_err();
    assert!(format!("{error:#}").contains("must be a number"), "{error:#}");
}

/// An HTTP/2 client as gRPC libraries have it: one connection, replaced when it accepts no request.
struct Http2Client {
    to: SocketAddr,
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    connections: usize,
}

impl Http2Client {
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
        let mut request = Request::get(format!("http://web.example{path}")).body(Full::default()).unwrap();
        loop {
            match self.sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                // It was never sent, so it is safe to send it on another connection.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error()),
                },
            }
            self.sender = Self::connect(self.to).await;
            self.connections += 1;
        }
    }
}

#[tokio::test]
async fn moves_long_http2_connection_away_during_a_drain_without_loss() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--drain-quiet-period=300ms"]).await;
    let mut client = Http2Client::new(sidecar.at.traffic).await;
    for _ in 0..3 {
        assert_eq!(text(within(client.call("/")).await.unwrap()).await, "ok");
    }
    assert_eq!(client.connections, 1);
    let streaming = within(client.call("/slow-body")).await.unwrap();
    let waiting =
        client.sender.send_request(Request::get("http://web.example/wait").body(Full::default()).unwrap());
    let waiting = tokio::spawn(waiting);
    sidecar.holds(2.0, 0.0).await;

    let hook = tokio::spawn(send(sidecar.at.admin, request("/wait-for-drain")));
    within(start_drain(sidecar.at.admin, None)).await.unwrap();
    eventually(async || {
        send(sidecar.at.admin, request("/ready")).await.status() == StatusCode::SERVICE_UNAVAILABLE
    })
    .await;
    // GOAWAY closes the connection, and the client reconnects, because it has no other pod.
    within(async {
        while client.connections < 3 {
            assert_eq!(text(client.call("/").await.unwrap()).await, "ok");
        }
    })
    .await;
    // Requests of the old connection complete on it.
    app.open(2);
    assert_eq!(text(within(waiting).await.unwrap().unwrap()).await, "waited");
    assert_eq!(text(streaming).await, "beginend");
    assert_eq!(within(hook).await.unwrap().status(), StatusCode::OK);
    sidecar.stop.cancel();
    within(sidecar.run).await.unwrap().unwrap();
}
