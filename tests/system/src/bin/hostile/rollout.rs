//! A rollout of the activators under an attack: how soon metrics-adapters and zero-scalers accept
//! the connections of new ones, which need a review of a token that no cache has.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::contract::ADMIN_PORT;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use system_tests::cluster::installation;
use system_tests::cluster::namespace::is_ready;
use system_tests::wait;

/// Time for new activators to be ready.
const READY: Duration = Duration::from_secs(120);
/// Time for their connections to be accepted then. Without an attack it takes less than a second.
const ACCEPTED: Duration = Duration::from_secs(15);

/// Replaces the activators, and waits until each new one reports to every receiver.
///
/// # Errors
/// When that takes too long.
pub(crate) async fn replace(client: &Client, activators: &str) -> Result<()> {
    let before = installation::ready_pods(client, activators).await?;
    installation::restart_component(client, activators).await?;
    let new = wait::until("new activators to be ready", READY, || async {
        let pods: Vec<Pod> =
            installation::system_api(client).list(&installation::component_selector(activators)).await?.items;
        let ready = pods.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any);
        let new: Vec<String> = ready.filter(|name| !before.contains(name)).collect();
        Ok((new.len() >= before.len()).then_some(new))
    })
    .await?;
    let mut receivers = installation::ready_pods(client, "metrics-adapter").await?.len();
    receivers += installation::ready_pods(client, "zero-scaler").await?.len();
    wait::until("reports of the new activators to be accepted", ACCEPTED, || async {
        for pod in &new {
            if push_connections(client, pod).await? < receivers {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

async fn push_connections(client: &Client, pod: &str) -> Result<usize> {
    let namespace = autoscaler::contract::SYSTEM_NAMESPACE;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{ADMIN_PORT}/proxy/metrics");
    let metrics = client.request_text(http::Request::get(path).body(Vec::new())?).await?;
    let value = metrics.lines().find_map(|line| line.strip_prefix("rouse_activator_push_connections "));
    Ok(value.context("no metric of push connections")?.trim().parse()?)
}
