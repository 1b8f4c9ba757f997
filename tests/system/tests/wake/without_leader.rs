//! Wakes while no zero-scaler leads, and while none runs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use system_tests::cluster::installation::{self, begin_exclusive, leader, system_api, until_other_leads};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{send_one_request, until_activators_respond};
use system_tests::workloads::workload::{Sidecar, Workload, replicas};

/// Longer than the lease, the watch on it and a pod's start.
const TAKE_OVER: Duration = Duration::from_secs(40);
/// Enough for a new workload to become reachable.
const UP: Duration = Duration::from_secs(60);

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
    until_other_leads(&client, "zero-scaler", &lost, TAKE_OVER).await?;
    installation::until_ready(&client, TAKE_OVER).await?;
    namespace.end().await
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
    namespace.end().await
}
