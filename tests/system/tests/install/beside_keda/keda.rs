//! KEDA itself, installed by its own manifests, and a workload that it scales.
//!
//! The variable KEDA names the folder with its images and manifests, which `make test-keda` builds.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, pin_mut};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};
use system_tests::cluster::cluster_tool::load_image;
use system_tests::cluster::installation::{API_SERVICE, until_served};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::workloads::workload::{Sidecar, Workload, scale, until_replicas};

use crate::installed::api_service_text;

/// The Service of KEDA's metrics server.
pub(crate) const KEDA_SERVICE: &str = "keda/keda-metrics-apiserver";
/// The operator makes its certificate, restarts, and its probes begin late. Its metrics server
/// starts when there is a certificate.
const STARTED: Duration = Duration::from_secs(240);
/// Polls of KEDA, two periods of the HPA, and pods that start.
const FOLLOWED: Duration = Duration::from_secs(90);

/// KEDA on the cluster.
pub(crate) struct Keda {
    client: Client,
    folder: String,
}

/// A workload of KEDA: it has as many pods as the Deployment `queue`.
pub(crate) struct Consumer<'a> {
    namespace: &'a TestNamespace,
}

// === impl Keda ===

impl Keda {
    /// Loads the images.
    pub(crate) fn load(client: &Client) -> Result<Self> {
        let folder = std::env::var("KEDA").context("KEDA is not set; run make test-keda")?;
        for image in ["keda", "keda-adapter", "keda-admission-webhooks"] {
            load_image(&format!("{folder}/{image}.tar"))?;
        }
        Ok(Self { client: client.clone(), folder })
    }

    /// Applies the manifests as KEDA documents it: by the server, because its CRDs are too large
    /// for an annotation.
    pub(crate) async fn apply(&self, arguments: &[&str]) -> Result<()> {
        let apply = ["apply", "--server-side", "--kustomize", &self.folder];
        kubectl::run(&[&apply[..], arguments].concat()).await?;
        Ok(())
    }

    /// Waits until its metrics API is served and its webhook accepts connections.
    pub(crate) async fn until_started(&self) -> Result<()> {
        until_served(&self.client, API_SERVICE, STARTED).await?;
        for deployment in ["keda-operator", "keda-metrics-apiserver", "keda-admission"] {
            let deployment = format!("deployment/{deployment}");
            let status = ["--namespace", "keda", "rollout", "status", &deployment, "--timeout=4m"];
            kubectl::run(&status).await?;
        }
        Ok(())
    }

    /// The APIService, as the API server sends it.
    pub(crate) async fn api_service(&self) -> Result<String> {
        api_service_text(&self.client, API_SERVICE).await
    }

    /// Checks that the APIService is the same, byte for byte.
    pub(crate) async fn ensure_unchanged(&self, before: &str) -> Result<()> {
        let after = self.api_service().await?;
        ensure!(after == before, "the APIService of KEDA was\n{before}\nand is\n{after}");
        Ok(())
    }

    /// How often the `spec` of the APIService changed in that time. Its status is Kubernetes' own.
    pub(crate) async fn changes(&self, period: Duration) -> Result<usize> {
        let services: Api<APIService> = Api::all(self.client.clone());
        let service = services.get(API_SERVICE).await?;
        let version = service.metadata.resource_version.unwrap_or_default();
        let selected =
            WatchParams::default().disable_bookmarks().fields(&format!("metadata.name={API_SERVICE}"));
        let events = services.watch(&selected, &version).await?.take_until(tokio::time::sleep(period));
        let (mut last, mut changes) = (service.spec, 0);
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let WatchEvent::Modified(APIService { spec, .. }) = event? else {
                bail!("APIService {API_SERVICE} was deleted")
            };
            changes += usize::from(spec != last);
            last = spec;
        }
        Ok(changes)
    }

    /// Deletes it, ScaledObjects first: its operator removes their finalizers.
    pub(crate) async fn delete(self) -> Result<()> {
        kubectl::run(&["delete", "scaledobjects", "--all", "--all-namespaces"]).await?;
        kubectl::run(&["delete", "--kustomize", &self.folder, "--ignore-not-found"]).await?;
        Ok(())
    }
}

// === impl Consumer ===

impl<'a> Consumer<'a> {
    const NAME: &'static str = "consumer";
    const QUEUE: &'static str = "queue";

    /// Creates both Deployments and the ScaledObject.
    pub(crate) async fn create(namespace: &'a TestNamespace) -> Result<Self> {
        for name in [Self::QUEUE, Self::NAME] {
            let workload = Workload { sidecar: Sidecar::None, replicas: 0, ..Workload::new(name) };
            workload.create_deployment(namespace).await?;
        }
        create_scaled_object(namespace, Self::NAME).await?;
        Ok(Self { namespace })
    }

    /// Brings the queue to each of these sizes, and waits until KEDA has followed it.
    pub(crate) async fn ensure_follows(&self, sizes: &[i32]) -> Result<()> {
        for &size in sizes {
            scale(self.namespace, Self::QUEUE, size).await?;
            until_replicas(self.namespace, Self::NAME, |now| now == size, FOLLOWED).await?;
        }
        println!("KEDA scaled its workload to {sizes:?}");
        Ok(())
    }
}

/// Creates a ScaledObject for a Deployment: one pod for each pod of the queue.
pub(crate) async fn create_scaled_object(namespace: &TestNamespace, target: &str) -> Result<()> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("keda.sh", "v1alpha1", "ScaledObject"));
    let objects: Api<DynamicObject> = Api::namespaced_with(namespace.client.clone(), &namespace.name, &kind);
    let object = serde_json::from_value(scaled_object(target))?;
    objects.create(&PostParams::default(), &object).await?;
    Ok(())
}

fn scaled_object(target: &str) -> Value {
    json!({
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": target},
        "spec": {
            "scaleTargetRef": {"name": target},
            "minReplicaCount": 0,
            "maxReplicaCount": 5,
            "pollingInterval": 2,
            "cooldownPeriod": 5,
            "advanced": {"horizontalPodAutoscalerConfig": {
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
            }},
            "triggers": [{
                "type": "kubernetes-workload",
                "metadata": {"podSelector": format!("app={}", Consumer::QUEUE), "value": "1"},
            }],
        },
    })
}
