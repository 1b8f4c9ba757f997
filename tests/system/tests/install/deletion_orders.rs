//! Rouse is deleted without its Job, in the orders in which people and tools delete things. A
//! managed Service ends as Kubernetes serves it: by itself where a zero-scaler runs to the end,
//! else as soon as it has its selector again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::MANAGED_SLICE;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::{NAMESPACE, until_available};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::wait;
use system_tests::workloads::rollout::until_rolled_out;

use crate::installed::{
    INSTALLED, ROLLOUT, begin, ensure_serves_without_rouse, start_load, until_nothing_is_left,
};
use crate::kustomize::Manifests;
use crate::other_adapter::{DIRECT, create_direct};

/// Longer than the zero-scaler's last seconds, and than Kubernetes takes to write endpoints.
const RELEASED: Duration = Duration::from_secs(30);

/// What is deleted, in this order, each as arguments of `kubectl delete`.
type Order = &'static [&'static [&'static str]];

const INSTALLATION: &[&str] = &["namespace", NAMESPACE];
const ZERO_SCALER: &[&str] = &["--namespace", NAMESPACE, "deployment", "zero-scaler"];
const ACTIVATORS: &[&str] = &["--namespace", NAMESPACE, "deployment", "activator"];
const ADAPTERS: &[&str] = &["--namespace", NAMESPACE, "deployment", "metrics-adapter"];
const SETTINGS: &[&str] = &["--namespace", NAMESPACE, "configmap", "config-autoscaler"];
const RIGHTS: &[&str] = &["clusterrolebindings", "--selector", "app.kubernetes.io/part-of=rouse"];
const POLICIES: &[&str] = &["validatingadmissionpolicies", "--selector", "app.kubernetes.io/part-of=rouse"];
const CRDS: &[&str] = &["customresourcedefinitions", "--selector", "app.kubernetes.io/part-of=rouse"];
const AUTOSCALER: &[&str] = &["--all-namespaces", "podautoscalers", "--all"];

/// A zero-scaler runs until its namespace is deleted: the Service needs nothing afterwards, and no
/// request may fail.
const SERVED: [Order; 6] = [
    &[INSTALLATION],
    &[ADAPTERS, INSTALLATION],
    &[ACTIVATORS, INSTALLATION],
    &[SETTINGS, INSTALLATION],
    &[POLICIES, INSTALLATION],
    &[INSTALLATION, POLICIES, CRDS],
];

/// Services need the repair of the documents.
const REPAIRED: [Order; 6] = [
    &[ZERO_SCALER, INSTALLATION],
    &[ZERO_SCALER, ACTIVATORS, ADAPTERS],
    &[RIGHTS, INSTALLATION],
    &[CRDS, INSTALLATION],
    &[AUTOSCALER, INSTALLATION],
    &[ZERO_SCALER, CRDS, POLICIES, RIGHTS, INSTALLATION],
];

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn service_is_served_by_kubernetes_after_deletion_beside_zero_scaler() -> Result<()> {
    ensure_orders_end_served(&SERVED, true).await
}

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn service_is_served_by_kubernetes_after_deletion_and_repair() -> Result<()> {
    ensure_orders_end_served(&REPAIRED, false).await
}

async fn ensure_orders_end_served(orders: &[Order], by_itself: bool) -> Result<()> {
    let (client, _guard) = begin().await?;
    let manifests = Manifests::copy(&client, &["without-metrics-api"]).await?;
    for order in orders {
        println!("{order:?}");
        let namespace = TestNamespace::create(client.clone(), "rouse-test-orders").await?;
        let ended = ensure_order_ends_served(order, by_itself, &manifests, &namespace).await;
        ended.with_context(|| format!("{order:?}"))?;
        namespace.delete().await?;
    }
    Ok(())
}

async fn ensure_order_ends_served(
    order: Order,
    by_itself: bool,
    manifests: &Manifests,
    namespace: &TestNamespace,
) -> Result<()> {
    manifests.apply().await?;
    until_available(&namespace.client, INSTALLED).await?;
    let url = create_direct(namespace).await?;
    let mut load = start_load(&url, namespace).await?;
    // Activators find the app earlier than the kubelet, and Kubernetes serves ready pods alone.
    until_rolled_out(namespace, DIRECT, ROLLOUT).await?;
    for step in order {
        kubectl::run(&[&["delete", "--wait=false"], *step].concat()).await?;
    }
    let services: Api<Service> = namespace.api();
    if by_itself {
        wait::until("a selector", RELEASED, || async {
            let spec = services.get(DIRECT).await?.spec.unwrap_or_default();
            Ok(spec.selector.filter(|selector| !selector.is_empty()).map(drop))
        })
        .await?;
    } else {
        // The repair that docs/howto/operate/uninstall.md names.
        let selector = Patch::Merge(json!({"spec": {"selector": {"app": DIRECT}}}));
        services.patch(DIRECT, &PatchParams::default(), &selector).await?;
    }
    until_kubernetes_serves(namespace).await?;
    if !by_itself {
        load = start_load(&url, namespace).await?;
    }
    ensure_serves_without_rouse(namespace, DIRECT, &mut load).await?;
    drop(load);
    manifests
        .kubectl(&["delete", "--kustomize", &manifests.choice()?, "--ignore-not-found", "--wait=false"])
        .await?;
    until_nothing_is_left().await
}

/// Waits until Kubernetes has written its slices, and deleted those of Rouse.
async fn until_kubernetes_serves(namespace: &TestNamespace) -> Result<()> {
    let slices: Api<EndpointSlice> = namespace.api();
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={DIRECT}"));
    wait::until("slices of Kubernetes alone", RELEASED, || async {
        let all = slices.list_metadata(&of_service).await?.items;
        let ours = all.iter().flat_map(|slice| &slice.metadata.labels);
        ensure!(
            !ours.into_iter().any(|labels| labels.contains_key(MANAGED_SLICE)),
            "a slice of Rouse is left"
        );
        Ok((!all.is_empty()).then_some(()))
    })
    .await
}
