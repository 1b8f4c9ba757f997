//! The sidecars of pods: whether the cluster adds them, and the annotations that choose their
//! ports.

use std::time::Duration;

use anyhow::{Result, ensure};
use autoscaler::api::sidecar;
use autoscaler::contract::INJECT_LABEL;
use autoscaler::contract::sidecar_ports::{
    SIDECAR_ADMIN_PORT, SIDECAR_PORT, SIDECAR_STATS_PORT, SidecarPorts,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::json;

use crate::cluster::namespace::{TestNamespace, pods_of};
use crate::wait;

/// Enough for API servers to follow a change of policies or webhooks.
const FOLLOWED: Duration = Duration::from_secs(60);

/// Waits until the API server adds sidecars to labelled pods, or does not. A dry run creates none.
///
/// # Errors
/// After a minute.
pub async fn until_injection(namespace: &TestNamespace, wanted: bool) -> Result<()> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "labelled", "labels": {INJECT_LABEL: "true"}},
        "spec": {"containers": [{"name": "app", "image": "app", "ports": [{"containerPort": 8080}]}]},
    }))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until(&format!("sidecars of labelled pods: {wanted}"), FOLLOWED, || async {
        let admitted = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok((has_sidecar(&admitted) == wanted).then_some(()))
    })
    .await
}

/// Checks that a workload has pods, and all of them a sidecar.
///
/// # Errors
/// With the first pod that has none.
pub async fn ensure_have_sidecars(namespace: &TestNamespace, workload: &str) -> Result<()> {
    let pods = pods_of(namespace, workload).await?;
    ensure!(!pods.is_empty(), "{workload} has no pod");
    for pod in &pods {
        ensure!(has_sidecar(pod), "pod {} has no sidecar", pod.name_any());
    }
    Ok(())
}

/// Whether a pod has a sidecar.
pub fn has_sidecar(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(sidecar).is_some()
}

/// The annotations of pods that choose these ports for their sidecar.
pub fn port_annotations(ports: SidecarPorts) -> [(&'static str, String); 3] {
    let SidecarPorts { traffic, admin, stats } = ports;
    [(SIDECAR_PORT, traffic), (SIDECAR_ADMIN_PORT, admin), (SIDECAR_STATS_PORT, stats)]
        .map(|(annotation, port)| (annotation, port.to_string()))
}
