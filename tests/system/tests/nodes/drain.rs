//! A node is drained, as before its upgrade and by node autoscalers; and a node has the label of
//! Windows, on which no image of Rouse runs.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::{
    COMPONENTS, begin_exclusive, component_selector, restart_component, system_api, until_ready,
    until_rolled_out,
};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::placement::node_of;
use system_tests::traffic::load::{LONGEST, Load, create_at_zero, ensure_all_ok, until_first_response};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload};

/// The drain of activators, which serve what they hold, on a loaded machine.
const DRAINED: Duration = Duration::from_secs(240);
/// Longer than an eviction takes, so that the requests are held meanwhile.
const SLOW_START: Duration = Duration::from_secs(20);
const HELD: f64 = 10.0;
const OS: &str = "kubernetes.io/os";

#[tokio::test]
#[ignore = "needs a cluster of several nodes with Rouse: run make test-nodes"]
async fn drain_of_a_node_fails_no_request_and_the_next_rollout_spreads_pods() -> Result<()> {
    let namespace = begin_exclusive("drain").await?;
    // Without sidecars, so that all requests are through activators.
    let plain = |name: &str| Workload { sidecar: Sidecar::None, ..Workload::new(name) };
    let busy = plain("busy").annotated("scale-to-zero", "false");
    busy.create(&namespace).await?;
    let url = busy.url(&namespace).await?;
    until_first_response(&url, &namespace, DRAINED).await?;
    let mut load = Load::rate(&url, 20.0, LONGEST).start(&namespace).await?;
    let slow = Workload { start: SLOW_START, ..plain("slow") };
    let slow = create_at_zero(&slow, &namespace, DRAINED).await?;

    let drained = nodes_of(&namespace, "activator").await?.pop_first().context("no activator")?;
    let held = Load::rate(&slow, HELD, Duration::from_secs(1)).start(&namespace).await?;
    drain(&drained).await?;
    ensure_all_ok(&held.finish().await?).context("held requests")?;
    for component in COMPONENTS {
        until_rolled_out(&namespace.client, component, DRAINED).await?;
        let nodes = nodes_of(&namespace, component).await?;
        ensure!(!nodes.contains(&drained), "{component} is on the drained node {drained}");
    }
    kubectl::run(&["uncordon", &drained]).await?;

    for component in ["activator", "zero-scaler"] {
        restart_component(&namespace.client, component).await?;
        until_rolled_out(&namespace.client, component, DRAINED).await?;
        let nodes = nodes_of(&namespace, component).await?;
        ensure!(nodes.len() > 1, "all pods of {component} are on {nodes:?}");
    }
    until_ready(&namespace.client, DRAINED).await?;
    let responses = load.until_now().await?;
    ensure_all_ok(&responses).context("a drain and a rollout")?;
    println!("a drain and a rollout: {} requests, all with status 200", responses.len());
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster of several nodes with Rouse: run make test-nodes"]
async fn nodes_with_windows_get_no_part_of_rouse_and_labelled_pods_there_are_reported() -> Result<()> {
    let namespace = begin_exclusive("windows").await?;
    let node = nodes_of(&namespace, "activator").await?.pop_first().context("no activator")?;
    kubectl::run(&["label", "node", &node, &format!("{OS}=windows"), "--overwrite"]).await?;
    let checked = ensure_windows_is_avoided(&namespace, &node).await;
    kubectl::run(&["label", "node", &node, &format!("{OS}=linux"), "--overwrite"]).await?;
    checked?;
    namespace.delete().await
}

async fn ensure_windows_is_avoided(namespace: &TestNamespace, node: &str) -> Result<()> {
    restart_component(&namespace.client, "activator").await?;
    until_rolled_out(&namespace.client, "activator", DRAINED).await?;
    let nodes = nodes_of(namespace, "activator").await?;
    ensure!(!nodes.contains(node), "an activator is on {node}");

    let workload = Workload::new("windows");
    workload.create_without_hpa(namespace).await?;
    let selector = json!({"spec": {"template": {"spec": {"nodeSelector": {OS: "windows"}}}}});
    let deployments: Api<Deployment> = namespace.api();
    deployments.patch("windows", &PatchParams::default(), &Patch::Merge(selector)).await?;
    workload.create_hpa(namespace).await?;
    wait::until("the reason WindowsPods", DRAINED, || async {
        let autoscaler = namespace.api::<PodAutoscaler>().get("windows").await?;
        let status = autoscaler.status.context("no status")?;
        let reason = condition(&status.conditions, "Degraded").map(|it| it.reason.clone());
        ensure!(reason.as_deref() == Some("WindowsPods"), "{reason:?}");
        Ok(Some(()))
    })
    .await
}

/// Evicts the pods of Rouse. The sample app ends at once when its pod is evicted, with or without
/// Rouse.
async fn drain(node: &str) -> Result<()> {
    let parts = format!("app.kubernetes.io/name in ({})", COMPONENTS.join(","));
    let options = ["--delete-emptydir-data", "--timeout=4m", "--pod-selector", &parts];
    let printed = kubectl::run(&[&["drain", node], options.as_slice()].concat()).await?;
    println!("{printed}");
    Ok(())
}

async fn nodes_of(namespace: &TestNamespace, component: &str) -> Result<BTreeSet<String>> {
    let pods: Api<Pod> = system_api(&namespace.client);
    let pods = pods.list(&component_selector(component)).await?;
    let running = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(running.map(node_of).collect())
}
