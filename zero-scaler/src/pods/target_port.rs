//! The TCP ports of a Service, and their target ports on the pods.

use autoscaler::findings::service::ServiceFields;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A port of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TargetPort {
    Number(u16),
    /// The name of a container port.
    Name(String),
}

// === impl TargetPort ===

impl TargetPort {
    /// The target of a Service port: the port itself, if it states none. `None` for a number that
    /// is not a port.
    pub(crate) fn of(port: &ServicePort) -> Option<Self> {
        match &port.target_port {
            Some(IntOrString::String(name)) => Some(Self::Name(name.clone())),
            Some(IntOrString::Int(number)) => u16::try_from(*number).ok().map(Self::Number),
            None => u16::try_from(port.port).ok().map(Self::Number),
        }
    }
}

/// The TCP ports of a Service.
pub(crate) fn tcp_ports(service: &Service) -> impl Iterator<Item = &ServicePort> {
    ServiceFields::of(service).tcp_ports()
}
