//! What in a pod template makes its pods start later than they could. Advice, and no problem.

use k8s_openapi::api::core::v1::PodTemplateSpec;

/// What to change, as a sentence.
pub fn advice(template: &PodTemplateSpec) -> Option<&'static str> {
    has_token(template).then_some(
        "each wake waits a quarter of a second for the volume of a service account token: if the app calls no \
         Kubernetes API, set automountServiceAccountToken: false in the pod template",
    )
}

/// Whether the kubelet fetches a token for each pod. A service account may turn it off as well.
fn has_token(template: &PodTemplateSpec) -> bool {
    template.spec.as_ref().is_some_and(|spec| spec.automount_service_account_token != Some(false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn advises_against_the_volume_of_a_token_that_the_template_does_not_turn_off() {
        let template = |automount| {
            let spec = json!({"automountServiceAccountToken": automount, "containers": [{"name": "app"}]});
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        assert!(advice(&template(json!(null))).is_some_and(|text| text.contains("token")));
        assert_eq!(advice(&template(json!(false))), None);
    }
}
