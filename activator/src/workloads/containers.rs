//! What the containers of a pod declare: their ports and, of a pod without a queue-proxy, their
//! probes.
//!
//! [`Container`] has the field names of a Pod's spec, of which it is the part that an activator
//! reads. [`Containers`] is what is kept of them.

use std::num::NonZeroU32;
use std::sync::Arc;

use autoscaler::contract::pod_limit::{POD_LIMIT_VARIABLE, parse_pod_limit};
use autoscaler::contract::sidecar_ports::SidecarPorts;
use k8s_openapi::api::core::v1::Probe;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Deserializer, Serialize};

/// The containers of one pod that run beside each other: app containers, and init containers that
/// are restarted always.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Containers {
    /// In the order of the spec.
    pub all: Vec<Container>,
    /// Whether the pod's Ready condition depends on more than its containers.
    pub has_readiness_gates: bool,
    /// Whether a startup probe has not succeeded yet.
    pub is_starting: bool,
}

/// A port of the app, as the Service names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppPort {
    Number(u16),
    /// The name of a container's port, which each pod resolves.
    Name(Arc<str>),
}

/// A container's port that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPort {
    pub name: Arc<str>,
    pub number: u16,
}

/// What a pod states about its queue-proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueProxy {
    pub ports: SidecarPorts,
    /// Requests that it admits at a time; `None` without a limit.
    pub limit: Option<NonZeroU32>,
}

/// A container of a spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    pub name: String,
    /// `Always` for an init container that runs as long as the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// The ports that it declares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// The limit that its environment states, of which nothing else is kept.
    #[serde(rename = "env", deserialize_with = "limit_of_environment", skip_serializing)]
    pub limit: Option<NonZeroU32>,
    /// When it takes requests. Boxed, because most containers have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Box<Probe>>,
    /// Whether it has a startup probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<AnyObject>,
}

/// A variable of a container's environment.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub container_port: u16,
    /// TCP by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// An object of which only the presence matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct AnyObject {}

// === impl Containers ===

impl Containers {
    /// The number of `port` in this pod; `None` if no container has a port of the name.
    pub fn resolve(&self, port: &AppPort) -> Option<u16> {
        match port {
            AppPort::Number(number) => Some(*number),
            AppPort::Name(name) => {
                self.tcp_ports().find(|port| port.is_named(name)).map(|p| p.container_port)
            }
        }
    }

    /// The ports that have a name.
    pub fn named_ports(&self) -> Arc<[NamedPort]> {
        let named = self.tcp_ports().filter_map(|port| {
            let name = port.name.as_deref()?.into();
            Some(NamedPort { name, number: port.container_port })
        });
        named.collect()
    }

    fn tcp_ports(&self) -> impl Iterator<Item = &ContainerPort> {
        self.all.iter().flat_map(Container::tcp_ports)
    }
}

// === impl Container ===

impl Container {
    /// Whether it runs beside the containers of the app, although it is an init container.
    pub fn is_restarted_always(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// The number of a probe's port; `None` if the container has no port of the name.
    pub fn resolve(&self, port: &IntOrString) -> Option<u16> {
        match port {
            IntOrString::Int(number) => (*number).try_into().ok(),
            IntOrString::String(name) => {
                self.ports.iter().find(|port| port.is_named(name)).map(|p| p.container_port)
            }
        }
    }

    /// What it states, if it is a queue-proxy.
    pub fn queue_proxy(&self) -> QueueProxy {
        let ports = self.ports.iter().filter_map(|port| Some((port.name.as_deref()?, port.container_port)));
        QueueProxy { ports: SidecarPorts::declared(ports), limit: self.limit }
    }

    /// Whether it declares the port.
    pub fn declares(&self, port: &AppPort) -> bool {
        self.tcp_ports().any(|declared| match port {
            AppPort::Number(number) => declared.container_port == *number,
            AppPort::Name(name) => declared.is_named(name),
        })
    }

    fn tcp_ports(&self) -> impl Iterator<Item = &ContainerPort> {
        self.ports.iter().filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"))
    }
}

fn limit_of_environment<'de, D: Deserializer<'de>>(environment: D) -> Result<Option<NonZeroU32>, D::Error> {
    let variables = Vec::<Variable>::deserialize(environment)?;
    let limit = variables.iter().find(|variable| variable.name == POD_LIMIT_VARIABLE);
    Ok(limit.and_then(|variable| parse_pod_limit(&variable.value)))
}

// === impl ContainerPort ===

impl ContainerPort {
    fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn containers() -> Containers {
        let all = json!([
            {"name": "proxy", "ports": [{"name": "http", "containerPort": 53, "protocol": "UDP"}]},
            {"name": "app", "ports": [
                {"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"containerPort": 9000}
            ]},
        ]);
        Containers { all: serde_json::from_value(all).unwrap(), ..Containers::default() }
    }

    #[test]
    fn name_resolves_to_the_tcp_port_of_any_container() {
        let containers = containers();
        assert_eq!(containers.resolve(&AppPort::Name("http".into())), Some(8080));
        assert_eq!(containers.resolve(&AppPort::Name("grpc".into())), None);
        let named = [NamedPort { name: "http".into(), number: 8080 }];
        assert_eq!(containers.named_ports().as_ref(), named);
    }

    #[test]
    fn number_needs_no_declaration() {
        let (containers, port) = (containers(), AppPort::Number(7000));
        assert_eq!(containers.resolve(&port), Some(7000));
        assert!(!containers.all.iter().any(|container| container.declares(&port)));
        assert!(containers.all[1].declares(&AppPort::Number(9000)));
    }
}
