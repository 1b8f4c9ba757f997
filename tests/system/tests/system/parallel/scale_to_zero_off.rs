//! A workload without the annotation `scale-to-zero` that a user scales to zero.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::installation::begin_shared;
use system_tests::traffic::load::{Load, until_first_response};
use system_tests::wait;
use system_tests::workloads::workload::{Workload, replicas, scale};

/// Enough for a pod's start on a loaded machine.
const POD_START: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_without_scale_to_zero_stays_at_zero_and_gets_503() -> Result<()> {
    let namespace = begin_shared("paused").await?;
    let mut workload = Workload::new("paused");
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await.context("while it has a pod")?;
    scale(&namespace, "paused", 0).await?;
    let rejected = wait::until("a response with status 503", Duration::from_secs(60), || async {
        let responses = Load::one_request(&url).run(&namespace).await?;
        Ok(responses.into_iter().find(|response| response.status == 503))
    })
    .await?;
    ensure!(rejected.error.contains("paused"), "the body does not give the reason: {}", rejected.error);
    ensure!(replicas(&namespace, "paused").await? == 0, "a paused workload was scaled up");
    namespace.delete().await
}
