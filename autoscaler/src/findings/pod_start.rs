//! What in a pod template makes its pods start later than they could. Advice, and no problem.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::sidecar::{is_labelled, written};

/// The annotation of pods by which the app starts before the sidecar.
pub const APP_FIRST: &str = "autoscaling.rouse.dev/app-first";

/// What to change, each as a sentence.
pub fn advice(template: &PodTemplateSpec) -> Vec<&'static str> {
    let token = has_token(template).then_some(
        "each wake waits a quarter of a second for the volume of a service account token: if the app calls no \
         Kubernetes API, set automountServiceAccountToken: false in the pod template",
    );
    let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let is_annotated = annotations.is_some_and(|all| all.contains_key(APP_FIRST));
    let is_native = is_labelled(template) && written(template).is_none() && !is_annotated;
    let order = (is_native && may_start_first(template)).then_some(
        "each start waits a tenth of a second for the sidecar: annotate the pod template with \
         autoscaling.rouse.dev/app-first: \"true\"",
    );
    token.into_iter().chain(order).collect()
}

/// Whether the app may start beside the sidecar: pods that complete would not, and a `postStart`
/// hook of the app would delay the sidecar.
pub fn may_start_first(template: &PodTemplateSpec) -> bool {
    let Some(spec) = &template.spec else { return false };
    let restarts = spec.restart_policy.as_deref().is_none_or(|policy| policy == "Always");
    let has_hook = |container: &Container| {
        container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some())
    };
    restarts && !spec.containers.iter().any(has_hook)
}

/// Whether the kubelet fetches a token for each pod. A service account may turn it off as well.
fn has_token(template: &PodTemplateSpec) -> bool {
    template.spec.as_ref().is_some_and(|spec| spec.automount_service_account_token != Some(false))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn advised(metadata: Value, pod: Value) -> Vec<&'static str> {
        let template = serde_json::from_value(json!({"metadata": metadata, "spec": pod})).unwrap();
        let word = |text: &'static str| if text.contains("token") { "token" } else { "order" };
        advice(&template).into_iter().map(word).collect()
    }

    #[test]
    fn advises_only_what_costs_time_and_changes_nothing_else() {
        let labelled = || json!({"labels": {"autoscaling.rouse.dev/inject": "true"}});
        let app = || json!([{"name": "app"}]);
        let without_token =
            |containers| json!({"automountServiceAccountToken": false, "containers": containers});
        assert_eq!(advised(json!({}), json!({"containers": app()})), ["token"]);
        assert_eq!(advised(json!({}), without_token(app())), [""; 0]);
        assert_eq!(advised(labelled(), without_token(app())), ["order"]);
        let hook = json!([{"name": "app", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}]);
        assert_eq!(advised(labelled(), without_token(hook)), [""; 0]);
        let decided = json!({
            "labels": {"autoscaling.rouse.dev/inject": "true"}, "annotations": {APP_FIRST: "false"},
        });
        assert_eq!(advised(decided, without_token(app())), [""; 0]);
    }
}
