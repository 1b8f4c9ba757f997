//! Deletion of an HPA without its PodAutoscaler, as `kubectl delete --cascade=orphan` does.
//!
//! The garbage collector of Kubernetes removes the references to such an owner from its dependents,
//! as far as they are in its graph (`attemptToOrphanWorker` in
//! `pkg/controller/garbagecollector/garbagecollector.go`). A kind is in the graph after the next
//! discovery, each 30 s (`syncPeriod` in `cmd/kube-controller-manager/app/core.go`). In a cluster
//! that has just started, PodAutoscalers are not: then nothing is orphaned, the owner is deleted,
//! and later the PodAutoscaler is collected, because its owner does not exist.

use std::time::Duration;

use anyhow::Result;
use autoscaler::api::PodAutoscaler;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::cluster::namespace::TestNamespace;
use crate::wait;

/// Twice the time between two discoveries.
const DISCOVERED: Duration = Duration::from_secs(60);
const COLLECTED: &str = "collected";

/// Deletes an HPA once the garbage collector has PodAutoscalers in its graph.
///
/// # Errors
/// When the API refuses, or the garbage collector collects no PodAutoscaler within a minute.
pub async fn delete_hpa(namespace: &TestNamespace, name: &str) -> Result<()> {
    until_collected(namespace.api()).await?;
    let hpas: Api<HorizontalPodAutoscaler> = namespace.api();
    hpas.delete(name, &DeleteParams::orphan()).await?;
    Ok(())
}

/// Waits until a PodAutoscaler with an owner that does not exist is collected. Its target does not
/// exist either.
async fn until_collected(autoscalers: Api<PodAutoscaler>) -> Result<()> {
    let object = json!({
        "metadata": {"name": COLLECTED, "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": COLLECTED,
            "uid": "00000000-0000-4000-8000-000000000000"}]},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": COLLECTED},
            "service": COLLECTED},
    });
    autoscalers.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    wait::until("a PodAutoscaler without its owner to be collected", DISCOVERED, || async {
        Ok(autoscalers.get_opt(COLLECTED).await?.is_none().then_some(()))
    })
    .await
}
