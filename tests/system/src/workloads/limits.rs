//! What a namespace limits: quotas and LimitRanges.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::namespace::TestNamespace;
use crate::wait;

/// Time for the controller of quotas to count what there is, also of a kind that is new to it.
const COUNTED: Duration = Duration::from_secs(180);

/// Creates a quota, and waits until it is in force.
///
/// # Errors
/// When the API refuses it, and after the deadline.
pub async fn create_quota(namespace: &TestNamespace, name: &str, hard: Value) -> Result<()> {
    let quotas: Api<ResourceQuota> = namespace.api();
    let quota = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"hard": hard}}))?;
    quotas.create(&PostParams::default(), &quota).await?;
    wait::until("the quota", COUNTED, || async {
        let status = quotas.get(name).await?.status;
        Ok(status.and_then(|status| status.used).map(drop))
    })
    .await
}

/// Deletes a quota.
///
/// # Errors
/// When the API refuses.
pub async fn delete_quota(namespace: &TestNamespace, name: &str) -> Result<()> {
    namespace.api::<ResourceQuota>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// Creates a LimitRange with one limit.
///
/// # Errors
/// When the API refuses it.
pub async fn create_limit(namespace: &TestNamespace, name: &str, limit: Value) -> Result<()> {
    let limits: Api<LimitRange> = namespace.api();
    let limit = json!({"metadata": {"name": name}, "spec": {"limits": [limit]}});
    limits.create(&PostParams::default(), &serde_json::from_value(limit)?).await?;
    Ok(())
}

/// Deletes a LimitRange.
///
/// # Errors
/// When the API refuses.
pub async fn delete_limit(namespace: &TestNamespace, name: &str) -> Result<()> {
    namespace.api::<LimitRange>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}
