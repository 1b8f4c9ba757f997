//! No part of Rouse runs, and its settings are gone: pods start with their sidecar all the same.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Client, ResourceExt};
use system_tests::cluster::installation::{
    self, COMPONENTS, begin_exclusive, scale_component, system_api, until_component_is_gone,
};
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};
use system_tests::cluster::version::Feature;
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;

/// The activators' drain, and their start.
const RESTORED: Duration = Duration::from_secs(120);
/// Kubernetes writes it into each namespace.
const ROOT_CA: &str = "kube-root-ca.crt";
const SIDECAR: &str = autoscaler::contract::QUEUE_PROXY;

/// The parts of the installation that the test removes.
struct Removed {
    replicas: Vec<(&'static str, i32)>,
    settings: Vec<ConfigMap>,
}

// === impl Removed ===

impl Removed {
    /// Reads what [`remove`](Self::remove) removes.
    async fn read(client: &Client) -> Result<Self> {
        let deployments: Api<Deployment> = system_api(client);
        let mut replicas = Vec::new();
        for component in COMPONENTS {
            replicas.push((component, deployments.get(component).await?.spec.replicas.unwrap_or(1)));
        }
        let maps = system_api::<ConfigMap>(client).list(&ListParams::default()).await?.items;
        let settings: Vec<_> = maps.into_iter().filter(|map| map.name_any() != ROOT_CA).collect();
        ensure!(!settings.is_empty(), "the installation has no ConfigMap");
        Ok(Self { replicas, settings })
    }

    /// Stops all components, so that their Services have no endpoints, and deletes all ConfigMaps.
    async fn remove(&self, client: &Client) -> Result<()> {
        for (component, _) in &self.replicas {
            scale_component(client, component, 0).await?;
        }
        for (component, _) in &self.replicas {
            until_component_is_gone(client, component, RESTORED).await?;
        }
        let maps: Api<ConfigMap> = system_api(client);
        for map in &self.settings {
            maps.delete(&map.name_any(), &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// Restores the whole installation, also what was not removed because of an error.
    async fn restore(&self, client: &Client) -> Result<()> {
        let maps: Api<ConfigMap> = system_api(client);
        for map in &self.settings {
            let ObjectMeta { name, labels, annotations, .. } = map.metadata.clone();
            let metadata = ObjectMeta { name, labels, annotations, ..ObjectMeta::default() };
            match maps.create(&PostParams::default(), &ConfigMap { metadata, ..map.clone() }).await {
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                created => drop(created?),
            }
        }
        let scaled = self.replicas.iter().map(|(component, n)| scale_component(client, component, *n));
        join_all(scaled).await.into_iter().collect::<Result<()>>()?;
        installation::until_ready(client, RESTORED).await
    }
}

/// Starts a labelled pod.
async fn pod_starts(namespace: &TestNamespace) -> Result<()> {
    Workload::new("started").create_deployment(namespace).await?;
    let pod = wait::until("a labelled pod to be ready", POD_START, || async {
        let replicas: Deployment = namespace.api().get("started").await?;
        let conditions = replicas.status.and_then(|status| status.conditions).unwrap_or_default();
        if let Some(failure) = conditions.iter().find(|c| c.type_.as_deref() == Some("ReplicaFailure")) {
            anyhow::bail!("{}", failure.message.as_deref().unwrap_or_default());
        }
        Ok(pods_of(namespace, "started").await?.into_iter().find(is_ready))
    })
    .await?;
    let status = pod.status.context("a pod without status")?;
    let sidecar = status.init_container_statuses.into_iter().flatten().find(|c| c.name == SIDECAR);
    ensure!(sidecar.is_some_and(|sidecar| sidecar.ready), "the pod has no ready sidecar");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn labelled_pod_starts_while_all_of_rouse_is_gone() -> Result<()> {
    let namespace = begin_exclusive("without-rouse").await?;
    let client = namespace.client.clone();
    // A webhook of the metrics-adapter adds none meanwhile: pods start without a sidecar.
    if !Feature::MutatingAdmissionPolicy.is_served(&client).await? {
        return namespace.end().await;
    }
    let removed = Removed::read(&client).await?;
    let started = async {
        removed.remove(&client).await?;
        pod_starts(&namespace).await
    };
    let started = started.await;
    removed.restore(&client).await?;
    started?;
    namespace.end().await
}
