//! The first request to a workload at zero.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::installation::begin_shared;
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::{Sidecar, Workload, replicas, until_replicas};

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn holds_first_request_at_zero_until_a_pod_responds() -> Result<()> {
    let namespace = begin_shared("wake").await?;
    let workloads = [
        Workload::new("managed"),
        Workload { attached: true, ..Workload::new("attached") },
        Workload { sidecar: Sidecar::AppFirst, ..Workload::new("app-first") },
        Workload { sidecar: Sidecar::None, ..Workload::new("plain") },
    ];
    for workload in workloads {
        let name = &workload.name;
        let url = create_at_zero(&workload, &namespace, POD_START).await?;
        ensure!(replicas(&namespace, name).await? == 0, "{name} is not at zero before the request");
        send_one_request(&url, &namespace).await.with_context(|| format!("the held request of {name}"))?;
        until_replicas(&namespace, name, |n| n >= 1, Duration::from_secs(1)).await?;
    }
    namespace.end().await
}
