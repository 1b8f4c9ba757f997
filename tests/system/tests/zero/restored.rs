//! A namespace is deleted and restored from a backup, as Velero does it: its objects are created
//! again without owners, UIDs and statuses, those of Rouse and Kubernetes' controllers included.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, ServerlessService};
use autoscaler::contract::WORKLOAD_LABEL;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace};
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Workload, until_replicas};

/// What a backup has, in the order of the restore: Velero creates pods first, then other kinds by
/// their names.
const KINDS: [&str; 9] = [
    "pods",
    "replicasets.apps",
    "services",
    "deployments.apps",
    "endpointslices.discovery.k8s.io",
    "horizontalpodautoscalers.autoscaling",
    "metrics.autoscaling.rouse.dev",
    "podautoscalers.autoscaling.rouse.dev",
    "serverlessservices.autoscaling.rouse.dev",
];
/// A workload that is awake at the backup, and two at zero.
const AWAKE: &str = "awake";
const MANAGED: &str = "managed";
const ATTACHED: &str = "attached";
/// Enough for a reconcile and garbage collection.
const RECONCILED: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workloads_restored_without_owners_wake_sleep_and_follow_their_hpas() -> Result<()> {
    let namespace = begin_shared("restored").await?;
    let workloads = [
        Workload { min_replicas: 2, ..Workload::new(AWAKE).annotated("scale-to-zero", "false") },
        Workload::new(MANAGED),
        Workload { attached: true, ..Workload::new(ATTACHED) },
    ];
    for workload in &workloads {
        workload.create(&namespace).await?;
    }
    until_replicas(&namespace, AWAKE, |size| size == 2, POD_START).await?;
    for name in [MANAGED, ATTACHED] {
        until_replicas(&namespace, name, |size| size == 0, TO_ZERO).await?;
    }
    let mut backups = Vec::new();
    for kind in KINDS {
        backups.push(back_up(&namespace, kind).await?);
    }
    namespace.delete().await?;
    let restored = TestNamespace::create(namespace.client.clone(), &namespace.name).await?;
    for backup in backups {
        restore(&restored, &backup).await?;
    }

    for workload in &workloads {
        let url = workload.url(&restored).await?;
        until_first_response(&url, &restored, POD_START).await.context(workload.name.clone())?;
    }
    for workload in &workloads {
        ensure_follows_hpa(&restored, &workload.name).await.context(workload.name.clone())?;
    }
    for name in [MANAGED, ATTACHED] {
        until_replicas(&restored, name, |size| size == 0, TO_ZERO).await?;
        let url = Workload::new(name).url(&restored).await?;
        send_one_request(&url, &restored).await.with_context(|| format!("a wake of {name}"))?;
    }
    ensure_goes_with_hpa(&restored, ATTACHED).await?;
    namespace.end().await
}

/// The objects of a kind, as a List to create.
async fn back_up(namespace: &TestNamespace, kind: &str) -> Result<Value> {
    let output = kubectl::run(&["--namespace", &namespace.name, "get", kind, "--output", "json"]).await?;
    let mut list: Value = serde_json::from_str(&output)?;
    let items = list.pointer_mut("/items").and_then(Value::as_array_mut).context("no items")?;
    items.retain(|object| object.pointer("/metadata/name").is_none_or(|name| name != CLIENT_POD));
    items.iter_mut().for_each(strip);
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// Leaves of an object what Velero restores.
fn strip(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "labels" | "annotations"));
    }
    let assigned: &[&str] = match object.get("kind").and_then(Value::as_str) {
        Some("Pod") => &["nodeName"],
        Some("Service") => &["clusterIP", "clusterIPs"],
        _ => &[],
    };
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, value| !assigned.contains(&field.as_str()) || value.as_str() == Some("None"));
    }
}

async fn restore(namespace: &TestNamespace, backup: &Value) -> Result<()> {
    let path = std::env::temp_dir().join(format!("{}.json", namespace.name));
    std::fs::write(&path, backup.to_string())?;
    let file = path.to_str().context("a path that is not UTF-8")?;
    let created = kubectl::run(&["create", "--filename", file]).await;
    std::fs::remove_file(&path)?;
    // A controller was faster with some of them, as for each object that Velero finds and skips.
    let is_expected = |line: &str| line.contains("already exists") || line.ends_with(" created");
    match created {
        Err(error) if error.to_string().lines().all(is_expected) => Ok(()),
        created => created.map(drop),
    }
}

/// A change of the HPA reaches the PodAutoscaler, which the HPA owns again.
async fn ensure_follows_hpa(namespace: &TestNamespace, name: &str) -> Result<()> {
    let hpas: Api<HorizontalPodAutoscaler> = namespace.api();
    let patch = Patch::Merge(json!({"spec": {"maxReplicas": 7}}));
    let hpa = hpas.patch(name, &PatchParams::default(), &patch).await?;
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    wait::until("the PodAutoscaler to follow the HPA", RECONCILED, || async {
        let autoscaler = autoscalers.get(name).await?;
        let owned = autoscaler.owner_references().iter().any(|owner| Some(&owner.uid) == hpa.uid().as_ref());
        ensure!(owned, "owners {:?}", autoscaler.owner_references());
        Ok((autoscaler.spec.max_replicas == Some(7)).then_some(()))
    })
    .await
}

/// With the HPA goes all that Rouse made, as if it had not been restored.
async fn ensure_goes_with_hpa(namespace: &TestNamespace, name: &str) -> Result<()> {
    namespace.api::<HorizontalPodAutoscaler>().delete(name, &DeleteParams::default()).await?;
    let of_workload = ListParams::default().labels(&format!("{WORKLOAD_LABEL}={name}"));
    wait::until("Rouse's objects to be gone", RECONCILED, || async {
        let autoscaler = namespace.api::<PodAutoscaler>().get_opt(name).await?;
        let routes = namespace.api::<ServerlessService>().get_opt(name).await?;
        let slices = namespace.api::<EndpointSlice>().list_metadata(&of_workload).await?.items;
        let slices: Vec<_> = slices.iter().map(ResourceExt::name_any).collect();
        ensure!(
            autoscaler.is_none() && routes.is_none() && slices.is_empty(),
            "PodAutoscaler {}, ServerlessService {}, {slices:?}",
            autoscaler.is_some(),
            routes.is_some()
        );
        Ok(Some(()))
    })
    .await
}
