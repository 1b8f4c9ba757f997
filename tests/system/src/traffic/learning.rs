//! What the metrics-adapter reports about the learned target of a workload.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cluster::namespace::TestNamespace;
use crate::traffic::metric::{API, get_json};

/// The part `learning` of a workload's `why`.
///
/// # Errors
/// When the adapter does not respond, or learns nothing about the workload.
pub async fn learning(namespace: &TestNamespace, name: &str) -> Result<Value> {
    let path = format!("{API}/namespaces/{}/why/{name}", namespace.name);
    let why = get_json(&namespace.client, &path).await?;
    why.get("learning").cloned().context("no learning in why")
}

/// A number of the status, by its JSON pointer.
///
/// # Errors
/// When there is none.
pub fn number(learning: &Value, pointer: &str) -> Result<f64> {
    learning.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("no {pointer} in {learning}"))
}
