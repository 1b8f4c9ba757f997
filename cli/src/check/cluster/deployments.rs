//! The Deployments of Rouse: whether each has an available pod.

use k8s_openapi::api::apps::v1::Deployment;

use crate::check::cluster_objects::{ClusterObjects, METRICS_ADAPTER};
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    cluster.deployments.iter().filter_map(|(name, object)| check_one(cluster, name, object)).collect()
}

fn check_one(cluster: &ClusterObjects, name: &str, object: &Fetched<Deployment>) -> Option<Finding> {
    let system = &cluster.system_namespace;
    let described = format!("Deployment {system}/{name}");
    let deployment = match object {
        Fetched::Found(deployment) => deployment,
        Fetched::NotFound => {
            let problem = format!("it does not exist: {}", effect(name));
            return Some(Finding::error(
                described,
                "NotInstalled",
                problem,
                "install Rouse: kubectl apply -k deploy, or the chart",
            ));
        }
        Fetched::Unreadable(_) => return None,
    };
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas).unwrap_or(0);
    if wanted == 0 {
        let fix = format!("kubectl --namespace {system} scale deployment {name} --replicas 2");
        let problem = format!("it is scaled to 0: {}", effect(name));
        return Some(Finding::error(described, "ScaledToZero", problem, fix));
    }
    let see = format!(
        "see kubectl --namespace {system} describe pods --selector app.kubernetes.io/name={name}, and their logs"
    );
    if available == 0 {
        let problem = format!("none of {wanted} pods is available: {}", effect(name));
        return Some(Finding::error(described, "Unavailable", problem, see));
    }
    (available < wanted && is_stuck(deployment)).then(|| {
        let problem = format!("{available} of {wanted} pods are available, and the rollout does not proceed");
        Finding::warning(described, "PartlyUnavailable", problem, see)
    })
}

/// Whether fewer pods than allowed are available, or a rollout exceeded its deadline. During a
/// rollout there are fewer for a while.
fn is_stuck(deployment: &Deployment) -> bool {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut failing = conditions.filter(|condition| condition.status.as_deref() == Some("False"));
    failing.any(|condition| matches!(condition.type_.as_deref(), Some("Available" | "Progressing")))
}

fn effect(name: &str) -> &'static str {
    match name {
        METRICS_ADAPTER => "HPAs keep their sizes, and nothing goes to zero",
        "activator" => "no request can be held, so workloads stay above zero",
        _ => "no size is written in a panic or at zero, except by activators after 30 s",
    }
}
