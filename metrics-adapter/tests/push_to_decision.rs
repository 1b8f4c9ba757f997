//! The stats port over loopback: a push becomes a decision on the stream, and a pod is scraped.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use autoscaler::DecisionEvent;
use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::version_skew::{DECISIONS, HELLO_HEADER, REPORTS};
use autoscaler::history::{FirstRequest, HistoryReport, Wake};
use autoscaler::stats::{ActivatorReport, FirstRequestReport, Stat, WakeReport};
use futures::{SinkExt, StreamExt};
use kube::runtime::watcher::Event;
use support::{Adapter, Setup, event, guard_by_names, key, push};
use tokio::net::TcpListener;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message};

#[tokio::test]
async fn decides_on_the_first_request_at_once_despite_invalid_frames() {
    let adapter = Adapter::start(Setup::alone().await);
    let mut reader = adapter.connect("/decisions").await;
    assert_eq!(event(&mut reader).await, DecisionEvent::Snapshot(vec![].into()));
    // After the first tick, so that only a poke can lead to a decision this early.
    tokio::time::sleep(Duration::from_millis(100)).await;

    let mut activator = adapter.connect("/push").await;
    activator.send(Message::text("{nonsense")).await.unwrap();
    activator.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    let sent = tokio::time::Instant::now();
    activator.send(push(5.0)).await.unwrap();
    let DecisionEvent::Decided(decision) = event(&mut reader).await else { panic!("no decision") };
    assert!(sent.elapsed() < Duration::from_millis(500), "{:?}", sent.elapsed());
    assert_eq!((decision.desired, decision.ready, decision.idle_since), (5, 0, None));
    assert!(decision.panicking);
    assert_eq!(adapter.metrics.pushes.bad_frames.get(), 2);
    assert_eq!(adapter.metrics.pokes.get(), 1);

    // More load than the last decision covers.
    activator.send(push(50.0)).await.unwrap();
    let DecisionEvent::Decided(decision) = event(&mut reader).await else { panic!("no decision") };
    assert!(sent.elapsed() < Duration::from_millis(1000), "{:?}", sent.elapsed());
    assert!(decision.desired > 5, "{decision:?}");
    assert_eq!(adapter.metrics.pokes.get(), 2);

    let mut late = adapter.connect("/decisions").await;
    let DecisionEvent::Snapshot(decisions) = event(&mut late).await else { panic!("no snapshot") };
    assert_eq!(decisions.items.len(), 1);

    adapter.stop.cancel();
    let close = loop {
        match activator.next().await.unwrap().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            _ => continue,
        }
    };
    assert_eq!(u16::from(close.code), 1012);
}

/// The report of a second without requests.
fn beat(activator: &str, sequence: u64) -> Message {
    let beat = ActivatorReport {
        activator: activator.to_owned(),
        sequence,
        is_beat: true,
        ..ActivatorReport::default()
    };
    Message::text(serde_json::to_string(&beat).unwrap())
}

#[tokio::test]
async fn workload_is_not_idle_while_one_of_two_connected_activators_is_silent() {
    let adapter = Adapter::start(Setup::alone().await);
    adapter.collector.list_activators(["one", "other"].map(|name| (name.to_owned(), true)));
    adapter.collector.publish_carried([].into());
    let (mut one, mut other) = (adapter.connect("/push").await, adapter.connect("/push").await);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    let mut sequence = 0;
    while adapter.collector.idle_since(&key()).is_none() {
        tick.tick().await;
        sequence += 1;
        assert!(sequence < 50, "never idle");
        one.send(beat("one", sequence)).await.unwrap();
        other.send(beat("other", sequence)).await.unwrap();
    }
    let silent = tokio::time::Instant::now();
    while silent.elapsed() < Duration::from_secs(3) {
        tick.tick().await;
        sequence += 1;
        one.send(beat("one", sequence)).await.unwrap();
    }
    assert_eq!(adapter.collector.idle_since(&key()), None);
    assert_eq!(adapter.collector.missing_reports().silent, ["other"]);
}

#[tokio::test]
async fn refuses_activator_with_newer_reports_by_name() {
    let adapter = Adapter::start(Setup::alone().await);
    let mut request = format!("{}/push", adapter.url).into_client_request().unwrap();
    let hello = format!("{} activator-7", REPORTS.version + 1);
    request.headers_mut().insert(HELLO_HEADER, hello.parse().unwrap());
    let tungstenite::Error::Http(response) = connect_async(request).await.unwrap_err() else { panic!() };
    assert_eq!(response.status(), 426);
    let body = String::from_utf8_lossy(response.body().as_ref().unwrap()).into_owned();
    assert!(body.contains("activator-7"), "{body}");
}

