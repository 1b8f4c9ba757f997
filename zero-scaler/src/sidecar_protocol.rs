//! What the sidecars of a target's pods are told to speak, read from its pod template.
//!
//! The watches keep no templates, which are most of a Deployment; what is said here is left of them. A Service says on its own
//! what is spoken on its ports, and the two must agree.

use autoscaler::Protocol;
use autoscaler::contract::{INJECT_LABEL, PROTOCOL, QUEUE_PROXY};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// How a sidecar that was written by hand is told.
const VARIABLE: &str = "QUEUE_PROXY_PROTOCOL";

/// Leaves of a template what [`spoken`] reads.
pub(crate) fn trim(template: &mut PodTemplateSpec) {
    let said = if has_sidecar(template) { Some(said(template).unwrap_or_default()) } else { None };
    *template = PodTemplateSpec::default();
    if let Some(said) = said {
        let annotations = Some([(PROTOCOL.to_owned(), said)].into());
        template.metadata = Some(ObjectMeta { annotations, ..ObjectMeta::default() });
    }
}

/// What a trimmed template's sidecar speaks; `None` without one, or if what it is told makes no sense: then it does not start,
/// and says why.
pub(crate) fn spoken(template: &PodTemplateSpec) -> Option<Protocol> {
    match template.metadata.as_ref()?.annotations.as_ref()?.get(PROTOCOL)?.as_str() {
        "" => Some(Protocol::default()),
        said => said.parse().ok(),
    }
}

fn has_sidecar(template: &PodTemplateSpec) -> bool {
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
    labels.is_some_and(|labels| labels.get(INJECT_LABEL).is_some_and(|value| value == "true"))
}

/// By the sidecar in the template, or else by the annotation, of which one will be made.
fn said(template: &PodTemplateSpec) -> Option<String> {
    let by_hand = containers(template).find(|container| container.name == QUEUE_PROXY);
    if let Some(sidecar) = by_hand {
        let mut variables = sidecar.env.iter().flatten();
        return variables.find(|variable| variable.name == VARIABLE)?.value.clone();
    }
    template.metadata.as_ref()?.annotations.as_ref()?.get(PROTOCOL).cloned()
}

fn containers(template: &PodTemplateSpec) -> impl Iterator<Item = &Container> {
    let spec = template.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn speaks(annotations: &Value, sidecar: &Value) -> Option<Protocol> {
        let mut template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {INJECT_LABEL: "true"}, "annotations": annotations},
            "spec": {"containers": [{"name": "app"}], "initContainers": sidecar},
        }))
        .unwrap();
        trim(&mut template);
        assert!(template.spec.is_none(), "it is kept small");
        spoken(&template)
    }

    #[test]
    fn a_sidecar_is_told_by_the_annotation_or_by_its_own_variable() {
        let none = json!([]);
        assert_eq!(speaks(&json!({}), &none), Some(Protocol::Http));
        assert_eq!(speaks(&json!({PROTOCOL: "tcp"}), &none), Some(Protocol::Tcp));
        assert_eq!(speaks(&json!({PROTOCOL: "udp"}), &none), None);
        let told = |env: Value| json!([{"name": "other", "env": [{"name": VARIABLE, "value": "http"}]}, {"name": "queue-proxy", "env": env}]);
        assert_eq!(
            speaks(&json!({}), &told(json!([{"name": VARIABLE, "value": "tcp"}]))),
            Some(Protocol::Tcp)
        );
        // A sidecar that is there already is not given another.
        assert_eq!(speaks(&json!({PROTOCOL: "tcp"}), &told(json!([]))), Some(Protocol::Http));
    }

    #[test]
    fn nothing_is_said_of_pods_without_a_sidecar() {
        let mut template = PodTemplateSpec::default();
        trim(&mut template);
        assert_eq!(spoken(&template), None);
    }
}
