//! A user deletes the HPA of a managed workload.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::PodAutoscaler;
use autoscaler::contract::SLICE_MANAGER;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams};
use system_tests::cluster::installation::begin_shared;
use system_tests::traffic::load::{self, Load, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Workload, replicas, until_replicas};

/// Enough for a reconcile, garbage collection and kube-proxy.
const RECONCILED: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn service_keeps_serving_and_rouse_objects_go_when_hpa_is_deleted() -> Result<()> {
    let namespace = begin_shared("left").await?;
    // One replica at most, so that its size is the same however long its pod takes to start.
    let workload = Workload { attached: true, max_replicas: 1, ..Workload::new("left") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let managed =
        ListParams::default().labels(&format!("endpointslice.kubernetes.io/managed-by={SLICE_MANAGER}"));
    let slices: Api<EndpointSlice> = namespace.api();
    wait::until("activators beside the pod", RECONCILED, || async {
        Ok((!slices.list(&managed).await?.items.is_empty()).then_some(()))
    })
    .await?;
    let steady = Load::rate(&url, 20.0, Duration::from_secs(20)).start(&namespace).await?;
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    autoscalers.delete("left", &DeleteParams::default()).await?;
    let pod_autoscalers: Api<PodAutoscaler> = namespace.api();
    wait::until("Rouse's objects to be gone", RECONCILED, || async {
        let gone =
            pod_autoscalers.get_opt("left").await?.is_none() && slices.list(&managed).await?.items.is_empty();
        Ok(gone.then_some(()))
    })
    .await?;
    load::ensure_all_ok(&steady.finish().await?).context("requests while the HPA was deleted")?;
    ensure!(replicas(&namespace, "left").await? == 1, "spec.replicas changed");
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_at_zero_is_scaled_up_when_hpa_is_deleted() -> Result<()> {
    let namespace = begin_shared("orphaned").await?;
    let workload = Workload { attached: true, ..Workload::new("orphaned") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_replicas(&namespace, "orphaned", |n| n == 0, TO_ZERO).await?;
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    autoscalers.delete("orphaned", &DeleteParams::default()).await?;
    until_replicas(&namespace, "orphaned", |n| n == 1, RECONCILED).await?;
    until_first_response(&url, &namespace, POD_START).await.context("without Rouse")?;
    namespace.end().await
}
