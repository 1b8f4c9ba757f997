//! The next pod of a target: its template, and what the API server answers to it today.
//!
//! Deployments report refused pods themselves, and their templates are followed. So their templates
//! are not read.

use autoscaler::api::ScaleTargetRef;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec, ReplicationController};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};

/// The template of a StatefulSet, ReplicaSet or ReplicationController.
pub(crate) async fn template(
    client: &Client,
    namespace: &str,
    target: &ScaleTargetRef,
) -> Option<PodTemplateSpec> {
    let (client, name) = (client.clone(), target.name.as_str());
    let read = match (target.group(), target.kind.as_str()) {
        ("apps", "StatefulSet") => {
            let sets = Api::<StatefulSet>::namespaced(client, namespace);
            sets.get(name).await.map(|set| Some(set.spec.template))
        }
        ("apps", "ReplicaSet") => {
            let sets = Api::<ReplicaSet>::namespaced(client, namespace);
            sets.get(name).await.map(|set| set.spec.template)
        }
        ("", "ReplicationController") => {
            let controllers = Api::<ReplicationController>::namespaced(client, namespace);
            controllers.get(name).await.map(|it| it.spec.and_then(|spec| spec.template))
        }
        _ => return None,
    };
    read.unwrap_or_else(|error| {
        tracing::warn!(namespace, target = name, %error, "template of a target not read, ignored");
        None
    })
}

/// Why the API server refuses a pod of the target's template.
pub(crate) async fn refusal(client: &Client, namespace: &str, target: &ScaleTargetRef) -> Option<String> {
    let template = template(client, namespace, target).await?;
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", target.name)),
        ..template.metadata.unwrap_or_default()
    };
    dry_run(client, namespace, &Pod { metadata, spec: template.spec, status: None }).await.err()
}

/// The pod as the API server would create it, or why it refuses.
pub(crate) async fn dry_run(client: &Client, namespace: &str, pod: &Pod) -> Result<Option<Pod>, String> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match pods.create(&dry_run, pod).await {
        Ok(admitted) => Ok(Some(admitted)),
        Err(error) if is_of_the_check(&error) => {
            tracing::warn!(namespace, pod = pod.name_any(), %error, "dry run of a pod failed, ignored");
            Ok(None)
        }
        Err(kube::Error::Api(status)) => Err(status.message),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether an error is about the dry run and not about pods of the workload: this process may not
/// create any, the copy has a field that only a running pod has, or a webhook has side effects.
fn is_of_the_check(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    match status.code {
        400 => status.message.ends_with(" does not support dry run"),
        403 => status.message.contains("cannot create resource \"pods\""),
        422 => status.message.starts_with("Pod \"") && status.message.contains(" is invalid: "),
        _ => false,
    }
}
