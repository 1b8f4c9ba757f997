//! The ports of the sidecar in a pod, and in the pods of a template.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use crate::contract::QUEUE_PROXY;
use crate::contract::sidecar_ports::SidecarPorts;

/// Those that the sidecar of a pod declares; `None` if the pod has no sidecar.
pub fn sidecar_ports(spec: &PodSpec) -> Option<SidecarPorts> {
    let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let sidecar = containers.find(|container| container.name == QUEUE_PROXY)?;
    let declared = sidecar.ports.iter().flatten();
    Some(SidecarPorts::declared(
        declared.filter_map(|port| Some((port.name.as_deref()?, u16::try_from(port.container_port).ok()?))),
    ))
}

/// Those that a sidecar of the template declares, else those that its annotations choose for an
/// injected one.
pub fn sidecar_ports_of_template(template: &PodTemplateSpec) -> SidecarPorts {
    let annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
    let annotated = || SidecarPorts::annotated(|name| Some(annotations?.get(name)?.as_str()));
    template.spec.as_ref().and_then(sidecar_ports).unwrap_or_else(annotated)
}
