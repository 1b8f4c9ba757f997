//! Sizes, metrics and wakes when a replica of a component with a leader stops.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::DeleteParams;
use system_tests::cluster::installation::{self, begin_exclusive, leader, system_api};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{Load, send_one_request, until_activators_respond, until_first_response};
use system_tests::traffic::metric::{API, client_without_retries, get_json, service_metric_milli};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, replicas, state, until_replicas};

/// Longer than the lease, the watch on it and a pod's start.
const TAKE_OVER: Duration = Duration::from_secs(40);
/// The stable window of the tests' workloads.
const WINDOW: Duration = Duration::from_secs(6);
/// Enough for a new workload to become reachable.
const UP: Duration = Duration::from_secs(60);

async fn until_other_leader(client: &Client, component: &str, previous: &str) -> Result<()> {
    wait::until(&format!("another {component} to lead"), TAKE_OVER, || async {
        Ok((leader(client, component).await? != previous).then_some(()))
    })
    .await
}

/// The names and URLs of two workloads at zero, with a sidecar and without.
async fn both_at_zero(namespace: &TestNamespace, name: &str) -> Result<Vec<(String, String)>> {
    let mut urls = Vec::new();
    for (sidecar, suffix) in [(Sidecar::Native, "sidecar"), (Sidecar::None, "plain")] {
        let workload = Workload { replicas: 0, sidecar, ..Workload::new(&format!("{name}-{suffix}")) };
        workload.create(namespace).await?;
        let url = workload.url(namespace).await?;
        until_activators_respond(&url, namespace, UP).await?;
        urls.push((workload.name, url));
    }
    Ok(urls)
}

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
    let load = Load::concurrency(&url, 20, Duration::from_millis(100), Duration::from_secs(240));
    let _running = load.start(&namespace).await?;
    let began = tokio::time::Instant::now();
    until_replicas(&namespace, "steady", |n| n == 4, Duration::from_secs(45)).await?;
    // One second with less load is half of an average over two. Both adapters' windows must be full.
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
    until_other_leader(&client, "metrics-adapter", &first).await?;
    installation::until_ready(&client, TAKE_OVER).await?;

    // The new adapter's windows are still short, so the other one must lead; that one is killed.
    let second = leader(&client, "metrics-adapter").await?;
    system_api::<Pod>(&client).delete(&second, &DeleteParams::default().grace_period(0)).await?;
    poll_metric(&namespace, Duration::from_secs(20)).await?;
    until_other_leader(&client, "metrics-adapter", &second).await?;
    ensure!(metric(&namespace).await? > 15_000, "the metric after the lease expired");

    let decisions = get_json(&client, &format!("{API}/namespaces/{}/why/steady", namespace.name)).await?;
    ensure!(decisions.pointer("/decisions/0/desired").is_some(), "no decision in {decisions}");
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_wakes_while_no_zero_scaler_leads() -> Result<()> {
    let namespace = begin_exclusive("orphan").await?;
    let client = namespace.client.clone();
    let urls = both_at_zero(&namespace, "leaderless").await?;
    let lost = leader(&client, "zero-scaler").await?;
    system_api::<Pod>(&client).delete(&lost, &DeleteParams::default().grace_period(0)).await?;
    let held = urls.iter().map(async |(name, url)| {
        send_one_request(url, &namespace).await.with_context(|| format!("{name}, without a leader"))
    });
    try_join_all(held).await?;
    until_other_leader(&client, "zero-scaler", &lost).await?;
    installation::until_ready(&client, TAKE_OVER).await?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_wakes_without_any_zero_scaler() -> Result<()> {
    let namespace = begin_exclusive("guarded").await?;
    let urls = both_at_zero(&namespace, "guarded").await?;
    installation::without_zero_scaler(&namespace.client, async {
        let held = urls.iter().map(async |(name, url)| {
            let response =
                send_one_request(url, &namespace).await.with_context(|| format!("{name}, no zero-scaler"))?;
            println!("{name}: woken by the fallback waker, response after {:.0} ms", response.ms);
            let size = replicas(&namespace, name).await?;
            ensure!(size == 1, "spec.replicas of {name} is {size}");
            Ok(())
        });
        try_join_all(held).await.map(drop)
    })
    .await?;
    namespace.delete().await
}
