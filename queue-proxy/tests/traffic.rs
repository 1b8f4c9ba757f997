//! Requests through the sidecar: headers, bodies, limits, and how long a request counts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, channel::mpsc};
use http::{Request, StatusCode, Version};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper_util::rt::TokioIo;
use support::app::TestApp;
use support::reserved_address::ReservedAddress;
use support::{OTHER_UID, POD_UID, Sidecar, eventually, proxied, request, send, text, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn forwards_request_without_internal_and_hop_by_hop_headers() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let mut to_send = request("/headers?a=b");
    for (name, value) in [
        ("rouse-proxied", "activator"),
        ("rouse-activator", "10.0.0.9"),
        ("rouse-workload", "shop/web"),
        ("rouse-misdirected", "pod"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("x-forwarded-for", "10.1.2.3"),
        ("x-mine", "kept"),
    ] {
        to_send.headers_mut().insert(name, value.parse().unwrap());
    }
    let seen = text(within(send(sidecar.at.traffic, to_send)).await).await;
    for expected in ["HTTP/1.1", "web.example", "10.1.2.3, 127.0.0.1", "kept", "x-forwarded-proto"] {
        assert!(seen.contains(expected), "{expected} is not in {seen}");
    }
    for removed in ["rouse-", "x-hop"] {
        assert!(!seen.contains(removed), "{removed} is in {seen}");
    }
}

#[tokio::test]
async fn forwards_http2_requests_by_http2() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    for _ in 0..2 {
        let to_send = Request::get("http://web.example/headers")
            .version(Version::HTTP_2)
            .header("te", "trailers")
            .body(Full::default())
            .unwrap();
        let seen = text(within(send(sidecar.at.traffic, to_send)).await).await;
        assert!(seen.starts_with("HTTP/2.0"), "{seen}");
        assert!(seen.contains("trailers"), "{seen}");
    }
}

#[tokio::test]
async fn streams_bodies_in_both_directions() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let stream = TcpStream::connect(sidecar.at.traffic).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (mut upload, parts) = mpsc::channel::<Result<Frame<Bytes>, std::io::Error>>(1);
    let to_send = Request::post("/echo").header("host", "x").body(StreamBody::new(parts)).unwrap();
    let response = tokio::spawn(sender.send_request(to_send));
    upload.send(Ok(Frame::data(Bytes::from("first")))).await.unwrap();
    let mut response = within(response).await.unwrap().unwrap();
    // Each part comes back before the next is sent.
    for part in ["first", "second", "third"] {
        if part != "first" {
            upload.send(Ok(Frame::data(Bytes::from(part)))).await.unwrap();
        }
        let frame = within(response.frame()).await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), part);
    }
    drop(upload);
    assert!(within(response.frame()).await.is_none());
}

#[tokio::test]
async fn rejects_request_beyond_limit_and_queue() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1", "--queue-depth=1"]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    let queued = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(2.0, 1.0).await;

    let refused = within(sidecar.get("/wait")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["content-type"], "application/problem+json");
    assert!(text(refused).await.contains("queue is full"));

    app.open(2);
    for served in [running, queued] {
        assert_eq!(text(within(served).await.unwrap()).await, "waited");
    }
    sidecar.holds(0.0, 0.0).await;
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"2xx\"}").await, 2.0);
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"5xx\"}").await, 1.0);
}

#[tokio::test]
async fn closed_clients_release_their_slot_and_queue_place() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1", "--queue-depth=1"]).await;
    let mut clients = Vec::new();
    for here in 1..=2 {
        let mut client = TcpStream::connect(sidecar.at.traffic).await.unwrap();
        client.write_all(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        clients.push(client);
        sidecar.holds(f64::from(here), f64::from(here - 1)).await;
    }
    drop(clients.pop());
    sidecar.holds(1.0, 0.0).await;
    drop(clients);
    sidecar.holds(0.0, 0.0).await;
    assert_eq!(sidecar.metric("rouse_queue_proxy_requests_total{code_class=\"cancelled\"}").await, 2.0);
    assert_eq!(text(within(sidecar.get("/")).await).await, "ok");
}

#[tokio::test]
async fn request_counts_until_its_body_ends() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1", "--queue-depth=1"]).await;
    let mut slow = within(sidecar.get("/slow-body")).await;
    assert_eq!(within(slow.frame()).await.unwrap().unwrap().into_data().unwrap(), "begin");
    sidecar.holds(1.0, 0.0).await;
    let queued = tokio::spawn(send(sidecar.at.traffic, request("/")));
    sidecar.holds(2.0, 1.0).await;
    app.open(1);
    assert_eq!(within(slow.frame()).await.unwrap().unwrap().into_data().unwrap(), "end");
    assert_eq!(text(within(queued).await.unwrap()).await, "ok");
    sidecar.holds(0.0, 0.0).await;
}

