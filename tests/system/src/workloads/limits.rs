//! What a namespace limits: quotas and LimitRanges.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::cluster::namespace::TestNamespace;
use crate::wait;

/// Time for the controller of quotas to count what there is, also of a kind that is new to it.
const COUNTED: Duration = Duration::from_secs(180);

/// Creates a quota, and waits until it is in force.
///
/// The API server applies quotas from a cache, which receives a quota's status some time after the
/// API does. The cache keeps the order: once a later quota refuses an object, this one is in it.
///
/// # Errors
/// When the API refuses it, and after the deadline.
pub async fn create_quota(namespace: &TestNamespace, name: &str, hard: Value) -> Result<()> {
    create_counted_quota(namespace, name, hard).await?;
    let later = format!("{name}-later");
    create_counted_quota(namespace, &later, json!({"count/leases.coordination.k8s.io": "0"})).await?;
    let leases: Api<Lease> = namespace.api();
    let lease = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    wait::until("a Lease that a quota refuses", COUNTED, || async {
        match leases.create(&dry_run, &lease).await {
            Err(kube::Error::Api(refused)) if refused.message.contains("exceeded quota") => Ok(Some(())),
            created => created.map(|_| None).map_err(Into::into),
        }
    })
    .await?;
    delete_quota(namespace, &later).await
}

/// Creates a quota again until its use is counted: the controller of quotas lists the API's kinds
/// each 30 seconds, and returns to a quota of a kind that was new to it after 5 minutes only.
async fn create_counted_quota(namespace: &TestNamespace, name: &str, hard: Value) -> Result<()> {
    let quotas: Api<ResourceQuota> = namespace.api();
    let quota = serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"hard": hard}}))?;
    wait::until("a counted quota", COUNTED, || async {
        quotas.create(&PostParams::default(), &quota).await?;
        let counted = wait::until("the use of a quota", Duration::from_secs(20), || async {
            let status = quotas.get(name).await?.status;
            Ok(status.and_then(|status| status.used).map(drop))
        })
        .await;
        if counted.is_err() {
            delete_quota(namespace, name).await?;
        }
        counted.map(Some)
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
