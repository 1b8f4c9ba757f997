//! The Deployments of Rouse: whether each has an available pod, and why pods are not.

pub(super) mod spread;

use autoscaler::findings::deployment_conditions::{condition, creation_failure};
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::apps::v1::Deployment;

use crate::check::cluster_objects::{ACTIVATOR, ClusterObjects, METRICS_ADAPTER};
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;
use crate::check::pod_failure::{PodFailure, failure};

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    cluster.deployments.iter().filter_map(|(name, object)| check_one(cluster, name, object)).collect()
}

fn check_one(cluster: &ClusterObjects, name: &str, object: &Fetched<Deployment>) -> Option<Finding> {
    let described = format!("Deployment {}/{name}", cluster.system_namespace);
    let deployment = match object {
        Fetched::Found(deployment) => deployment,
        Fetched::NotFound => {
            let problem = format!("it does not exist: {}", effect(name));
            return Some(Finding::error(described, CheckReason::NotInstalled, problem));
        }
        Fetched::Unreadable(_) => return None,
    };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    if wanted == 0 {
        let problem = format!("it is scaled to 0: {}", effect(name));
        return Some(Finding::error(described, CheckReason::NoReplicas, problem));
    }
    let failure = cluster.pods_of(name).find_map(|pod| failure(pod, cluster.now));
    let cause = cause(deployment, failure.as_ref());
    let because = cause.as_ref().map(|cause| format!("; {cause}")).unwrap_or_default();
    if available == 0 {
        let problem = format!("none of {wanted} pods is available: {}{because}", effect(name));
        return Some(Finding::error(described, CheckReason::Unavailable, problem));
    }
    if available < wanted && (is_stuck(deployment) || cause.is_some()) {
        let problem =
            format!("{available} of {wanted} pods are available, and the rollout does not proceed{because}");
        return Some(Finding::warning(described, CheckReason::PartlyUnavailable, problem));
    }
    if let Some(cause) = cause {
        let problem = format!("{available} pods are available, and another one fails: {cause}");
        return Some(Finding::warning(described, CheckReason::PodFailing, problem));
    }
    deployment.spec.paused.unwrap_or(false).then(|| {
        let problem = "its rollout is paused, so changes do not reach its pods";
        Finding::warning(described, CheckReason::RolloutPaused, problem)
    })
}

/// Why pods are missing.
fn cause(deployment: &Deployment, failure: Option<&PodFailure>) -> Option<String> {
    let not_created =
        creation_failure(deployment).map(|message| format!("pods cannot be created: {message}"));
    not_created.or_else(|| failure.map(ToString::to_string))
}

/// Whether fewer pods than allowed are available, or a rollout exceeded its deadline. During a
/// rollout there are fewer for a while.
fn is_stuck(deployment: &Deployment) -> bool {
    ["Available", "Progressing"].iter().any(|kind| condition(deployment, kind, "False").is_some())
}

fn effect(name: &str) -> &'static str {
    match name {
        METRICS_ADAPTER => "HPAs keep their sizes, and nothing goes to zero",
        ACTIVATOR => "no request can be held, so workloads stay above zero",
        _ => "no size is written in a panic or at zero, except by activators after 30 s",
    }
}
