//! Whether a target's pods get a sidecar, and how it is configured, read from the pod template.
//!
//! The zero-scaler's cache drops pod templates, which are most of a Deployment, and keeps only
//! this. Limit and rules count for the workload where the HPA has none; where both have them, as
//! for the protocol of the Service, the zero-scaler compares them.

use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::reasons::Reason;
use super::{Problem, SidecarConflict};
use crate::Protocol;
use crate::api::{declared_app_port, sidecar, sidecar_ports_of_template};
use crate::contract::pod_limit::{POD_LIMIT_VARIABLE, pod_limit};
use crate::contract::{APP_PORT, CONTAINER_CONCURRENCY, INJECT_LABEL, NO_WAKE, PROTOCOL, QUEUE_PROXY};
use crate::settings::{NoWakeRules, SidecarMode};

/// Environment variables of a sidecar that the template contains.
const PROTOCOL_VARIABLE: &str = "QUEUE_PROXY_PROTOCOL";
const APP_PORT_VARIABLE: &str = "QUEUE_PROXY_APP_PORT";
const NO_WAKE_VARIABLE: &str = "QUEUE_PROXY_NO_WAKE";

/// The sidecar of a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sidecar {
    /// The pods have none, and none is injected.
    Missing,
    /// A sidecar with a valid configuration.
    Configured {
        /// Protocol of the clients.
        protocol: Protocol,
        /// Most requests in flight in the app; 0 means no limit.
        container_concurrency: u32,
        /// Requests that it does not count.
        no_wake: NoWakeRules,
        /// Its traffic port.
        port: u16,
        /// Why no pod, or not every pod, starts with it.
        conflict: Option<SidecarConflict>,
    },
    /// Its configuration is invalid: the container will not start and logs why.
    Invalid,
}

// === impl Sidecar ===

impl Sidecar {
    /// What a workload that leaves it to the pod template has.
    pub fn mode(&self) -> SidecarMode {
        match self {
            Self::Missing => SidecarMode::None,
            Self::Configured { .. } | Self::Invalid => SidecarMode::Required,
        }
    }

    /// Requests that a pod of the template serves at a time; `None` means no limit.
    pub fn container_concurrency(&self) -> Option<u32> {
        let Self::Configured { container_concurrency, .. } = self else { return None };
        pod_limit(*container_concurrency).map(NonZeroU32::get)
    }

    /// Requests that a pod of the template does not count; `None` if it counts connections.
    pub fn no_wake(&self) -> Option<&NoWakeRules> {
        let Self::Configured { protocol: Protocol::Http, no_wake, .. } = self else { return None };
        Some(no_wake)
    }
}

/// The problem of a workload whose pods need a sidecar: of its template, or of one pod.
pub fn missing(pod: Option<&str>) -> Problem {
    let problem = match pod {
        None => "the pod template has no sidecar, so requests are not counted".to_owned(),
        Some(pod) => format!(
            "pod {pod} has no sidecar, so it gets requests from activators at most: it is older than the label or \
             than Rouse, or was created while neither the admission policy nor the webhook added one"
        ),
    };
    Problem::with_usual_fix(Reason::SidecarMissing, problem)
}

/// The sidecar that pods of this template have.
pub fn sidecar_of(template: &PodTemplateSpec) -> Sidecar {
    if !has_sidecar(template) {
        return Sidecar::Missing;
    }
    let protocol = setting(template, PROTOCOL_VARIABLE, PROTOCOL);
    let limit = setting(template, POD_LIMIT_VARIABLE, CONTAINER_CONCURRENCY);
    let protocol = protocol.map_or_else(|| Some(Protocol::default()), |text| text.parse().ok());
    let limit = limit.map_or(Some(0), |text| text.parse().ok());
    // An empty variable is absent.
    let no_wake = setting(template, NO_WAKE_VARIABLE, NO_WAKE).filter(|text| !text.is_empty());
    let no_wake = no_wake.map_or_else(|| Some(NoWakeRules::default()), |text| text.parse().ok());
    match (protocol, limit, no_wake) {
        (Some(protocol), Some(container_concurrency), Some(no_wake)) => {
            let conflict = SidecarConflict::all(template).into_iter().next();
            let port = sidecar_ports_of_template(template).traffic;
            Sidecar::Configured { protocol, container_concurrency, no_wake, port, conflict }
        }
        _ => Sidecar::Invalid,
    }
}

/// The target ports that name the port to which the sidecar forwards: by its number, or by a name.
pub fn app_targets(template: &PodTemplateSpec) -> Vec<IntOrString> {
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let apps = containers.filter(|container| container.name != QUEUE_PROXY);
    let stated = setting(template, APP_PORT_VARIABLE, APP_PORT).and_then(|text| text.parse().ok());
    let number = stated.unwrap_or_else(|| declared_app_port(template.spec.as_ref()));
    let ports = apps.flat_map(|app| app.ports.iter().flatten());
    let names = ports.filter(|port| port.container_port == number).filter_map(|port| port.name.clone());
    names.map(IntOrString::String).chain([IntOrString::Int(number)]).collect()
}

