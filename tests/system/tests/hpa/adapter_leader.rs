//! Sizes and the metric when the leading metrics-adapter stops.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use system_tests::cluster::installation::{self, begin_exclusive, leader, system_api, until_other_leads};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{LONGEST, Load, STEADY_WORK, until_first_response};
use system_tests::traffic::metric::{API, client_without_retries, get_json, service_metric_milli};
use system_tests::wait;
use system_tests::workloads::workload::{Workload, replicas, state, until_replicas};

/// Longer than the lease, the watch on it and a pod's start.
const TAKE_OVER: Duration = Duration::from_secs(40);
/// The stable window of the tests' workloads.
const WINDOW: Duration = Duration::from_secs(6);
/// Enough for a new workload to become reachable.
const UP: Duration = Duration::from_secs(60);

/// The workload's metric in thousandths, as its HPA gets it.
async fn metric(namespace: &TestNamespace) -> Result<i64> {
    service_metric_milli(&namespace.client, &namespace.name, "concurrency", "steady").await
}

/// Queries the metric repeatedly; returns the number of failures. A value that would remove a pod
/// is an error.
async fn poll_metric(namespace: &TestNamespace, time: Duration) -> Result<usize> {
    let once = namespace.with_client(client_without_retries().await?);
    let end = tokio::time::Instant::now() + time;
    let mut failures = Vec::new();
    while tokio::time::Instant::now() < end {
        match metric(&once).await {
            Ok(milli) => {
                ensure!(milli > 15_000, "{milli}m would remove a pod; {}", state(namespace, "steady").await)
            }
            Err(error) => failures.push(format!("{error:#}")),
        }
        let size = replicas(namespace, "steady").await?;
        ensure!(size == 4, "spec.replicas became {size}; {}", state(namespace, "steady").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{} failed queries: {:?}", failures.len(), failures.first());
    Ok(failures.len())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn size_stays_when_leading_adapter_is_deleted_or_killed() -> Result<()> {
    let namespace = begin_exclusive("leader").await?;
    let client = namespace.client.clone();
    let workload = Workload { target: "5".to_owned(), ..Workload::new("steady") }
        .annotated("panic-threshold-percentage", "1000");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, UP).await?;
    let load = Load::concurrency(&url, 20, STEADY_WORK, LONGEST);
    let running = load.start(&namespace).await?;
    let began = tokio::time::Instant::now();
    until_replicas(&namespace, "steady", |n| n == 4, Duration::from_secs(45)).await?;
    // One second with less load is half of an average over two. Both adapters' windows must be
    // full.
    wait::until("windows full of the load", UP, || async {
        let are_full = began.elapsed() > 2 * WINDOW;
        Ok((are_full && metric(&namespace).await? > 17_000).then_some(()))
    })
    .await?;

    // A clean shutdown: another adapter takes over at once, and no query fails.
    let first = leader(&client, "metrics-adapter").await?;
    system_api::<Pod>(&client).delete(&first, &DeleteParams::default()).await?;
    let failed = poll_metric(&namespace, Duration::from_secs(15)).await?;
    ensure!(failed == 0, "{failed} queries failed although the leader released its lease");
    until_other_leads(&client, "metrics-adapter", &first, TAKE_OVER).await?;
    installation::until_ready(&client, TAKE_OVER).await?;

    // The new adapter's windows are still short, so the other one must lead; that one is killed.
    let second = leader(&client, "metrics-adapter").await?;
    system_api::<Pod>(&client).delete(&second, &DeleteParams::default().grace_period(0)).await?;
    poll_metric(&namespace, Duration::from_secs(20)).await?;
    until_other_leads(&client, "metrics-adapter", &second, TAKE_OVER).await?;
    ensure!(metric(&namespace).await? > 15_000, "the metric after the lease expired");

    let decisions = get_json(&client, &format!("{API}/namespaces/{}/why/steady", namespace.name)).await?;
    ensure!(decisions.pointer("/decisions/0/desired").is_some(), "no decision in {decisions}");
    drop(running);
    namespace.end().await
}
