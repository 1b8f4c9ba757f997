//! Objects that get another owner, another form or a second writer, while the workload is at zero
//! or beside load.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use autoscaler::contract::METRIC_CONCURRENCY;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::traffic::metric::service_metric_milli;
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::orphaned_autoscaler;
use system_tests::workloads::workload::{Sidecar, Workload, replicas, until_replicas};

/// Enough for a reconcile, garbage collection and kube-proxy.
const RECONCILED: Duration = Duration::from_secs(60);

async fn message(namespace: &TestNamespace, name: &str, r#type: &str) -> Result<String> {
    let status = namespace.api::<PodAutoscaler>().get(name).await?.status.unwrap_or_default();
    let found = condition(&status.conditions, r#type);
    Ok(found.map(|it| format!("{}: {}", it.reason, it.message)).unwrap_or_default())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn hpa_that_is_applied_again_after_an_orphaning_deletion_is_followed() -> Result<()> {
    let namespace = begin_shared("readopted").await?;
    let workload = Workload { max_replicas: 1, ..Workload::new("readopted") };
    workload.create(&namespace).await?;
    until_replicas(&namespace, "readopted", |n| n == 0, TO_ZERO).await?;
    let hpas: Api<HorizontalPodAutoscaler> = namespace.api();
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    orphaned_autoscaler::delete_hpa(&namespace, "readopted").await?;
    wait::until("the PodAutoscaler without an owner", RECONCILED, || async {
        let orphaned = autoscalers.get("readopted").await?.metadata.owner_references.unwrap_or_default();
        // The garbage collector deletes the HPA after it has removed the reference to it.
        let is_gone = hpas.get_opt("readopted").await?.is_none();
        Ok((is_gone && orphaned.is_empty()).then_some(()))
    })
    .await?;
    Workload { max_replicas: 3, ..workload.clone() }.create_hpa(&namespace).await?;
    wait::until("the new bounds", RECONCILED, || async {
        Ok((autoscalers.get("readopted").await?.spec.max_replicas == Some(3)).then_some(()))
    })
    .await?;
    let response = send_one_request(&workload.url(&namespace).await?, &namespace).await?;
    ensure!(response.status == 200, "{response:?}");
    hpas.delete("readopted", &DeleteParams::default()).await?;
    wait::until("the PodAutoscaler to go with its HPA", RECONCILED, || async {
        Ok(autoscalers.get_opt("readopted").await?.is_none().then_some(()))
    })
    .await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn service_made_again_with_another_port_at_zero_is_answered() -> Result<()> {
    let namespace = begin_shared("moved").await?;
    let workload = Workload { sidecar: Sidecar::None, ..Workload::new("moved") };
    workload.create(&namespace).await?;
    until_replicas(&namespace, "moved", |n| n == 0, TO_ZERO).await?;
    let services: Api<Service> = namespace.api();
    services.delete("moved", &DeleteParams::default()).await?;
    wait::until("the Service to be gone", RECONCILED, || async {
        Ok(services.get_opt("moved").await?.is_none().then_some(()))
    })
    .await?;
    let made = json!({"metadata": {"name": "moved"}, "spec": {"ports": [
        {"name": "public", "port": 8888, "targetPort": 8080},
        {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 5353}]}});
    let made = services.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    let ip = made.spec.and_then(|spec| spec.cluster_ip).context("no address")?;
    until_first_response(&format!("http://{ip}:8888/"), &namespace, POD_START).await?;
    let slices = ListParams::default().labels("kubernetes.io/service-name=moved");
    // UDP leads to the pod, also while TCP leads to activators.
    wait::until("the ports of the slices", RECONCILED, || async {
        let slices = namespace.api::<EndpointSlice>().list(&slices).await?.items;
        let endpoints = slices.iter().filter(|slice| slice.endpoints.iter().flatten().next().is_some());
        let ports = endpoints.flat_map(|slice| slice.ports.iter().flatten());
        let ports: BTreeSet<_> = ports.filter_map(|port| port.name.as_deref()).collect();
        Ok((ports == BTreeSet::from(["dns", "public"])).then_some(()))
    })
    .await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn direct_scaler_yields_to_an_hpa_of_its_target() -> Result<()> {
    let namespace = begin_shared("rivals").await?;
    Workload::new("rivals").create_without_hpa(&namespace).await?;
    let target = json!({"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "rivals"});
    let spec = json!({"scaleTargetRef": target, "scaler": "Direct", "service": "rivals", "target": "5",
        "minReplicas": 1, "maxReplicas": 2});
    let autoscaler = PodAutoscaler::new("rivals", serde_json::from_value(spec)?);
    namespace.api::<PodAutoscaler>().create(&PostParams::default(), &autoscaler).await?;
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 80}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "rivals"});
    let hpa = json!({"metadata": {"name": "cpu"}, "spec":
        {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 4, "metrics": [cpu]}});
    let hpas: Api<HorizontalPodAutoscaler> = namespace.api();
    hpas.create(&PostParams::default(), &serde_json::from_value(hpa)?).await?;
    wait::until("the condition", RECONCILED, || async {
        let message = message(&namespace, "rivals", "Degraded").await?;
        Ok((message.contains("ScaleConflict") && message.contains("HPA cpu")).then_some(()))
    })
    .await?;
    until_replicas(&namespace, "rivals", |n| n == 3, RECONCILED).await?;
    // Longer than the decider's windows.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let size = replicas(&namespace, "rivals").await?;
    ensure!(size == 3, "{size} replicas beside the HPA");
    hpas.delete("cpu", &DeleteParams::default()).await?;
    until_replicas(&namespace, "rivals", |n| n <= 2, RECONCILED).await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn retired_half_leaves_the_metric_of_a_service_to_the_live_one() -> Result<()> {
    let namespace = begin_shared("halves").await?;
    let live = Workload::new("halves");
    live.create(&namespace).await?;
    let url = live.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let retired =
        Workload { replicas: 0, ..Workload::new("retired") }.annotated("reachability", "Unreachable");
    retired.create_deployment(&namespace).await?;
    let hpas: Api<HorizontalPodAutoscaler> = namespace.api();
    let mut hpa = hpas.get("halves").await?;
    hpa.metadata = kube::api::ObjectMeta {
        name: Some("retired".into()),
        annotations: Some([("autoscaling.rouse.dev/reachability".into(), "Unreachable".into())].into()),
        ..Default::default()
    };
    hpa.spec.scale_target_ref.name = "retired".into();
    hpa.status = None;
    hpas.create(&PostParams::default(), &hpa).await?;
    wait::until("both workloads", RECONCILED, || async {
        Ok(namespace.api::<PodAutoscaler>().get_opt("retired").await?.is_some().then_some(()))
    })
    .await?;
    let metric = || service_metric_milli(&namespace.client, &namespace.name, METRIC_CONCURRENCY, "halves");
    wait::until("the metric", RECONCILED, || async { metric().await.map(Some) }).await?;
    for _ in 0..10 {
        metric().await.context("the metric of the live half")?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn former_target_of_a_changed_hpa_is_not_left_at_zero() -> Result<()> {
    let namespace = begin_shared("former").await?;
    let workload = Workload::new("former");
    workload.create(&namespace).await?;
    until_replicas(&namespace, "former", |n| n == 0, TO_ZERO).await?;
    Workload::new("next").create_deployment(&namespace).await?;
    let patch = Patch::Merge(json!({"spec": {"scaleTargetRef": {"name": "next"}}}));
    namespace.api::<HorizontalPodAutoscaler>().patch("former", &PatchParams::default(), &patch).await?;
    until_replicas(&namespace, "former", |n| n == 1, Duration::from_secs(15)).await?;
    ensure!(namespace.api::<Deployment>().get_opt("next").await?.is_some());
    namespace.end().await
}
