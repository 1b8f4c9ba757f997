//! The sidecar in a pod, and in the pods of a template, with its ports.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::contract::sidecar_ports::SidecarPorts;
use crate::contract::{DEFAULT_APP_PORT, QUEUE_PROXY};

/// Environment variable of the sidecar with the app's port.
const APP_PORT: &str = "QUEUE_PROXY_APP_PORT";

/// The sidecar of a pod: an init container, or behind the app.
pub fn sidecar(spec: &PodSpec) -> Option<&Container> {
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.find(|container| container.name == QUEUE_PROXY)
}

/// The value of the sidecar's variable with the app's port; `None` if the pod has no sidecar.
pub fn app_port(spec: &PodSpec) -> Option<&str> {
    let mut variables = sidecar(spec)?.env.iter().flatten();
    variables.find(|variable| variable.name == APP_PORT)?.value.as_deref()
}

/// The app's port where no setting states it: the first one that the first container beside the
/// sidecar declares, else 8080.
pub fn declared_app_port(spec: Option<&PodSpec>) -> i32 {
    let mut containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let app = containers.find(|container| container.name != QUEUE_PROXY);
    let port = app.and_then(|app| app.ports.iter().flatten().next());
    port.map_or(DEFAULT_APP_PORT, |port| port.container_port)
}

/// The ports that the sidecar of a pod declares; `None` if the pod has no sidecar.
pub fn sidecar_ports(spec: &PodSpec) -> Option<SidecarPorts> {
    let declared = sidecar(spec)?.ports.iter().flatten();
    Some(SidecarPorts::declared(
        declared.filter_map(|port| Some((port.name.as_deref()?, u16::try_from(port.container_port).ok()?))),
    ))
}

/// The ports that a sidecar of the template declares, else those that its annotations choose for an
/// injected one.
pub fn sidecar_ports_of_template(template: &PodTemplateSpec) -> SidecarPorts {
    let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let annotated = || SidecarPorts::annotated(|name| Some(annotations?.get(name)?.as_str()));
    template.spec.as_ref().and_then(sidecar_ports).unwrap_or_else(annotated)
}

/// Whether the port's target is the sidecar: its port's name, or the number of its port for
/// traffic.
pub fn targets_sidecar(port: &ServicePort, traffic: u16) -> bool {
    match &port.target_port {
        Some(IntOrString::String(name)) => name == QUEUE_PROXY,
        Some(IntOrString::Int(number)) => *number == i32::from(traffic),
        None => port.port == i32::from(traffic),
    }
}
