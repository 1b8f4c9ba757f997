//! Whether a target's pods get a sidecar, and what it is told to speak, read from the pod template.
//!
//! The watches keep no templates, which are most of a Deployment; what is said here is left of them. A Service says on its own
//! what is spoken on its ports, and the two must agree.

use autoscaler::Protocol;
use autoscaler::contract::{INJECT_LABEL, PROTOCOL, QUEUE_PROXY};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

/// How a sidecar that was written by hand is told.
const VARIABLE: &str = "QUEUE_PROXY_PROTOCOL";

/// What a pod template says of the sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sidecar {
    /// The pods have none, and are given none.
    Missing,
    /// It speaks this.
    Speaks(Protocol),
    /// What it is told makes no sense: then it does not start, and says why.
    Senseless,
}

/// What a template says.
pub(crate) fn sidecar_of(template: &PodTemplateSpec) -> Sidecar {
    if !has_sidecar(template) {
        return Sidecar::Missing;
    }
    match said(template) {
        None => Sidecar::Speaks(Protocol::default()),
        Some(said) => said.parse().map_or(Sidecar::Senseless, Sidecar::Speaks),
    }
}

fn has_sidecar(template: &PodTemplateSpec) -> bool {
    let labels = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref());
    let injected = labels.is_some_and(|labels| labels.get(INJECT_LABEL).is_some_and(|value| value == "true"));
    injected || containers(template).any(|container| container.name == QUEUE_PROXY)
}

/// By the sidecar in the template, or else by the annotation, of which one will be made.
fn said(template: &PodTemplateSpec) -> Option<&str> {
    let by_hand = containers(template).find(|container| container.name == QUEUE_PROXY);
    if let Some(sidecar) = by_hand {
        let mut variables = sidecar.env.iter().flatten();
        return variables.find(|variable| variable.name == VARIABLE)?.value.as_deref();
    }
    template.metadata.as_ref()?.annotations.as_ref()?.get(PROTOCOL).map(String::as_str)
}

fn containers(template: &PodTemplateSpec) -> impl Iterator<Item = &Container> {
    let spec = template.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(annotations: &Value, sidecar: &Value) -> Sidecar {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {INJECT_LABEL: "true"}, "annotations": annotations},
            "spec": {"containers": [{"name": "app"}], "initContainers": sidecar},
        }))
        .unwrap();
        sidecar_of(&template)
    }

    #[test]
    fn a_sidecar_is_told_by_the_annotation_or_by_its_own_variable() {
        let none = json!([]);
        assert_eq!(read(&json!({}), &none), Sidecar::Speaks(Protocol::Http));
        assert_eq!(read(&json!({PROTOCOL: "tcp"}), &none), Sidecar::Speaks(Protocol::Tcp));
        assert_eq!(read(&json!({PROTOCOL: "udp"}), &none), Sidecar::Senseless);
        let told = |env: Value| json!([{"name": "other", "env": [{"name": VARIABLE, "value": "http"}]}, {"name": "queue-proxy", "env": env}]);
        assert_eq!(
            read(&json!({}), &told(json!([{"name": VARIABLE, "value": "tcp"}]))),
            Sidecar::Speaks(Protocol::Tcp)
        );
        // A sidecar that is there already is not given another.
        assert_eq!(read(&json!({PROTOCOL: "tcp"}), &told(json!([]))), Sidecar::Speaks(Protocol::Http));
    }

    #[test]
    fn pods_without_a_sidecar_are_known_and_one_by_hand_needs_no_label() {
        assert_eq!(sidecar_of(&PodTemplateSpec::default()), Sidecar::Missing);
        let by_hand = json!({"spec": {"containers": [{"name": "app"}, {"name": "queue-proxy"}]}});
        let template: PodTemplateSpec = serde_json::from_value(by_hand).unwrap();
        assert_eq!(sidecar_of(&template), Sidecar::Speaks(Protocol::Http));
    }
}
