//! The ports of a private Service, which selects the pods of a managed Service.
//!
//! Ports of other protocols than TCP lead straight to the app, with a sidecar or without.
//!
//! Of pods with a sidecar one TCP port is enough: the sidecar's, by its name, so that Kubernetes
//! resolves the number that each pod has. Of pods without one, the private Service has each TCP
//! port of the public Service, so that Kubernetes resolves a named target port for each pod, and
//! the port of a sidecar: the slices then show which pods have one all the same, as they do before
//! the workload's setting `sidecar` changes to `"true"`.

use std::collections::BTreeSet;

use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_PORT};
use autoscaler::findings::service::ServiceFields;
use autoscaler::settings::SidecarMode;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use crate::pods::target_port::{TargetPort, tcp_ports};

/// Name of the sidecar's port where it is the only one.
const ONLY_PORT: &str = "http";
/// Name of the sidecar's port beside ports of the app.
const SIDECAR_PORT: &str = "rouse-sidecar";
const TCP: &str = "TCP";
/// Name of a port of the app, before the Service port's number.
const APP_PORT: &str = "rouse-";

/// The ports of the private Service of `service`, ordered by number.
pub(crate) fn private_ports(service: &Service, sidecar: SidecarMode) -> Vec<Value> {
    let to_sidecar = IntOrString::String(QUEUE_PROXY.to_owned());
    let mut ports: Vec<(i32, Value)> = ServiceFields::of(service).direct_ports().map(of_app).collect();
    if sidecar.is_required() {
        let number = i32::from(QUEUE_PROXY_PORT);
        ports.push((number, port(ONLY_PORT, number, TCP, &to_sidecar)));
    } else {
        let taken: BTreeSet<i32> = tcp_ports(service).map(|port| port.port).collect();
        let free = (i32::from(QUEUE_PROXY_PORT)..).find(|number| !taken.contains(number));
        ports.extend(tcp_ports(service).map(of_app));
        ports.extend(free.map(|number| (number, port(SIDECAR_PORT, number, TCP, &to_sidecar))));
    }
    ports.sort_by_key(|(number, _)| *number);
    ports.into_iter().map(|(_, port)| port).collect()
}

/// A port that leads to the app's own.
fn of_app(public: &ServicePort) -> (i32, Value) {
    let target = public.target_port.clone().unwrap_or(IntOrString::Int(public.port));
    let protocol = public.protocol.as_deref().unwrap_or(TCP);
    (public.port, port(&app_port_name(public), public.port, protocol, &target))
}

/// The number of a Service port's target on a pod without sidecar, given the ports of its slice;
/// `None` if no container of the pod has a port with the target's name.
pub(crate) fn number_on_pod(port: &ServicePort, slice: &[EndpointPort]) -> Option<u16> {
    match TargetPort::of(port)? {
        TargetPort::Number(number) => Some(number),
        TargetPort::Name(_) => {
            let name = app_port_name(port);
            let resolved = slice.iter().find(|port| port.name.as_deref() == Some(name.as_str()))?;
            u16::try_from(resolved.port?).ok()
        }
    }
}

/// The traffic port of the sidecars of the pods of a slice, given the slice's ports; `None` if they
/// have no sidecar.
pub(crate) fn sidecar_port(slice: &[EndpointPort]) -> Option<u16> {
    let is_sidecar = |name: &str| name == ONLY_PORT || name == SIDECAR_PORT;
    let port = slice.iter().find(|port| port.name.as_deref().is_some_and(is_sidecar))?;
    u16::try_from(port.port?).ok()
}

/// Whether a port of a slice comes from a private Service for pods without sidecar.
pub(crate) fn is_of_pods_without_sidecar(port: &EndpointPort) -> bool {
    port.name.as_deref().is_some_and(|name| name.starts_with(APP_PORT))
}

/// One number may be a port of several protocols.
fn app_port_name(port: &ServicePort) -> String {
    match port.protocol.as_deref() {
        None | Some(TCP) => format!("{APP_PORT}{}", port.port),
        Some(other) => format!("{APP_PORT}{}-{}", other.to_lowercase(), port.port),
    }
}

fn port(name: &str, number: i32, protocol: &str, target: &IntOrString) -> Value {
    json!({"name": name, "port": number, "protocol": protocol, "targetPort": target})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(ports: &Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"ports": ports}})).unwrap()
    }

    #[test]
    fn private_ports_lead_to_the_apps_target_ports_and_show_sidecars() {
        let service = service(&json!([
            {"name": "http", "port": 80, "targetPort": "web"},
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "admin", "port": 8012, "targetPort": 9000},
            {"name": "raw", "port": 90},
        ]));
        let required = private_ports(&service, SidecarMode::Required);
        assert_eq!(
            required,
            [
                json!({"name": "rouse-udp-53", "port": 53, "protocol": "UDP", "targetPort": 53}),
                json!({"name": "http", "port": 8012, "protocol": "TCP", "targetPort": "queue-proxy"}),
            ]
        );
        let ports = private_ports(&service, SidecarMode::None);
        let fields: Vec<_> = ports.iter().map(|p| (p["name"].clone(), p["targetPort"].clone())).collect();
        let expected = [
            (json!("rouse-udp-53"), json!(53)),
            (json!("rouse-80"), json!("web")),
            (json!("rouse-90"), json!(90)),
            (json!("rouse-8012"), json!(9000)),
            (json!("rouse-sidecar"), json!("queue-proxy")),
        ];
        assert_eq!(fields, expected);
        assert_eq!(ports[4]["port"], 8013, "8012 is the user's");
    }

    #[test]
    fn named_target_port_has_the_number_of_each_pod() {
        let service = service(&json!([{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 9000}]));
        let ports: Vec<_> = tcp_ports(&service).collect();
        let slice = |ports: &Value| -> Vec<EndpointPort> { serde_json::from_value(ports.clone()).unwrap() };
        let resolved =
            slice(&json!([{"name": "rouse-80", "port": 3000}, {"name": "rouse-sidecar", "port": 8012}]));
        assert_eq!(number_on_pod(ports[0], &resolved), Some(3000));
        assert_eq!(number_on_pod(ports[0], &[]), None);
        assert_eq!(number_on_pod(ports[1], &[]), Some(9000));
        assert_eq!((sidecar_port(&resolved), sidecar_port(&resolved[..1])), (Some(8012), None));
        assert_eq!(sidecar_port(&slice(&json!([{"name": "http", "port": 18012}]))), Some(18012));
    }
}
