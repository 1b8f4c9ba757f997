//! Queries to the metrics-adapter through the API server, as an HPA sends them.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::contract::quantity::parse_milli;
use kube::{Client, Config};
use serde_json::Value;

/// Root path of the adapter's API.
pub const API: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// Time for one query; a later response counts as a failure.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client that sends each query once. The default client retries when a server is not available,
/// where an HPA fails.
///
/// # Errors
/// When there is neither a kubeconfig nor a service account.
pub async fn client_without_retries() -> Result<Client> {
    let mut config = Config::infer().await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// The JSON at a path.
///
/// # Errors
/// When the request is refused or times out, or the body is not JSON.
pub async fn get_json(client: &Client, path: &str) -> Result<Value> {
    let request = http::Request::get(path).body(Vec::new())?;
    let response = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
    Ok(serde_json::from_str(&response.context("no response in time")??)?)
}

/// A metric of a Service, in thousandths.
///
/// # Errors
/// When there is no value.
pub async fn service_metric_milli(
    client: &Client,
    namespace: &str,
    metric: &str,
    service: &str,
) -> Result<i64> {
    let path = format!("{API}/namespaces/{namespace}/{metric}?labelSelector=service%3D{service}");
    let list = get_json(client, &path).await?;
    let value = list.pointer("/items/0/value").and_then(Value::as_str).context("no value")?;
    Ok(parse_milli(value)?)
}
