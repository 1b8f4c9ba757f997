//! Conditions of a Deployment: of a workload or of Rouse.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};

/// The condition of a type, if it has this status.
pub fn condition<'a>(
    deployment: &'a Deployment,
    kind: &str,
    status: &str,
) -> Option<&'a DeploymentCondition> {
    let mut all = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.find(|it| it.type_.as_deref() == Some(kind) && it.status.as_deref() == Some(status))
}

/// Why the API server refuses the pods of a Deployment, in its own words.
pub fn creation_failure(deployment: &Deployment) -> Option<&str> {
    let failure = condition(deployment, "ReplicaFailure", "True")?;
    Some(failure.message.as_deref().unwrap_or("no message"))
}