#[tokio::test]
async fn decision_stream_states_its_version_and_pod() {
    let adapter = Adapter::start(Setup::alone().await);
    let (_, response) = connect_async(format!("{}/decisions", adapter.url)).await.unwrap();
    assert_eq!(response.headers()[HELLO_HEADER], DECISIONS.hello("metrics-adapter-1").as_str());
}

#[tokio::test]
async fn reported_wake_decided_sizes_and_clients_can_be_read() {
    let adapter = Adapter::start(Setup::alone().await);
    let mut reader = adapter.connect("/decisions").await;
    let mut activator = adapter.connect("/push").await;
    event(&mut reader).await;
    activator.send(push(5.0)).await.unwrap();
    event(&mut reader).await;
    let wake = Wake {
        received: component_base::clock::unix_millis() - 500,
        reported: Some(1),
        created: None,
        scheduled: None,
        started: 300,
        verified: 400,
        forwarded: 401,
        answered: 405,
    };
    let wakes = vec![WakeReport { key: key(), wake }];
    let request = FirstRequest::of_http([10, 1, 2, 3].into(), "GET", "/metrics", Some(b"Prometheus/3.5.0"));
    let first_requests = vec![FirstRequestReport { key: key(), request }];
    let report = ActivatorReport { wakes, first_requests, ..ActivatorReport::default() };
    activator.send(Message::text(serde_json::to_string(&report).unwrap())).await.unwrap();
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/history/web";
    let mut waited = 0;
    let history = loop {
        let (_, body) = adapter.get(path).await;
        let history: HistoryReport = serde_json::from_value(body).unwrap();
        if !history.wakes.is_empty() {
            break history;
        }
        waited += 1;
        assert!(waited < 50, "no wake recorded");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(history.wakes, [wake]);
    let newest = history.samples.last().unwrap().sample;
    assert!(newest.decided >= Some(5) && newest.panicking, "{newest:?}");
    let (_, list) = adapter.get("/apis/external.metrics.k8s.io/v1beta1/history").await;
    assert_eq!(list["workloads"][0]["name"], "web");
    let (_, why) = adapter.get("/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/web").await;
    assert_eq!(why["firstRequests"][0]["userAgent"], "Prometheus/3.5.0");
}

#[tokio::test]
async fn records_stats_of_scraped_pods() {
    let pod = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = pod.local_addr().unwrap().port();
    let router = axum::Router::new().route(
        "/stat",
        axum::routing::get(|| async {
            axum::Json(Stat {
                average_concurrent_requests: 5.0,
                average_proxied_concurrent_requests: 2.0,
                ..Stat::default()
            })
        }),
    );
    tokio::spawn(async move { axum::serve(pod, router).await });
    let adapter = Adapter::start(Setup::alone().await);
    let ports = [serde_json::json!({"name": "queue-stats", "containerPort": port})];
    let object = serde_json::json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [], "initContainers": [{"name": "queue-proxy", "ports": ports}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    adapter.pods.apply(Event::Apply(serde_json::from_value(object).unwrap()));
    let mut waited = 0;
    while adapter.collector.averages(&key(), MetricName::Concurrency).is_none() {
        waited += 1;
        assert!(waited < 50, "no stat recorded");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let averages = adapter.collector.averages(&key(), MetricName::Concurrency).unwrap();
    assert_eq!(averages.stable, 3.0);
    assert_eq!(adapter.metrics.scrapes.failed.get(), 0);
}

#[tokio::test]
async fn only_activators_push_and_only_zero_scalers_subscribe() {
    let adapter = Adapter::start(Setup { guard: guard_by_names(), ..Setup::alone().await });
    for (path, token, expected) in [
        ("/push", Some("rouse-system:activator"), 101),
        ("/push", Some("rouse-system:zero-scaler"), 403),
        ("/push", Some("shop:activator"), 403),
        ("/push", None, 401),
        ("/decisions", Some("rouse-system:zero-scaler"), 101),
        ("/decisions", Some("rouse-system:activator"), 403),
        ("/decisions", None, 401),
    ] {
        let mut request = format!("{}{path}", adapter.url).into_client_request().unwrap();
        if let Some(token) = token {
            request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        }
        let status = match connect_async(request).await {
            Ok((_, response)) => response.status(),
            Err(tungstenite::Error::Http(response)) => response.status(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(status.as_u16(), expected, "{path} {token:?}");
    }
    assert_eq!(adapter.metrics.stats_unauthorized.get(), 5);
}
