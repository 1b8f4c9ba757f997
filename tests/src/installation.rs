//! Whether Rouse is installed and up, and the settings under which a test runs.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::wait;

/// Namespace of the installation.
pub const NAMESPACE: &str = autoscaler::contract::SYSTEM_NAMESPACE;
/// The Deployments of an installation.
pub const PARTS: [&str; 3] = ["metrics-adapter", "zero-scaler", "activator"];
/// The adapter's APIService.
pub const API_SERVICE: &str = "v1beta1.external.metrics.k8s.io";

/// Waits until every part is available and the API answers.
///
/// # Errors
/// After the deadline, with what is missing.
pub async fn until_ready(client: &Client, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    for part in PARTS {
        wait::until(&format!("{part} to be available"), deadline, || async {
            Ok(is_available(&deployments.get(part).await?).then_some(()))
        })
        .await?;
    }
    let services: Api<APIService> = Api::all(client.clone());
    wait::until(&format!("APIService {API_SERVICE} to be available"), deadline, || async {
        let service = services.get(API_SERVICE).await?;
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        match conditions.iter().find(|c| c.type_ == "Available") {
            Some(condition) if condition.status == "True" => Ok(Some(())),
            Some(condition) => anyhow::bail!("{}", condition.message.as_deref().unwrap_or_default()),
            None => Ok(None),
        }
    })
    .await
}

/// Lets workloads go to zero after `grace` in Proxy mode; the stock 30 s would make every test that much longer.
///
/// # Errors
/// When the ConfigMap cannot be changed.
pub async fn set_grace_period(client: &Client, grace: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"data": {"scale-to-zero-grace-period": grace}});
    maps.patch(autoscaler::contract::CONFIG_MAP, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Scales one of our own Deployments.
///
/// # Errors
/// When the API refuses.
pub async fn scale_part(client: &Client, part: &str, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"spec": {"replicas": replicas}});
    deployments.patch_scale(part, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Replaces the pods of one of our own Deployments, as `kubectl rollout restart` does.
///
/// # Errors
/// When the API refuses.
pub async fn restart_part(client: &Client, part: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    deployments.restart(part).await?;
    Ok(())
}

/// Whether all replicas are ready. Kubernetes calls them available later: a metrics-adapter has to fill its windows first.
fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let current = status.and_then(|s| s.observed_generation) == deployment.metadata.generation;
    current && status.and_then(|s| s.ready_replicas).unwrap_or(0) >= wanted
}
