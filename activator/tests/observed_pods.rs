//! What an activator reports of pods without a queue-proxy, for a target that is learned.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use activator::workloads::Observation;
use autoscaler::stats::PodStat;
use serde_json::Value;
use support::pod::FakePod;
use support::receiver::Receiver;
use support::{Harness, LIMITS, eventually, key, within, without_sidecar};

const POD: &str = "127.0.0.2";

/// A workload with these settings, its ready pod, and a receiver of its reports.
async fn start(observation: Option<Observation>) -> (Harness, FakePod, Receiver) {
    let harness = Harness::with(LIMITS, |workload| {
        without_sidecar(workload);
        workload.observation = observation;
    })
    .await;
    let receiver = Receiver::start().await;
    harness.receivers.send_replace(BTreeSet::from([receiver.address]));
    let pod = FakePod::plain_ready(POD, harness.pod_port).await;
    harness.plain_pod_seen(POD, true, Value::Null).await;
    harness.settled().await;
    (harness, pod, receiver)
}

/// The reports up to the one in which the workload is idle.
async fn reported(receiver: &mut Receiver) -> Vec<PodStat> {
    let mut pods = Vec::new();
    loop {
        let report = receiver.next().await;
        pods.extend(report.pods);
        if report.messages.iter().any(|message| message.stat.is_idle()) {
            return pods;
        }
    }
}

#[tokio::test]
async fn requests_of_each_pod_are_reported_with_their_time_in_the_app() {
    let objective = Duration::from_nanos(1_000);
    let (harness, pod, mut receiver) = start(Some(Observation { objective: Some(objective) })).await;
    pod.close_gate();
    let requests: Vec<_> = (0..3).map(|_| harness.get("/")).collect();
    eventually("they run", || async { pod.running() == 3 }).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    pod.release(3);
    for request in requests {
        assert_eq!(within("answer", request).await.unwrap().status(), 200);
    }
    let pods = reported(&mut receiver).await;
    assert!(pods.iter().all(|pod| pod.key == key() && pod.ip.to_string() == POD));
    let app: Vec<_> = pods.iter().filter_map(|pod| pod.stat.app).collect();
    assert!(app.iter().all(|app| app.objective_micros == 1), "{app:?}");
    // A period may last a little longer than a second.
    let sum = |of: fn(&PodStat) -> f64| pods.iter().map(of).sum::<f64>();
    let app_sum = |of: fn(&autoscaler::stats::AppStat) -> f64| app.iter().map(of).sum::<f64>();
    assert!(
        sum(|pod| pod.stat.request_count) > 1.4 && sum(|pod| pod.stat.average_concurrent_requests) > 0.07
    );
    assert!(app_sum(|app| app.completions) > 1.4 && app_sum(|app| app.seconds) > 0.07, "{app:?}");
    assert!(app_sum(|app| app.misses) > 1.4, "all took longer than a microsecond");
    assert!(app_sum(|app| app.errors).abs() < 1e-9);
}

#[tokio::test]
async fn pods_are_not_reported_unless_a_target_is_learned() {
    let (harness, _pod, mut receiver) = start(None).await;
    assert_eq!(within("answer", harness.get("/")).await.unwrap().status(), 200);
    assert_eq!(reported(&mut receiver).await, []);
}
