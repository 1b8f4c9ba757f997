//! What becomes of sizes and questions when one of our own replicas goes: `make test-system`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::DeleteParams;
use system_tests::installation::{self, begin, leader, of_ours, of_part};
use system_tests::load::{Load, one_answer, until_activators_answer, until_answered};
use system_tests::metric::{API, ask, asks_once, of_service};
use system_tests::namespace::{TestNamespace, is_ready};
use system_tests::wait;
use system_tests::workload::{Workload, replicas, state, until_replicas};

/// Longer than a lease, the watch of it and a pod's start.
const TAKE_OVER: Duration = Duration::from_secs(40);
/// Enough for a workload that was just applied to be reached.
const UP: Duration = Duration::from_secs(60);

async fn until_other_leader(client: &Client, part: &str, than: &str) -> Result<()> {
    wait::until(&format!("another {part} to lead"), TAKE_OVER, || async {
        Ok((leader(client, part).await? != than).then_some(()))
    })
    .await
}

/// The metric of the workload, in thousandths, as its HPA gets it.
async fn metric(namespace: &TestNamespace) -> Result<i64> {
    of_service(&namespace.client, &namespace.name, "concurrency", "steady").await
}

/// Asks for the metric again and again; how often it failed. A value that would take a pod away is an error.
async fn watch_metric(namespace: &TestNamespace, time: Duration) -> Result<usize> {
    let once = TestNamespace { client: asks_once().await?, ..namespace.clone() };
    let end = tokio::time::Instant::now() + time;
    let mut failures = Vec::new();
    while tokio::time::Instant::now() < end {
        match metric(&once).await {
            Ok(milli) => ensure!(
                milli > 15_000,
                "{milli}m would take a pod away; {}",
                state(namespace, "steady").await
            ),
            Err(error) => failures.push(format!("{error:#}")),
        }
        let size = replicas(namespace, "steady").await?;
        ensure!(size == 4, "the size went to {size}; {}", state(namespace, "steady").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("{} failed questions: {:?}", failures.len(), failures.first());
    Ok(failures.len())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn no_size_changes_when_the_leader_goes() -> Result<()> {
    let namespace = begin("leader").await?;
    let client = namespace.client.clone();
    let workload = Workload { target: "5".to_owned(), ..Workload::new("steady") }
        .annotated("panic-threshold-percentage", "1000");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_answered(&url, &namespace, UP).await?;
    let load = Load::concurrency(&url, 20, Duration::from_millis(100), Duration::from_secs(240));
    let _running = load.start(&namespace).await?;
    until_replicas(&namespace, "steady", |n| n == 4, Duration::from_secs(45)).await?;
    wait::until("the metric to be that of the load", Duration::from_secs(20), || async {
        Ok((metric(&namespace).await? > 17_000).then_some(()))
    })
    .await?;

    // A clean end: another one leads at once, and whoever asks meanwhile is answered.
    let first = leader(&client, "metrics-adapter").await?;
    of_ours::<Pod>(&client).delete(&first, &DeleteParams::default()).await?;
    let failed = watch_metric(&namespace, Duration::from_secs(15)).await?;
    ensure!(failed == 0, "{failed} questions failed though the leader gave its lease away");
    until_other_leader(&client, "metrics-adapter", &first).await?;
    installation::until_ready(&client, TAKE_OVER).await?;

    // Its windows are young now; the other one must still lead, and is killed.
    let second = leader(&client, "metrics-adapter").await?;
    of_ours::<Pod>(&client).delete(&second, &DeleteParams::default().grace_period(0)).await?;
    watch_metric(&namespace, Duration::from_secs(20)).await?;
    until_other_leader(&client, "metrics-adapter", &second).await?;
    ensure!(metric(&namespace).await? > 15_000, "the metric after the lease ended");

    let why = ask(&client, &format!("{API}/namespaces/{}/why/steady", namespace.name)).await?;
    ensure!(why.pointer("/decisions/0/desired").is_some(), "it does not say why: {why}");
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_sleeper_wakes_while_no_zero_scaler_leads() -> Result<()> {
    let namespace = begin("orphan").await?;
    let client = namespace.client.clone();
    let workload = Workload { replicas: 0, ..Workload::new("sleeper") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, UP).await?;
    let lost = leader(&client, "zero-scaler").await?;
    of_ours::<Pod>(&client).delete(&lost, &DeleteParams::default().grace_period(0)).await?;
    one_answer(&url, &namespace).await.context("the request that finds no leader")?;
    until_other_leader(&client, "zero-scaler", &lost).await?;
    installation::until_ready(&client, TAKE_OVER).await?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_sleeper_wakes_when_there_is_no_zero_scaler_at_all() -> Result<()> {
    let namespace = begin("guarded").await?;
    let workload = Workload { replicas: 0, ..Workload::new("guarded") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, UP).await?;
    installation::without_zero_scaler(&namespace.client, async {
        let answer =
            one_answer(&url, &namespace).await.context("the request of which no zero-scaler hears")?;
        println!("woken by an activator's guard, answered after {:.0} ms", answer.ms);
        let size = replicas(&namespace, "guarded").await?;
        ensure!(size == 1, "its size is {size}");
        Ok(())
    })
    .await?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_stats_ports_take_no_strangers() -> Result<()> {
    let namespace = begin("strangers").await?;
    let pods: Vec<Pod> = of_ours(&namespace.client).list(&of_part("metrics-adapter")).await?.items;
    let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
    ensure!(ready.len() == 2, "{} adapters are ready", ready.len());
    for pod in ready {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).context("no address")?;
        let answers = Load::one(&format!("http://{ip}:8080/relay/why/a/b")).run(&namespace).await?;
        ensure!(answers.iter().all(|answer| answer.status == 401), "not refused: {answers:?}");
    }
    namespace.delete().await
}
