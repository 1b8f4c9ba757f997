//! The webhook for the sidecar, which metrics-adapters serve where the API server has no policies
//! that change pods. Elsewhere it is served for the attacks alone, and no API server calls it.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::Api;
use system_tests::cluster::installation::{self, NAMESPACE};
use system_tests::cluster::kubectl;

const ADAPTER: &str = "metrics-adapter";
/// Its flag, as a variable.
const IMAGE: &str = "ROUSE_SIDECAR_IMAGE";
/// Time for the pods of the adapter to be replaced, one after the other and a minute apart.
const ROLLOUT: Duration = Duration::from_secs(300);

pub(crate) struct ServedWebhook {
    was_served: bool,
}

// === impl ServedWebhook ===

impl ServedWebhook {
    /// `None` if it is not served and `replace` is false: to serve it, the adapter's pods are
    /// replaced.
    pub(crate) async fn start(client: &Client, replace: bool) -> Result<Option<Self>> {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        let pod = deployments.get(ADAPTER).await?.spec.template.spec;
        let container = pod.and_then(|pod| pod.containers.into_iter().next());
        let container = container.context("the metrics-adapter has no container")?;
        let was_served = container.env.iter().flatten().any(|variable| variable.name == IMAGE);
        if !was_served && !replace {
            return Ok(None);
        }
        if !was_served {
            set(&format!("{IMAGE}=rouse/queue-proxy")).await?;
            installation::until_rolled_out(client, ADAPTER, ROLLOUT).await?;
            installation::until_ready(client, ROLLOUT).await?;
        }
        Ok(Some(Self { was_served }))
    }

    pub(crate) async fn end(self) -> Result<()> {
        if self.was_served { Ok(()) } else { set(&format!("{IMAGE}-")).await }
    }
}

/// Sets or removes a variable of the adapter.
async fn set(variable: &str) -> Result<()> {
    let deployment = format!("deployment/{ADAPTER}");
    kubectl::run(&["--namespace", NAMESPACE, "set", "env", &deployment, variable]).await?;
    Ok(())
}
