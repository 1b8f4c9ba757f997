//! A namespace for each test, with a client pod that sends the test's requests.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

use crate::cluster::lock::ClusterGuard;
use crate::wait;

/// Image of the sample app, which is also the client.
pub const SAMPLE_APP: &str = concat!("rouse/sample-app:v", env!("CARGO_PKG_VERSION"));
/// Name of the client pod.
pub const CLIENT_POD: &str = "client";
/// Port on which the client pod accepts commands to send load.
pub const CLIENT_PORT: u16 = 8081;
/// Time for the end of a namespace. Another test may stop the zero-scaler or the metrics-adapter
/// meanwhile, which it needs.
const GONE: Duration = Duration::from_secs(300);

/// A namespace and its client pod.
#[derive(Clone)]
pub struct TestNamespace {
    pub client: Client,
    pub name: String,
    guard: Option<ClusterGuard>,
}

// === impl TestNamespace ===

impl TestNamespace {
    /// Creates the namespace and waits for its client pod. Deletes a namespace with the same name
    /// from an earlier run first.
    ///
    /// # Errors
    /// When the API refuses, or the pod does not become ready within a minute.
    pub async fn create(client: Client, name: &str) -> Result<Self> {
        let this = Self { client, name: name.to_owned(), guard: None };
        this.create_object().await?;
        this.start_client().await?;
        Ok(this)
    }

    /// A further namespace of the same test, which has to delete it. It has no client pod and no
    /// NetworkPolicies.
    ///
    /// # Errors
    /// When the API refuses.
    pub async fn sibling(&self, name: &str) -> Result<Self> {
        let this = Self { client: self.client.clone(), name: name.to_owned(), guard: None };
        this.create_object().await?;
        Ok(this)
    }

    async fn create_object(&self) -> Result<()> {
        self.delete().await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": self.name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await.context("creating the namespace")?;
        Ok(())
    }

    /// Keeps the guard for as long as this namespace or a clone of it is in use.
    #[must_use]
    pub fn with_guard(self, guard: ClusterGuard) -> Self {
        Self { guard: Some(guard), ..self }
    }

    /// The same namespace, through another API client.
    #[must_use]
    pub fn with_client(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// Ends the test: deletes the namespace, and waits until it is gone. Other tests use the
    /// cluster meanwhile, because that takes ten seconds and more: the namespace controller pauses
    /// between its attempts.
    ///
    /// # Errors
    /// When it still exists after some minutes.
    pub async fn end(&self) -> Result<()> {
        self.begin_deletion().await?;
        self.guard.iter().for_each(ClusterGuard::release);
        self.until_gone().await
    }

    /// Deletes the namespace and waits until it is gone.
    ///
    /// # Errors
    /// When it still exists after some minutes.
    pub async fn delete(&self) -> Result<()> {
        self.begin_deletion().await?;
        self.until_gone().await
    }

    async fn begin_deletion(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.delete(&self.name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            deleted => deleted.map(drop).context("deleting the namespace"),
        }
    }

    async fn until_gone(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        wait::until(&format!("namespace {} to be gone", self.name), GONE, || async {
            Ok(namespaces.get_opt(&self.name).await?.is_none().then_some(()))
        })
        .await
    }

    /// An API of this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    async fn start_client(&self) -> Result<()> {
        let pods: Api<Pod> = self.api();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": CLIENT_POD, "labels": {"app.kubernetes.io/name": "client"}},
            "spec": {
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "client",
                    "image": SAMPLE_APP,
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["client", "--port", CLIENT_PORT.to_string()],
                    "ports": [{"containerPort": CLIENT_PORT}],
                    "readinessProbe": {"tcpSocket": {"port": CLIENT_PORT}, "periodSeconds": 1},
                }],
            },
        }))?;
        // Pods are rejected until the namespace's service account exists, a moment after the
        // namespace.
        wait::until("the client pod to be accepted", Duration::from_secs(30), || async {
            match pods.create(&PostParams::default(), &pod).await {
                Ok(_) => Ok(Some(())),
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Some(())),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        wait::until("the client pod to be ready", Duration::from_secs(60), || async {
            Ok(is_ready(&pods.get(CLIENT_POD).await?).then_some(()))
        })
        .await
    }
}

/// Whether a pod's Ready condition is true.
pub fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
        && pod
            .status
            .iter()
            .flat_map(|status| status.conditions.iter().flatten())
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// The pods of a workload that are not being deleted.
///
/// # Errors
/// When the API refuses.
pub async fn pods_of(namespace: &TestNamespace, workload: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = namespace.api();
    let selected = pods.list(&kube::api::ListParams::default().labels(&format!("app={workload}"))).await?;
    Ok(selected.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect())
}
