//! A cluster whose API server changes no pod: workloads without a sidecar sleep and wake, and their
//! pods are what their owner wrote.
//!
//! The policies and their bindings are deleted for the test, which leaves a cluster as it is before
//! Kubernetes 1.36, or with Rouse's component `without-sidecar-injection`.

use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};
use serde_json::Value;
use system_tests::cluster::installation::{COMPONENTS, begin_exclusive};
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::cluster::placement::ZONE;
use system_tests::cluster::version::Feature;
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::injection::until_injection;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Sidecar, Workload, until_replicas};

const NAME: &str = "plain";
/// What the API server sets for each object anew.
const OWN_METADATA: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "ownerReferences",
];

/// The policies that were deleted, with their bindings.
struct RemovedPolicies(Vec<(Api<DynamicObject>, Vec<DynamicObject>)>);

// === impl RemovedPolicies ===

impl RemovedPolicies {
    /// Reads what [`remove`](Self::remove) removes.
    async fn read(client: &Client) -> Result<Self> {
        let mut all = Vec::new();
        for kind in ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"] {
            let resource =
                ApiResource::from_gvk(&GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind));
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let objects = api.list(&ListParams::default()).await.with_context(|| kind)?.items;
            all.push((api, objects));
        }
        Ok(Self(all))
    }

    async fn remove(&self) -> Result<()> {
        for (api, objects) in &self.0 {
            for object in objects {
                api.delete(&object.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    async fn restore(&self) -> Result<()> {
        for (api, objects) in &self.0 {
            for object in objects {
                let ObjectMeta { name, labels, annotations, .. } = object.metadata.clone();
                let metadata = ObjectMeta { name, labels, annotations, ..ObjectMeta::default() };
                match api.create(&PostParams::default(), &DynamicObject { metadata, ..object.clone() }).await
                {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    created => drop(created?),
                }
            }
        }
        Ok(())
    }
}

/// What its owner wrote of an object, with the defaults of the API server.
fn written(object: &impl serde::Serialize) -> Result<Value> {
    let mut object = serde_json::to_value(object)?;
    let fields = object.as_object_mut().context("an object")?;
    fields.remove("status");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !OWN_METADATA.contains(&field.as_str()) && field != "generateName");
        // The API server copies it from the node that the scheduler selected.
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(ZONE);
        }
    }
    // The size is Rouse's to write, and the node the scheduler's.
    if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|field, _| field != "replicas" && field != "nodeName");
    }
    Ok(object)
}

/// The only pod of the workload.
async fn pod(namespace: &TestNamespace) -> Result<Pod> {
    let pods = pods_of(namespace, NAME).await?;
    ensure!(pods.len() == 1, "{} pods", pods.len());
    pods.into_iter().next().context("no pod")
}

/// Fails if a part of Rouse wrote a field of the pod, its status included.
fn ensure_not_written_by_rouse(pod: &Pod) -> Result<()> {
    let managers = pod.metadata.managed_fields.iter().flatten().filter_map(|fields| fields.manager.as_ref());
    for manager in managers {
        ensure!(!COMPONENTS.contains(&manager.as_str()), "{manager} wrote the pod");
    }
    Ok(())
}

/// The same Deployment, in a namespace without any object of Rouse.
async fn owners_objects(namespace: &TestNamespace, workload: &Workload) -> Result<(Value, Value)> {
    workload.create_deployment(namespace).await?;
    // Ready, so that Kubernetes' controllers have written all of their fields.
    until_rolled_out(namespace, NAME, POD_START).await?;
    let pod = pod(namespace).await?;
    let deployment = namespace.api::<Deployment>().get(NAME).await?;
    Ok((written(&pod)?, written(&deployment)?))
}

async fn sleeps_and_wakes(namespace: &TestNamespace) -> Result<()> {
    until_injection(namespace, false).await?;
    let workload = Workload { sidecar: Sidecar::None, ..Workload::new(NAME) };
    let owner = TestNamespace::create(namespace.client.clone(), "rouse-test-owner").await?;
    let written = owners_objects(&owner, &workload).await?;
    try_join(owner.delete(), stays_as_written(namespace, &workload, &written)).await.map(drop)
}

/// Wakes the workload, lets it go to zero, and wakes it again.
async fn stays_as_written(
    namespace: &TestNamespace,
    workload: &Workload,
    (owners_pod, owners_deployment): &(Value, Value),
) -> Result<()> {
    let url = create_at_zero(workload, namespace, POD_START).await?;
    for cycle in 0..2 {
        if cycle > 0 {
            until_replicas(namespace, NAME, |n| n == 0, TO_ZERO).await?;
            wait::until("the pod to be gone", POD_START, || async {
                Ok(pods_of(namespace, NAME).await?.is_empty().then_some(()))
            })
            .await?;
        }
        let response = send_one_request(&url, namespace).await.with_context(|| format!("wake {cycle}"))?;
        let woken = pod(namespace).await?;
        ensure!(response.pod == woken.name_any(), "{response:?}");
        ensure_not_written_by_rouse(&woken)?;
        let as_written = written(&woken)?;
        ensure!(
            serde_json::to_vec(&as_written)? == serde_json::to_vec(owners_pod)?,
            "the pod is {as_written}, and its owner's {owners_pod}"
        );
    }
    let deployment = written(&namespace.api::<Deployment>().get(NAME).await?)?;
    ensure!(deployment == *owners_deployment, "the Deployment is {deployment}, written {owners_deployment}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn plain_pods_sleep_and_wake_as_their_owner_wrote_them() -> Result<()> {
    let namespace = begin_exclusive("plain-objects").await?;
    // All tests run without it there.
    if !Feature::MutatingAdmissionPolicy.is_served(&namespace.client).await? {
        return namespace.end().await;
    }
    let removed = RemovedPolicies::read(&namespace.client).await?;
    let tested = async {
        removed.remove().await?;
        sleeps_and_wakes(&namespace).await
    };
    let tested = tested.await;
    removed.restore().await?;
    until_injection(&namespace, !removed.0.iter().all(|(_, objects)| objects.is_empty())).await?;
    tested?;
    namespace.end().await
}
