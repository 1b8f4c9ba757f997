//! The conditions of an HPA.

use anyhow::{Context, Result};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::Api;

use crate::cluster::namespace::TestNamespace;

/// Status, reason and message of an HPA's condition `ScalingActive`.
///
/// # Errors
/// When the HPA has no such condition yet.
pub async fn scaling_active(namespace: &TestNamespace, name: &str) -> Result<(String, String, String)> {
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    let status = autoscalers.get(name).await?.status.context("the HPA has no status yet")?;
    let condition = status.conditions.into_iter().flatten().find(|c| c.type_ == "ScalingActive");
    let condition = condition.context("the HPA has no condition ScalingActive yet")?;
    Ok((condition.status, condition.reason.unwrap_or_default(), condition.message.unwrap_or_default()))
}
