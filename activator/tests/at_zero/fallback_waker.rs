//! The fallback waker: without a zero-scaler, the activator scales the workload and serves its held
//! request.

use std::collections::BTreeSet;
use std::time::Duration;

use activator::args::Limits;
use activator::workloads::Workload;
use autoscaler::api::ScaleTargetRef;
use autoscaler::settings::Pause;
use bytes::Bytes;
use component_base::kubernetes::ApiResources;
use fake_api::FakeApi;
use http::Request;
use http_body_util::Full;
use serde_json::json;
use tokio::time::Instant;

use crate::support::pod::FakePod;
use crate::support::receiver::Receiver;
use crate::support::{Harness, LIMITS, eventually, within};

const POD: &str = "127.0.0.2";

/// Deployments at zero.
fn at_zero(names: &[&str]) -> FakeApi {
    let api = FakeApi::default();
    for name in names {
        let spec = json!({"replicas": 0, "selector": {"matchLabels": {"app": name}}});
        api.put(&deployment(name), json!({"spec": spec}));
    }
    api
}

fn deployment(name: &str) -> String {
    format!("/apis/apps/v1/namespaces/shop/deployments/{name}")
}

fn replicas(api: &FakeApi, name: &str) -> i64 {
    api.get(&deployment(name)).unwrap()["spec"]["replicas"].as_i64().unwrap()
}

fn target(name: &str) -> Option<ScaleTargetRef> {
    Some(ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: name.into() })
}

/// An activator with a fallback waker that acts at once.
async fn start(api: &FakeApi) -> Harness {
    let limits = Limits { fallback_wake_after: Duration::ZERO, ..LIMITS };
    Harness::with_fallback_waker(ApiResources::new(api.client()), limits, |workload| {
        workload.wake_target = target("web")
    })
    .await
}

#[tokio::test]
async fn serves_held_request_after_scaling_its_workload_from_zero() {
    let api = at_zero(&["web"]);
    let harness = start(&api).await;
    let request = harness.get("/");
    eventually("it is scaled to 1", || async { replicas(&api, "web") == 1 }).await;
    let _pod = FakePod::ready(POD, harness.pod_port).await;
    harness.pod_seen(POD, false).await;
    assert_eq!(within("answer", request).await.unwrap().status(), 200);
    assert_eq!(harness.metric("rouse_activator_fallback_wakes_total"), 1.0);
}

#[tokio::test]
async fn reads_only_workloads_that_may_and_need_to_be_woken() {
    let api = at_zero(&["paused", "no-target", "no-requests", "started", "web"]);
    let harness = start(&api).await;
    let paused =
        |workload: &mut Workload| (workload.wake_target, workload.pause) = (target("paused"), Pause::On);
    let ports = [
        harness.another_with("paused", paused).await,
        harness.another_with("no-target", |workload| workload.wake_target = None).await,
        harness.another_with("started", |workload| workload.wake_target = target("started")).await,
    ];
    harness.another_with("no-requests", |workload| workload.wake_target = target("no-requests")).await;
    harness.pod_of("started", POD, false).await;
    harness.settled().await;
    let _requests = ports.map(|port| {
        harness
            .send(Request::get(format!("http://127.0.0.1:{port}/")).body(Full::<Bytes>::default()).unwrap())
    });
    harness.until_held(2).await;
    let _wanted = harness.get("/");
    eventually("it is scaled to 1", || async { replicas(&api, "web") == 1 }).await;
    let requests = api.requests();
    assert!(requests.iter().all(|request| request.ends_with("deployments/web/scale")), "{requests:?}");
}

#[tokio::test]
async fn leaves_wakes_to_a_connected_zero_scaler() {
    let api = at_zero(&["web"]);
    let harness = start(&api).await;
    let mut zero_scaler = Receiver::start().await;
    harness.zero_scalers.send_replace(BTreeSet::from([zero_scaler.address]));
    eventually("it is connected", || async { harness.metric("rouse_activator_push_connections") == 1.0 })
        .await;
    let _request = harness.get("/");
    // Two seconds of reports, in which the fallback waker has checked at least once.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        zero_scaler.next().await;
    }
    assert_eq!(api.requests(), Vec::<String>::new());
    harness.zero_scalers.send_replace(BTreeSet::new());
    eventually("it is scaled to 1", || async { replicas(&api, "web") == 1 }).await;
}