/// Whether pods of this template get a sidecar, or have one.
fn has_sidecar(template: &PodTemplateSpec) -> bool {
    is_labelled(template) || written(template).is_some()
}

/// Whether a template has the label that requests the sidecar.
pub fn is_labelled(template: &PodTemplateSpec) -> bool {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    labels.is_some_and(|labels| labels.get(INJECT_LABEL).is_some_and(|value| value == "true"))
}

/// A setting: the variable of a sidecar in the template, or else the annotation for an injected
/// one.
fn setting<'a>(template: &'a PodTemplateSpec, variable: &str, annotation: &str) -> Option<&'a str> {
    if let Some(sidecar) = written(template) {
        let mut variables = sidecar.env.iter().flatten();
        return variables.find(|candidate| candidate.name == variable)?.value.as_deref();
    }
    template.metadata.as_ref()?.annotations.as_ref()?.get(annotation).map(String::as_str)
}

/// The sidecar that the template itself contains.
pub fn written(template: &PodTemplateSpec) -> Option<&Container> {
    sidecar(template.spec.as_ref()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::contract::QUEUE_PROXY_PORT;

    fn configured(protocol: Protocol, container_concurrency: u32) -> Sidecar {
        let no_wake = NoWakeRules::default();
        let port = QUEUE_PROXY_PORT;
        Sidecar::Configured { protocol, container_concurrency, no_wake, port, conflict: None }
    }

    fn read(annotations: &Value, sidecar: &Value) -> Sidecar {
        let template: PodTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {INJECT_LABEL: "true"}, "annotations": annotations},
            "spec": {"containers": [{"name": "app"}], "initContainers": sidecar},
        }))
        .unwrap();
        sidecar_of(&template)
    }

    #[test]
    fn reads_annotations_of_an_injected_sidecar() {
        let none = json!([]);
        assert_eq!(read(&json!({}), &none), configured(Protocol::Http, 0));
        assert_eq!(read(&json!({PROTOCOL: "tcp"}), &none), configured(Protocol::Tcp, 0));
        assert_eq!(read(&json!({CONTAINER_CONCURRENCY: "10"}), &none), configured(Protocol::Http, 10));
        assert_eq!(read(&json!({PROTOCOL: "udp"}), &none), Sidecar::Invalid);
        assert_eq!(read(&json!({CONTAINER_CONCURRENCY: "many"}), &none), Sidecar::Invalid);
        assert_eq!(read(&json!({NO_WAKE: "get /"}), &none), Sidecar::Invalid);
        let no_wake = "GET /healthz".parse().unwrap();
        let (protocol, container_concurrency, port, conflict) = (Protocol::Http, 0, QUEUE_PROXY_PORT, None);
        let expected = Sidecar::Configured { protocol, container_concurrency, no_wake, port, conflict };
        assert_eq!(read(&json!({NO_WAKE: "GET /healthz"}), &none), expected);
    }

    #[test]
    fn reads_variables_of_a_sidecar_in_the_template() {
        let sidecar = |env: Value| {
            json!([
                {"name": "other", "env": [{"name": PROTOCOL_VARIABLE, "value": "http"}]},
                {"name": "queue-proxy", "env": env},
            ])
        };
        let tcp =
            json!([{"name": PROTOCOL_VARIABLE, "value": "tcp"}, {"name": POD_LIMIT_VARIABLE, "value": "3"}]);
        assert_eq!(read(&json!({}), &sidecar(tcp)), configured(Protocol::Tcp, 3));
        // Annotations configure an injected sidecar, and a second one is not injected.
        assert_eq!(read(&json!({PROTOCOL: "tcp"}), &sidecar(json!([]))), configured(Protocol::Http, 0));
    }

    #[test]
    fn app_is_targeted_by_the_port_that_the_sidecar_forwards_to() {
        let of = |annotations: Value, containers: Value| {
            let template =
                json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}});
            serde_json::to_value(app_targets(&serde_json::from_value(template).unwrap())).unwrap()
        };
        let ports =
            json!([{"containerPort": 8080, "name": "web"}, {"containerPort": 9000, "name": "metrics"}]);
        let app = json!([{"name": "app", "ports": ports}]);
        assert_eq!(of(json!({}), app.clone()), json!(["web", 8080]), "the first one");
        assert_eq!(of(json!({APP_PORT: "9000"}), app.clone()), json!(["metrics", 9000]));
        assert_eq!(of(json!({}), json!([{"name": "app"}])), json!([8080]));
        let env = json!([{"name": APP_PORT_VARIABLE, "value": "9000"}]);
        let written = json!([{"name": QUEUE_PROXY, "env": env, "ports": [{"containerPort": 8012}]}, app[0]]);
        assert_eq!(of(json!({}), written), json!(["metrics", 9000]));
    }

    #[test]
    fn finds_a_sidecar_by_label_or_by_container() {
        assert_eq!(sidecar_of(&PodTemplateSpec::default()), Sidecar::Missing);
        let in_template = json!({"spec": {"containers": [{"name": "app"}, {"name": "queue-proxy"}]}});
        let template: PodTemplateSpec = serde_json::from_value(in_template).unwrap();
        assert_eq!(sidecar_of(&template), configured(Protocol::Http, 0));
    }
}
