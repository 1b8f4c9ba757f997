//! The ports of the sidecar: those that a pod template has, and other ones where its containers
//! take them.

use autoscaler::api::sidecar_ports_of_template;
use autoscaler::contract::sidecar_ports::SidecarPorts;
use serde_json::Value;

use super::app_port::AppPort;
use super::object::{items, text};

/// Added to a port that the app takes.
const OFFSET: u16 = 10_000;
/// Lower ports are for privileged programs, which the sidecar is not.
const LOWEST: u16 = 1024;

/// Those of the sidecar in pods of this template.
pub(super) fn sidecar_ports(template: &Value) -> SidecarPorts {
    let template = serde_json::from_value(template.clone());
    template.as_ref().map(sidecar_ports_of_template).unwrap_or_default()
}

/// The annotations that give the sidecar other ports than the app's, where it would have the same.
pub(super) fn free_ports(template: &Value, app_port: AppPort) -> Vec<(&'static str, u16)> {
    let ports = sidecar_ports(template);
    let mut taken = declared(template);
    if let AppPort::Other(port) = app_port {
        taken.extend(u16::try_from(port));
    }
    let of_app = taken.clone();
    taken.extend(ports.all());
    let mut chosen = Vec::new();
    for port in ports.all().into_iter().filter(|port| of_app.contains(port)) {
        let mut candidates = (port.checked_add(OFFSET).unwrap_or(LOWEST)..=u16::MAX).chain(LOWEST..=u16::MAX);
        let Some(free) = candidates.find(|candidate| !taken.contains(candidate)) else { break };
        taken.push(free);
        chosen.push((ports.annotation_of(port), free));
    }
    chosen
}

/// The TCP ports that the containers declare.
fn declared(template: &Value) -> Vec<u16> {
    let ports = items(template, "/spec/containers").iter().flat_map(|container| items(container, "/ports"));
    let tcp = ports.filter(|port| text(port, "/protocol").is_none_or(|protocol| protocol == "TCP"));
    tcp.filter_map(|port| u16::try_from(port.get("containerPort")?.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::sidecar_ports::{SIDECAR_ADMIN_PORT, SIDECAR_PORT, SIDECAR_STATS_PORT};
    use serde_json::json;

    use super::*;

    fn template(ports: &[u16], annotations: Value) -> Value {
        let ports: Vec<_> = ports.iter().map(|port| json!({"containerPort": port})).collect();
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "app", "ports": ports}]}})
    }

    #[test]
    fn sidecar_gets_ports_that_the_app_leaves_free() {
        let free = |ports, annotations, app| free_ports(&template(ports, annotations), app);
        assert_eq!(free(&[8080], json!({}), AppPort::Found), []);
        assert_eq!(free(&[8080, 9090], json!({}), AppPort::Found), [(SIDECAR_STATS_PORT, 19090)]);
        assert_eq!(free(&[9090, 19090], json!({}), AppPort::Found), [(SIDECAR_STATS_PORT, 19091)]);
        assert_eq!(free(&[8080], json!({}), AppPort::Other(8012)), [(SIDECAR_PORT, 18012)]);
        let annotated = json!({SIDECAR_ADMIN_PORT: "60000"});
        assert_eq!(free(&[8022, 60000], annotated, AppPort::Found), [(SIDECAR_ADMIN_PORT, 1024)]);
        let udp = json!({"spec": {"containers": [{"ports": [{"containerPort": 9090, "protocol": "UDP"}]}]}});
        assert_eq!(free_ports(&udp, AppPort::Found), []);
    }
}
