//! Questions to the metrics-adapter, through the API server, as an HPA's are.

use std::time::Duration;

use anyhow::{Context, Result};
use autoscaler::quantity::parse_milli;
use kube::{Client, Config};
use serde_json::Value;

/// Where the adapter's API begins.
pub const API: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// Time for one question; whoever does not answer within it has failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client that asks once. The usual one asks a server that is not available again and again, where an HPA fails.
///
/// # Errors
/// When there is neither a kubeconfig nor a service account.
pub async fn asks_once() -> Result<Client> {
    let mut config = Config::infer().await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// What is at a path, as JSON.
///
/// # Errors
/// When it is refused, not there, not JSON, or not told in time.
pub async fn ask(client: &Client, path: &str) -> Result<Value> {
    let request = http::Request::get(path).body(Vec::new())?;
    let answer = tokio::time::timeout(PATIENCE, client.request_text(request)).await;
    Ok(serde_json::from_str(&answer.context("no answer in time")??)?)
}

/// A metric of a Service, in thousandths.
///
/// # Errors
/// When there is no value.
pub async fn of_service(client: &Client, namespace: &str, metric: &str, service: &str) -> Result<i64> {
    let path = format!("{API}/namespaces/{namespace}/{metric}?labelSelector=service%3D{service}");
    let list = ask(client, &path).await?;
    let value = list.pointer("/items/0/value").and_then(Value::as_str).context("no value")?;
    Ok(parse_milli(value)?)
}
