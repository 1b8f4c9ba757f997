//! Rouse is deleted without its Job, in the orders in which people and tools delete things. A
//! managed Service ends as Kubernetes serves it: by itself where a zero-scaler runs to the end,
//! else as soon as it has its selector again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::MANAGED_SLICE;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::{NAMESPACE, until_available};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::wait;

use crate::installed::{INSTALLED, begin, ensure_serves_without_rouse, start_load, until_nothing_is_left};
use crate::kustomize::Manifests;
use crate::other_adapter::{DIRECT, create_direct};

/// Longer than the zero-scaler's last seconds, and than Kubernetes takes to write endpoints.
const RELEASED: Duration = Duration::from_secs(30);

/// What is deleted, in this order, each as arguments of `kubectl delete`.
struct Order {
    steps: &'static [&'static [&'static str]],
    /// Whether the Service needs nothing afterwards, and no request may fail.
    ends_served: bool,
}

const INSTALLATION: &[&str] = &["namespace", NAMESPACE];
const ZERO_SCALER: &[&str] = &["--namespace", NAMESPACE, "deployment", "zero-scaler"];
const ACTIVATORS: &[&str] = &["--namespace", NAMESPACE, "deployment", "activator"];
const ADAPTERS: &[&str] = &["--namespace", NAMESPACE, "deployment", "metrics-adapter"];
const SETTINGS: &[&str] = &["--namespace", NAMESPACE, "configmap", "config-autoscaler"];
const RIGHTS: &[&str] = &["clusterrolebindings", "--selector", "app.kubernetes.io/part-of=rouse"];
const POLICIES: &[&str] = &["validatingadmissionpolicies", "--selector", "app.kubernetes.io/part-of=rouse"];
const CRDS: &[&str] = &["customresourcedefinitions", "--selector", "app.kubernetes.io/part-of=rouse"];
const AUTOSCALER: &[&str] = &["--all-namespaces", "podautoscalers", "--all"];

const ORDERS: [Order; 12] = [
    Order { steps: &[INSTALLATION], ends_served: true },
    Order { steps: &[ADAPTERS, INSTALLATION], ends_served: true },
    Order { steps: &[ACTIVATORS, INSTALLATION], ends_served: true },
    Order { steps: &[SETTINGS, INSTALLATION], ends_served: true },
    Order { steps: &[POLICIES, INSTALLATION], ends_served: true },
    Order { steps: &[INSTALLATION, POLICIES, CRDS], ends_served: true },
    Order { steps: &[ZERO_SCALER, INSTALLATION], ends_served: false },
    Order { steps: &[ZERO_SCALER, ACTIVATORS, ADAPTERS], ends_served: false },
    Order { steps: &[RIGHTS, INSTALLATION], ends_served: false },
    Order { steps: &[CRDS, INSTALLATION], ends_served: false },
    Order { steps: &[AUTOSCALER, INSTALLATION], ends_served: false },
    Order { steps: &[ZERO_SCALER, CRDS, POLICIES, RIGHTS, INSTALLATION], ends_served: false },
];

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn service_is_served_by_kubernetes_after_any_order_of_deletion() -> Result<()> {
    let (client, _guard) = begin().await?;
    let manifests = Manifests::copy(&["without-metrics-api"])?;
    for order in &ORDERS {
        println!("{:?}", order.steps);
        let namespace = TestNamespace::create(client.clone(), "rouse-test-orders").await?;
        let ended = ensure_order_ends_served(order, &manifests, &client, &namespace).await;
        ended.with_context(|| format!("{:?}", order.steps))?;
        namespace.delete().await?;
    }
    Ok(())
}

async fn ensure_order_ends_served(
    order: &Order,
    manifests: &Manifests,
    client: &Client,
    namespace: &TestNamespace,
) -> Result<()> {
    manifests.kubectl(&["apply", "--kustomize", &manifests.choice()?]).await?;
    until_available(client, INSTALLED).await?;
    let url = create_direct(namespace).await?;
    let mut load = start_load(&url, namespace).await?;
    for step in order.steps {
        kubectl::run(&[&["delete", "--wait=false"], *step].concat()).await?;
    }
    let services: Api<Service> = namespace.api();
    if order.ends_served {
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
    if !order.ends_served {
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