#[tokio::test]
async fn client_that_drops_the_body_ends_the_request() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let mut client = TcpStream::connect(sidecar.at.traffic).await.unwrap();
    client.write_all(b"GET /slow-body HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    within(client.read_u8()).await.unwrap();
    sidecar.holds(1.0, 0.0).await;
    drop(client);
    sidecar.holds(0.0, 0.0).await;
}

#[tokio::test]
async fn upgraded_connection_counts_until_it_closes() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &[]).await;
    let mut to_send = request("/upgrade");
    to_send.headers_mut().insert("connection", "Upgrade".parse().unwrap());
    to_send.headers_mut().insert("upgrade", "echo".parse().unwrap());
    let mut response = within(send(sidecar.at.traffic, to_send)).await;
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()["upgrade"], "echo");
    let mut tunnel = TokioIo::new(within(hyper::upgrade::on(&mut response)).await.unwrap());
    for word in [b"hello", b"again"] {
        tunnel.write_all(word).await.unwrap();
        let mut back = [0; 5];
        within(tunnel.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, word);
    }
    sidecar.holds(1.0, 0.0).await;
    drop(tunnel);
    sidecar.holds(0.0, 0.0).await;
}

#[tokio::test]
async fn health_checks_by_configured_agents_are_not_queued() {
    let app = TestApp::start().await;
    let flags = ["--container-concurrency=1", "--queue-depth=0", "--health-check-agents=my-mesh/,other/"];
    let sidecar = Sidecar::start(app.address, &flags).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    for (agent, status) in
        [("my-mesh/2", StatusCode::OK), ("kube-probe/1.37", StatusCode::SERVICE_UNAVAILABLE)]
    {
        let mut check = request("/");
        check.headers_mut().insert("user-agent", agent.parse().unwrap());
        assert_eq!(within(send(sidecar.at.traffic, check)).await.status(), status, "{agent}");
    }
    app.open(1);
    within(running).await.unwrap();
}

#[tokio::test]
async fn health_checks_beyond_the_places_of_the_pod_count() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1"]).await;
    let checks: Vec<_> = (0..6)
        .map(|_| {
            let mut check = request("/wait");
            check.headers_mut().insert("user-agent", "kube-probe/1.37".parse().unwrap());
            tokio::spawn(send(sidecar.at.traffic, check))
        })
        .collect();
    // Four do not count, one has the slot, one waits for it.
    sidecar.holds(2.0, 1.0).await;
    app.open(6);
    for check in checks {
        assert_eq!(text(within(check).await.unwrap()).await, "waited");
    }
}

#[tokio::test]
async fn requests_of_no_wake_rules_are_neither_queued_nor_counted() {
    let app = TestApp::start().await;
    let rules = "--no-wake=GET /headers, User-Agent: *UptimeRobot*";
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1", "--queue-depth=0", rules]).await;
    let running = tokio::spawn(send(sidecar.at.traffic, request("/wait")));
    sidecar.holds(1.0, 0.0).await;
    for (path, agent, status) in [
        ("/headers?a=b", "curl", StatusCode::OK),
        ("/", "Mozilla/5.0+(compatible; UptimeRobot/2.0)", StatusCode::OK),
        ("/", "curl", StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let mut monitor = request(path);
        monitor.headers_mut().insert("user-agent", agent.parse().unwrap());
        assert_eq!(within(send(sidecar.at.traffic, monitor)).await.status(), status, "{path} {agent}");
    }
    app.open(1);
    within(running).await.unwrap();
    // Of all of them, the response of the app and the rejection.
    sidecar.holds(0.0, 0.0).await;
    assert_eq!(sidecar.metric("rouse_queue_proxy_request_duration_seconds_count").await, 2.0);
}

#[tokio::test]
async fn responds_bad_gateway_when_the_app_refuses_connections() {
    let reserved = ReservedAddress::new();
    let app = reserved.listen();
    let sidecar = Sidecar::start(reserved.address(), &[]).await;
    let mut probe = request("/");
    probe.headers_mut().insert("rouse-probe", "queue-proxy".parse().unwrap());
    assert_eq!(within(send(sidecar.at.traffic, probe)).await.status(), StatusCode::OK);
    drop(app);
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let to_send = Request::get("http://web.example/").version(version).header("host", "web.example");
        let response = within(send(sidecar.at.traffic, to_send.body(Full::default()).unwrap())).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
        assert!(text(response).await.contains("the app refuses connections"));
    }
    sidecar.holds(0.0, 0.0).await;
}

