//! Attacks by a client pod, on command of a test.

use anyhow::{Context, Result, bail};
use futures::{AsyncBufReadExt, StreamExt};
use hostile::{AttackCommand, AttackReport};

use crate::cluster::namespace::{CLIENT_PORT, TestNamespace};

/// Attacks from this pod until the command's time is over. Dropping the future ends the attack.
///
/// # Errors
/// When the pod fails. A target that refuses is part of the report.
pub async fn run(namespace: &TestNamespace, pod: &str, command: &AttackCommand) -> Result<AttackReport> {
    let path = format!(
        "/api/v1/namespaces/{}/pods/{pod}:{CLIENT_PORT}/proxy/attack?{}",
        namespace.name,
        command.query()
    );
    let request = http::Request::get(path).body(Vec::<u8>::new())?;
    let lines = namespace.client.request_stream(request).await.context("starting an attack")?;
    let mut lines = std::pin::pin!(lines.lines());
    while let Some(line) = lines.next().await {
        let line = line.context("reading the attacker's report")?;
        if !line.is_empty() {
            return serde_json::from_str(&line).with_context(|| format!("the attacker sent {line:?}"));
        }
    }
    bail!("the attacker ended without a report")
}
