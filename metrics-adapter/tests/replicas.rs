//! Two replicas and one Lease: the leader decides, both serve its values, and held decisions
//! survive a handover.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::time::Duration;

use autoscaler::DecisionEvent;
use autoscaler::contract::FORWARD_PATH;
use autoscaler::contract::version_skew::{HELLO_HEADER, QUERIES};
use component_base::auth::ProjectedToken;
use component_base::kubernetes::lease::{Leadership, Lease};
use fake_api::FakeApi;
use futures::SinkExt;
use http::StatusCode;
use metrics_adapter::external_metrics::leader_forwarder::{LeaderForwarder, identity};
use serde_json::Value;
use support::{Adapter, Setup, Socket, event, guard_by_names, push};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

const METRIC: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/concurrency?labelSelector=service%3Dweb";

/// An adapter that takes part in the leader election.
struct Replica {
    adapter: Adapter,
    leadership: Leadership,
    resign: CancellationToken,
    activator: Socket,
    _election: AbortOnDropHandle<()>,
}

impl Replica {
    async fn start(cluster: &FakeApi, pod: &str) -> Self {
        let setup = Setup::alone().await;
        let identity = identity(pod, 0, setup.listener.local_addr().unwrap());
        let resign = CancellationToken::new();
        let lease = Lease::new(cluster.client(), "rouse-system", "metrics-adapter", &identity);
        let (leadership, election) = lease.elect(resign.clone());
        let forwarder = LeaderForwarder::new(pod, leadership.clone(), ProjectedToken::default());
        let adapter = Adapter::start(Setup { leadership: leadership.clone(), forwarder, ..setup });
        let activator = adapter.connect("/push").await;
        let election = AbortOnDropHandle::new(tokio::spawn(election));
        Self { adapter, leadership, resign, activator, _election: election }
    }

    async fn push(&mut self, concurrency: f64) {
        self.activator.send(push(concurrency)).await.unwrap();
    }
}

/// Two replicas; the first one is the leader.
async fn two(cluster: &FakeApi) -> (Replica, Replica) {
    let mut a = Replica::start(cluster, "a").await;
    a.leadership.acquired().await;
    let mut b = Replica::start(cluster, "b").await;
    b.leadership.wait_for_leader(|leader| leader.is_some()).await;
    (a, b)
}

fn value(body: &Value) -> &str {
    body["items"][0]["value"].as_str().unwrap_or_else(|| panic!("{body}"))
}

/// Waits for a value of the metric.
async fn metric(adapter: &Adapter) -> String {
    for _ in 0..100 {
        let (status, body) = adapter.get(METRIC).await;
        if status == StatusCode::OK {
            return value(&body).to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no value: {:?}", adapter.get(METRIC).await);
}

async fn decided(reader: &mut Socket) -> u32 {
    loop {
        if let DecisionEvent::Decided(decision) = event(reader).await {
            return decision.desired;
        }
    }
}

#[tokio::test]
async fn follower_serves_the_leaders_values_and_publishes_no_decisions() {
    let (mut a, mut b) = two(&FakeApi::default()).await;
    let mut followed = b.adapter.connect("/decisions").await;
    assert_eq!(event(&mut followed).await, DecisionEvent::Snapshot(vec![].into()));
    let mut led = a.adapter.connect("/decisions").await;
    // Replicas never see exactly the same load.
    a.push(5.0).await;
    b.push(3.0).await;
    assert_eq!(decided(&mut led).await, 5);
    assert_eq!(metric(&a.adapter).await, "5");
    assert_eq!(metric(&b.adapter).await, "5");
    let (status, why) = b.adapter.get("/why/shop/web").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(why["decisions"][0]["desired"], 5);
    let mut late = b.adapter.connect("/decisions").await;
    assert_eq!(
        event(&mut late).await,
        DecisionEvent::Snapshot(vec![].into()),
        "a follower publishes no decisions"
    );
}

#[tokio::test]
async fn clean_handover_fails_no_query_and_keeps_the_size() {
    let (mut a, mut b) = two(&FakeApi::default()).await;
    a.push(5.0).await;
    b.push(5.0).await;
    assert_eq!(metric(&a.adapter).await, "5");
    a.resign.cancel();
    for _ in 0..50 {
        for adapter in [&a.adapter, &b.adapter] {
            let (status, body) = adapter.get(METRIC).await;
            assert_eq!((status, value(&body)), (StatusCode::OK, "5"));
        }
    }
    b.leadership.acquired().await;
    let mut reader = b.adapter.connect("/decisions").await;
    let DecisionEvent::Snapshot(decisions) = event(&mut reader).await else { panic!("no snapshot") };
    assert_eq!(decisions.items.iter().map(|decision| decision.desired).collect::<Vec<_>>(), [5]);
}

#[tokio::test]
async fn lost_leader_is_an_error_and_not_a_value() {
    let (mut a, b) = two(&FakeApi::default()).await;
    a.push(5.0).await;
    assert_eq!(metric(&b.adapter).await, "5");
    drop(a);
    let (status, body) = b.adapter.get(METRIC).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["message"].as_str().unwrap().contains("did not respond"), "{body}");
}

#[tokio::test]
async fn forwarded_queries_need_the_token_of_a_metrics_adapter() {
    let leader = Adapter::start(Setup { guard: guard_by_names(), ..Setup::alone().await });
    let address = leader.url.trim_start_matches("ws://").parse().unwrap();
    let file = std::env::temp_dir().join(format!("replicas-{}", std::process::id()));
    for (token, expected) in [
        (Some("rouse-system:metrics-adapter"), StatusCode::NOT_FOUND),
        (Some("rouse-system:activator"), StatusCode::FORBIDDEN),
        (None, StatusCode::UNAUTHORIZED),
    ] {
        let forwarder = match token {
            Some(token) => {
                std::fs::write(&file, token).unwrap();
                LeaderForwarder::new("a", Leadership::always_leading(), ProjectedToken::at(&file))
            }
            None => LeaderForwarder::alone(),
        };
        let response = forwarder.forward(address, "/why/shop/nothing", None).await.unwrap();
        assert_eq!(response.status, expected, "{token:?}");
    }
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn leader_refuses_query_of_newer_replica_by_name() {
    let leader = Adapter::start(Setup::alone().await);
    let mut stream = TcpStream::connect(leader.url.trim_start_matches("ws://")).await.unwrap();
    let request = format!(
        "GET {FORWARD_PATH}/why/shop/web HTTP/1.1\r\nhost: leader\r\nconnection: close\r\n\
         {HELLO_HEADER}: {} metrics-adapter-7\r\n\r\n",
        QUERIES.version + 1
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 426"), "{response}");
    assert!(response.contains("metrics-adapter-7 sends queries of version 2"), "{response}");
}
