//! SidecarConflict: why pods of a template do not start, or not all of them, with a sidecar.
//!
//! Input: pod templates. Output: a [`Problem`].
//!
//! What surprises: ports of init containers do not count, since those have ended when the app
//! starts.

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::Problem;
use super::reasons::Reason;
use crate::api::sidecar_ports_of_template;
use crate::contract::QUEUE_PROXY;
use crate::contract::sidecar_ports::{SidecarPorts, SidecarPortsError};

/// Label of nodes with their operating system.
const NODE_OS: &str = "kubernetes.io/os";
const WINDOWS: &str = "windows";

/// A property of a pod template that the sidecar does not work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SidecarConflict {
    /// The sidecar cannot listen on the ports that annotations of the pods choose.
    InvalidPorts(SidecarPortsError),
    /// A container declares a port of the sidecar.
    Port {
        container: String,
        port: u16,
        /// The annotation that selects another one for the sidecar.
        annotation: &'static str,
    },
    /// The pods share the ports of their node.
    HostNetwork(SidecarPorts),
    /// The pods are for nodes with Windows.
    Windows,
}

// === impl SidecarConflict ===

impl SidecarConflict {
    /// All conflicts of a template, those that keep every pod from starting first.
    pub fn all(template: &PodTemplateSpec) -> Vec<Self> {
        let Some(spec) = &template.spec else { return Vec::new() };
        let ports = sidecar_ports_of_template(template);
        let windows = is_for_windows(spec).then_some(Self::Windows);
        let invalid = ports.validate().err().map(Self::InvalidPorts);
        let host_network = spec.host_network.unwrap_or(false).then_some(Self::HostNetwork(ports));
        windows.into_iter().chain(invalid).chain(taken_ports(spec, ports)).chain(host_network).collect()
    }

    fn reason(&self) -> Reason {
        match self {
            Self::InvalidPorts(_) => Reason::InvalidSidecarPort,
            Self::Port { .. } => Reason::AppPortTaken,
            Self::HostNetwork(_) => Reason::HostNetwork,
            Self::Windows => Reason::WindowsPods,
        }
    }

    /// What is wrong, as a clause about the pods, with the fix of its reason.
    pub fn problem(&self) -> Problem {
        let problem = match self {
            Self::InvalidPorts(error) => format!("{error}, so no pod starts"),
            Self::Port { container, port, annotation } => format!(
                "container {container} declares port {port}, on which the sidecar listens in the same pod \
                 (annotation {annotation})"
            ),
            Self::HostNetwork(SidecarPorts { traffic, admin, stats }) => format!(
                "the pods have hostNetwork: true, so the sidecar's ports {traffic}, {admin} and {stats} are \
                 the node's: a node fits one such pod, and other programs there may have the ports"
            ),
            Self::Windows => "the pods are for nodes with Windows, and the sidecar runs on Linux".to_owned(),
        };
        Problem::with_usual_fix(self.reason(), problem)
    }
}

fn is_for_windows(spec: &PodSpec) -> bool {
    let selected = spec.node_selector.as_ref().and_then(|labels| labels.get(NODE_OS));
    spec.os.as_ref().is_some_and(|os| os.name == WINDOWS) || selected.is_some_and(|os| os == WINDOWS)
}

/// The first one of each container. A port without a protocol is TCP.
fn taken_ports(spec: &PodSpec, ports: SidecarPorts) -> impl Iterator<Item = SidecarConflict> + '_ {
    let apps = spec.containers.iter().filter(|container| container.name != QUEUE_PROXY);
    apps.filter_map(move |app| {
        let declared = app.ports.iter().flatten();
        let tcp = declared.filter(|port| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP"));
        let numbers: Vec<i32> = tcp.map(|port| port.container_port).collect();
        let port = ports.all().into_iter().find(|port| numbers.contains(&i32::from(*port)))?;
        let (container, annotation) = (app.name.clone(), ports.annotation_of(port));
        Some(SidecarConflict::Port { container, port, annotation })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::contract::sidecar_ports::{SIDECAR_ADMIN_PORT, SIDECAR_STATS_PORT};

    fn conflicts(spec: Value) -> Vec<SidecarConflict> {
        annotated(json!({}), spec)
    }

    fn annotated(annotations: Value, spec: Value) -> Vec<SidecarConflict> {
        let template = json!({"metadata": {"annotations": annotations}, "spec": spec});
        SidecarConflict::all(&serde_json::from_value(template).unwrap())
    }

    #[test]
    fn finds_ports_of_the_sidecar_that_other_containers_declare() {
        let containers = |ports: Value, name: &str| {
            conflicts(json!({"containers": [{"name": "app"}, {"name": name, "ports": ports}]}))
        };
        let metrics = json!([{"containerPort": 8080}, {"containerPort": 9090}]);
        let (container, annotation) = ("exporter".to_owned(), SIDECAR_STATS_PORT);
        let expected = SidecarConflict::Port { container, port: 9090, annotation };
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
            [SidecarConflict::Windows, SidecarConflict::HostNetwork(SidecarPorts::default())]
        );
        let selector = json!({"containers": [], "nodeSelector": {"kubernetes.io/os": "windows"}});
        assert_eq!(conflicts(selector), [SidecarConflict::Windows]);
        let linux = json!({"containers": [], "hostNetwork": false, "os": {"name": "linux"}});
        assert_eq!(conflicts(linux), []);
    }

    #[test]
    fn chosen_ports_free_those_of_the_app() {
        let app = json!({"containers": [{"name": "app", "ports": [{"containerPort": 9090}]}]});
        assert_eq!(annotated(json!({SIDECAR_STATS_PORT: "19090"}), app.clone()), []);
        let taken = annotated(json!({SIDECAR_STATS_PORT: "19090", SIDECAR_ADMIN_PORT: "9090"}), app.clone());
        let (container, annotation) = ("app".to_owned(), SIDECAR_ADMIN_PORT);
        assert_eq!(taken, [SidecarConflict::Port { container, port: 9090, annotation }]);
        let invalid = SidecarConflict::InvalidPorts(SidecarPortsError::Invalid(SIDECAR_STATS_PORT));
        assert_eq!(annotated(json!({SIDECAR_STATS_PORT: "stats"}), app), [invalid]);
    }

    #[test]
    fn sidecar_in_the_template_has_the_ports_that_it_declares() {
        let sidecar =
            json!({"name": "queue-proxy", "ports": [{"name": "queue-stats", "containerPort": 9091}]});
        let app = |port| json!({"name": "app", "ports": [{"containerPort": port}]});
        let spec = |port| json!({"containers": [app(port)], "initContainers": [sidecar]});
        assert_eq!(annotated(json!({SIDECAR_STATS_PORT: "9090"}), spec(9090)), [], "it was not injected");
        assert_eq!(conflicts(spec(9091)).len(), 1);
    }
}
