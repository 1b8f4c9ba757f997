//! No metrics-adapter runs.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use system_tests::cluster::installation::{self, begin_exclusive};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::wait;
use system_tests::workloads::hpa_status::scaling_active;
use system_tests::workloads::workload::{Workload, replicas};

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn hpa_reports_error_and_keeps_size_without_adapter() -> Result<()> {
    let namespace = begin_exclusive("frozen").await?;
    let workload = Workload { min_replicas: 2, replicas: 2, ..Workload::new("frozen") };
    workload.create(&namespace).await?;
    until_metric_is_valid(&namespace, Duration::from_secs(90)).await?;
    installation::scale_component(&namespace.client, "metrics-adapter", 0).await?;
    let result = size_stays(&namespace).await;
    installation::scale_component(&namespace.client, "metrics-adapter", 2).await?;
    result?;
    installation::until_ready(&namespace.client, Duration::from_secs(60)).await?;
    until_metric_is_valid(&namespace, Duration::from_secs(60)).await?;
    namespace.end().await
}

async fn until_metric_is_valid(namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until("the HPA to read the metric", deadline, || async {
        let (status, ..) = scaling_active(namespace, "frozen").await?;
        Ok((status == "True").then_some(()))
    })
    .await
}

async fn size_stays(namespace: &TestNamespace) -> Result<()> {
    wait::until("the HPA to report an error", Duration::from_secs(60), || async {
        let (status, reason, message) = scaling_active(namespace, "frozen").await?;
        if (status.as_str(), reason.as_str()) == ("False", "FailedGetExternalMetric") {
            Ok(Some(()))
        } else {
            bail!("{status} {reason} {message}")
        }
    })
    .await?;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let size = replicas(namespace, "frozen").await?;
        ensure!(size == 2, "spec.replicas became {size} without data");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}
