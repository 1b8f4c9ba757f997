//! Rollouts of a workload's Deployment.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};

use crate::cluster::namespace::TestNamespace;
use crate::wait;

/// Waits until all pods are of the newest template, ready, and no other is left.
///
/// # Errors
/// After the deadline.
pub async fn until_rolled_out(namespace: &TestNamespace, name: &str, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = namespace.api();
    wait::until(&format!("the rollout of {name}"), deadline, || async {
        let deployment = deployments.get(name).await?;
        let status = deployment.status.unwrap_or_default();
        let wanted = deployment.spec.replicas;
        let is_complete = status.observed_generation == deployment.metadata.generation
            && status.updated_replicas == wanted
            && status.ready_replicas == wanted
            && status.replicas == wanted;
        Ok(is_complete.then_some(()))
    })
    .await
}

/// Waits until the workload has no pod, also none that is ending.
///
/// # Errors
/// After the deadline.
pub async fn until_pods_are_gone(namespace: &TestNamespace, name: &str, deadline: Duration) -> Result<()> {
    let selected = ListParams::default().labels(&format!("app={name}"));
    wait::until(&format!("the pods of {name} to be gone"), deadline, || async {
        Ok(namespace.api::<Pod>().list(&selected).await?.items.is_empty().then_some(()))
    })
    .await
}

/// Waits until no pod of the workload is ending: a rollout is complete before that.
///
/// # Errors
/// After the deadline.
pub async fn until_old_pods_are_gone(
    namespace: &TestNamespace,
    name: &str,
    deadline: Duration,
) -> Result<()> {
    let selected = ListParams::default().labels(&format!("app={name}"));
    wait::until("the pods from before the rollout to be gone", deadline, || async {
        let pods = namespace.api::<Pod>().list(&selected).await?.items;
        Ok(pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()).then_some(()))
    })
    .await
}