/// Waits for a period with these averages of all requests and of proxied ones.
async fn until_concurrency(sidecar: &Sidecar, all: f64, proxied: f64) {
    let near = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
    eventually(async || {
        let stat = sidecar.stat().await;
        near(stat.average_concurrent_requests, all) && near(stat.average_proxied_concurrent_requests, proxied)
    })
    .await;
}

#[tokio::test]
async fn forged_proxied_header_does_not_hide_requests() {
    let app = TestApp::start().await;
    for flags in [["--pod-uid", POD_UID].as_slice(), &[]] {
        let sidecar = Sidecar::start(app.address, flags).await;
        let forged = tokio::spawn(send(sidecar.at.traffic, proxied("/wait", "activator")));
        until_concurrency(&sidecar, 1.0, 0.0).await;
        app.open(1);
        assert_eq!(text(within(forged).await.unwrap()).await, "waited");
    }
}

#[tokio::test]
async fn refuses_requests_and_probes_for_another_pod() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--pod-uid", POD_UID]).await;
    let probe = |uid| {
        let mut probe = proxied("/", uid);
        probe.headers_mut().insert("rouse-probe", "queue-proxy".parse().unwrap());
        probe
    };
    let check = {
        let mut check = proxied("/", OTHER_UID);
        check.headers_mut().insert("user-agent", "kube-probe/1.37".parse().unwrap());
        check
    };
    for (port, misdirected) in [
        (sidecar.at.traffic, proxied("/", OTHER_UID)),
        (sidecar.at.traffic, probe(OTHER_UID)),
        (sidecar.at.traffic, check),
        (sidecar.at.admin, probe(OTHER_UID)),
    ] {
        let refused = within(send(port, misdirected)).await;
        assert_eq!(refused.status(), StatusCode::MISDIRECTED_REQUEST);
        assert_eq!(refused.headers()["rouse-misdirected"], "pod");
        let all = format!("{:?} {}", refused.headers().clone(), text(refused).await);
        assert!(!all.contains(POD_UID), "{all}");
    }
    assert_eq!(sidecar.metric("rouse_queue_proxy_request_duration_seconds_count").await, 0.0);
    for port in [sidecar.at.traffic, sidecar.at.admin] {
        assert_eq!(text(within(send(port, probe(POD_UID))).await).await, "queue-proxy");
    }
    assert_eq!(text(within(send(sidecar.at.traffic, proxied("/", POD_UID))).await).await, "ok");
}

#[tokio::test]
async fn misdirected_response_of_the_app_is_not_the_sidecars() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--pod-uid", POD_UID]).await;
    let response = within(send(sidecar.at.traffic, proxied("/misdirected", POD_UID))).await;
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST);
    assert!(!response.headers().contains_key("rouse-misdirected"));
    assert_eq!(text(response).await, "not here");
}

#[tokio::test]
async fn stat_separates_proxied_requests_and_omits_health_checks_and_scrapes() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--pod=web-1", "--pod-uid", POD_UID]).await;
    let calls = [
        tokio::spawn(send(sidecar.at.traffic, proxied("/wait", POD_UID))),
        tokio::spawn(send(sidecar.at.traffic, request("/wait"))),
    ];
    for agent in ["kube-probe/1.37", "Envoy/HC", "GoogleHC/1.0", "ELB-HealthChecker/2.0"] {
        let mut check = request("/");
        check.headers_mut().insert("user-agent", agent.parse().unwrap());
        assert_eq!(text(within(send(sidecar.at.traffic, check)).await).await, "ok");
    }

    let mut scrape = request("/");
    scrape.headers_mut().insert("x-prometheus-scrape-timeout-seconds", "10".parse().unwrap());
    assert_eq!(text(within(send(sidecar.at.traffic, scrape)).await).await, "ok");

    // A whole period with both requests in flight, and no arrival in it.
    until_concurrency(&sidecar, 2.0, 1.0).await;
    let stat = sidecar.stat().await;
    assert_eq!((stat.pod.as_str(), stat.request_count, stat.proxied_request_count), ("web-1", 0.0, 0.0));
    assert!((component_base::clock::unix_seconds() - stat.timestamp).abs() <= 1);

    app.open(2);
    for call in calls {
        within(call).await.unwrap();
    }
    within(async {
        while !sidecar.stat().await.is_idle() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
