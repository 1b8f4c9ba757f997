//! SidecarConflict: why pods of a template do not start, or not all of them, with a sidecar.
//!
//! Input: pod templates, from the zero-scaler's cache and from `kubectl rouse check`. Output: a
//! reason with its problem and its fix, which both show alike.
//!
//! What surprises: ports of init containers do not count, since those have ended when the app starts.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::reasons::Reason;
use crate::contract::{GROUP, INJECT_LABEL, QUEUE_PROXY, QUEUE_PROXY_PORTS};

/// Label of nodes with their operating system.
const NODE_OS: &str = "kubernetes.io/os";
const WINDOWS: &str = "windows";

/// A property of a pod template that the sidecar does not work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SidecarConflict {
    /// A container declares a port of the sidecar.
    Port {
        /// The container.
        container: String,
        /// The port.
        port: u16,
    },
    /// The pods share the ports of their node.
    HostNetwork,
    /// The pods are for nodes with Windows.
    Windows,
}

// === impl SidecarConflict ===

impl SidecarConflict {
    /// All conflicts of a template, those that keep every pod from starting first.
    pub fn all(template: &PodTemplateSpec) -> Vec<Self> {
        let Some(spec) = &template.spec else { return Vec::new() };
        let windows = is_for_windows(spec).then_some(Self::Windows);
        let host_network = spec.host_network.unwrap_or(false).then_some(Self::HostNetwork);
        windows.into_iter().chain(taken_ports(spec)).chain(host_network).collect()
    }

    /// Its reason in conditions and findings.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Port { .. } => Reason::AppPortTaken,
            Self::HostNetwork => Reason::HostNetwork,
            Self::Windows => Reason::WindowsPods,
        }
    }

    /// What is wrong, as a clause about the pods.
    pub fn problem(&self) -> String {
        match self {
            Self::Port { container, port } => {
                format!(
                    "container {container} declares port {port}, on which the sidecar listens in the same pod"
                )
            }
            Self::HostNetwork => {
                let [traffic, admin, stats] = QUEUE_PROXY_PORTS;
                format!(
                    "the pods have hostNetwork: true, so the sidecar's ports {traffic}, {admin} and {stats} are the \
                     node's: a node fits one such pod, and other programs there may have the ports"
                )
            }
            Self::Windows => "the pods are for nodes with Windows, and the sidecar runs on Linux".to_owned(),
        }
    }

    /// How to correct it.
    pub fn fix(&self) -> String {
        let without = format!(
            "annotate the HPA or PodAutoscaler with {GROUP}/sidecar: \"false\" and remove the label {INJECT_LABEL}"
        );
        match self {
            Self::Port { port, .. } => {
                format!("let the app listen on another port than {port} and declare that one, or {without}")
            }
            Self::HostNetwork => format!("remove hostNetwork, or {without}"),
            Self::Windows => without,
        }
    }
}

fn is_for_windows(spec: &PodSpec) -> bool {
    let selected = spec.node_selector.as_ref().and_then(|labels| labels.get(NODE_OS));
    spec.os.as_ref().is_some_and(|os| os.name == WINDOWS) || selected.is_some_and(|os| os == WINDOWS)
}

/// The first one of each container. A port without a protocol is TCP.
fn taken_ports(spec: &PodSpec) -> impl Iterator<Item = SidecarConflict> + '_ {
    let apps = spec.containers.iter().filter(|container| container.name != QUEUE_PROXY);
    apps.filter_map(|app| {
        let ports = app.ports.iter().flatten();
        let tcp = ports.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
        let numbers: Vec<i32> = tcp.map(|port| port.container_port).collect();
        let port = QUEUE_PROXY_PORTS.into_iter().find(|port| numbers.contains(&i32::from(*port)))?;
        Some(SidecarConflict::Port { container: app.name.clone(), port })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn conflicts(spec: Value) -> Vec<SidecarConflict> {
        SidecarConflict::all(&serde_json::from_value(json!({"spec": spec})).unwrap())
    }

    #[test]
    fn finds_ports_of_the_sidecar_that_other_containers_declare() {
        let containers = |ports: Value, name: &str| {
            conflicts(json!({"containers": [{"name": "app"}, {"name": name, "ports": ports}]}))
        };
        let metrics = json!([{"containerPort": 8080}, {"containerPort": 9090}]);
        let expected = SidecarConflict::Port { container: "exporter".to_owned(), port: 9090 };
        assert_eq!(containers(metrics.clone(), "exporter"), [expected]);
        assert_eq!(containers(metrics, QUEUE_PROXY), [], "the sidecar's own");
        assert_eq!(containers(json!([{"containerPort": 8012, "protocol": "UDP"}]), "exporter"), []);
        assert_eq!(containers(json!([{"containerPort": 8080}]), "exporter"), []);
        let init =
            json!({"containers": [], "initContainers": [{"name": "a", "ports": [{"containerPort": 9090}]}]});
        assert_eq!(conflicts(init), [], "it has ended");
    }

    #[test]
    fn finds_pods_of_windows_and_of_the_network_of_nodes() {
        assert_eq!(
            conflicts(json!({"containers": [], "hostNetwork": true, "os": {"name": "windows"}})),
            [SidecarConflict::Windows, SidecarConflict::HostNetwork]
        );
        let selector = json!({"containers": [], "nodeSelector": {"kubernetes.io/os": "windows"}});
        assert_eq!(conflicts(selector), [SidecarConflict::Windows]);
        let linux = json!({"containers": [], "hostNetwork": false, "os": {"name": "linux"}});
        assert_eq!(conflicts(linux), []);
    }
}
