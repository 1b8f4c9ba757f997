//! `pause` and `resume` on a real HPA: the size stays without load and under load, and at zero
//! requests get 503 until the end of the pause.

use std::time::Duration;

use anyhow::{Result, ensure};
use system_tests::cluster::installation::begin_shared;
use system_tests::traffic::load::{Load, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::rollout::until_pods_are_gone;
use system_tests::workloads::workload::{Workload, replicas, until_replicas};

use super::{json, text};

const PAUSED: &str = "held";
/// Several syncs of the HPA, windows and grace periods: without a pause the size would change.
const KEPT: Duration = Duration::from_secs(30);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn paused_workload_keeps_its_size_and_gets_503_at_zero() -> Result<()> {
    let namespace = begin_shared("held").await?;
    let workload = Workload::new(PAUSED);
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    text(&namespace, &["pause", PAUSED, "--at", "2"]).await?;
    tokio::time::sleep(KEPT).await;
    ensure!(replicas(&namespace, PAUSED).await? == 2, "an idle workload was scaled down");
    let responses = Load::concurrency(&url, 300, Duration::from_millis(100), KEPT).run(&namespace).await?;
    ensure!(responses.iter().all(|response| response.status == 200), "requests above zero are served");
    ensure!(replicas(&namespace, PAUSED).await? == 2, "a loaded workload was scaled up");

    json(&namespace, &["pause", PAUSED, "--at", "0"]).await?;
    until_pods_are_gone(&namespace, PAUSED, POD_START).await?;
    let rejected = wait::until("a response with status 503", POD_START, || async {
        let responses = Load::one_request(&url).run(&namespace).await?;
        Ok(responses.into_iter().find(|response| response.status == 503))
    })
    .await?;
    ensure!(rejected.error.contains("paused"), "the body does not give the reason: {}", rejected.error);
    ensure!(replicas(&namespace, PAUSED).await? == 0, "a request woke it");

    // Its end needs no further write.
    json(&namespace, &["pause", PAUSED, "--for", "5s"]).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    until_replicas(&namespace, PAUSED, |n| n == 0, TO_ZERO).await?;
    namespace.end().await
}
