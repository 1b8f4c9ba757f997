//! The Service: whether its requests reach the workload's pods by way of Rouse.

use autoscaler::api::targets_sidecar;
use autoscaler::contract::QUEUE_PROXY;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::check::fetched::Fetched;
use crate::check::finding::Finding;
use crate::check::selection::contains;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(name) = &workload.service_name else { return Vec::new() };
    let object = format!("Service {}/{name}", workload.key.namespace);
    let spec = match &workload.service {
        Fetched::Found(service) => service.spec.clone().unwrap_or_default(),
        Fetched::NotFound => {
            let fix = "create it, or correct the Service that the HPA's metric names";
            return vec![Finding::error(object, "ServiceNotFound", "it does not exist", fix)];
        }
        Fetched::Unreadable(_) => return Vec::new(),
    };
    if spec.cluster_ip.as_deref() == Some("None") {
        let problem = "it is headless: its clients select pods by DNS and reach no activator";
        let fix = "use a Service with a cluster IP; clusterIP cannot be changed, so delete it and create it \
                   without clusterIP: None";
        return vec![Finding::error(object, "ServiceIsHeadless", problem, fix)];
    }
    if let Some(finding) = unusable(&spec, &object) {
        return vec![finding];
    }
    let mut findings: Vec<Finding> = bypassed(workload, &spec, &object).into_iter().collect();
    findings.extend(local_traffic(workload, &spec, &object));
    findings.extend(other_pods(workload, &spec, &object));
    findings.extend(selecting_plain_pods(workload, &spec, &object));
    findings
}

/// What no activator can serve.
fn unusable(spec: &ServiceSpec, object: &str) -> Option<Finding> {
    if spec.type_.as_deref() == Some("ExternalName") {
        let problem = "it has type ExternalName, so its clients reach neither pods nor activators";
        return Some(Finding::error(object, "ServiceIsExternal", problem, "use type ClusterIP"));
    }
    (!spec.ports.iter().flatten().any(is_tcp)).then(|| {
        let problem = "it has no TCP port, and Rouse serves no other protocol";
        Finding::error(object, "ServiceHasNoPort", problem, "add a TCP port with targetPort: queue-proxy")
    })
}

/// Activators run on few nodes.
fn local_traffic(workload: &WorkloadObjects, spec: &ServiceSpec, object: &str) -> Option<Finding> {
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    (is_local && workload.goes_to_zero()).then(|| {
        let problem = "externalTrafficPolicy: Local drops requests at nodes without an activator while the \
                       workload is at zero";
        Finding::warning(
            object,
            "ExternalTrafficPolicyLocal",
            problem,
            "set externalTrafficPolicy to Cluster",
        )
    })
}

/// Ports of an attached Service that lead past the sidecar.
fn bypassed(workload: &WorkloadObjects, spec: &ServiceSpec, object: &str) -> Option<Finding> {
    if !workload.has_sidecar || !is_attached(spec) {
        return None;
    }
    let ports: Vec<&ServicePort> = spec.ports.iter().flatten().filter(|port| is_tcp(port)).collect();
    let past: Vec<&&ServicePort> =
        ports.iter().filter(|port| !targets_sidecar(port, workload.sidecar_ports().traffic)).collect();
    let first = past.first()?;
    let problem = format!(
        "port {} has targetPort {}, which leads past the sidecar: its requests are not counted, and refused \
         at zero",
        first.port,
        target_port(first)
    );
    let fix = format!("set targetPort of the port to {QUEUE_PROXY}");
    let finding = Finding::error(object, "SidecarBypassed", problem, fix);
    // With another port in the sidecar the workload is scaled.
    Some(if past.len() < ports.len() { finding.as_warning() } else { finding })
}

fn other_pods(workload: &WorkloadObjects, spec: &ServiceSpec, object: &str) -> Option<Finding> {
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    let labels = workload.template.as_ref()?.metadata.as_ref()?.labels.as_ref()?;
    (!contains(labels, selector)).then(|| {
        let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let problem = format!(
            "its selector {} does not match the pods of {}",
            labels.join(","),
            workload.target_name()
        );
        let fix = "give the selector labels of the pod template, or correct the Service that the HPA's \
                   metric names";
        Finding::error(object, "ServiceSelectsOtherPods", problem, fix)
    })
}

fn selecting_plain_pods(workload: &WorkloadObjects, spec: &ServiceSpec, object: &str) -> Option<Finding> {
    (!workload.has_sidecar && is_attached(spec)).then(|| {
        let problem = "the pods have no sidecar, and it selects them, so requests bypass the activators and \
                       are not counted";
        let fix = "remove its selector (Rouse then writes its endpoints), or set the annotation sidecar to \
                   \"true\"";
        Finding::error(object, "ServiceHasSelector", problem, fix)
    })
}

pub(super) fn is_attached(spec: &ServiceSpec) -> bool {
    spec.selector.as_ref().is_some_and(|selector| !selector.is_empty())
}

fn is_tcp(port: &ServicePort) -> bool {
    port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP")
}

fn target_port(port: &ServicePort) -> String {
    port.target_port.as_ref().map_or_else(|| port.port.to_string(), port_text)
}

/// The name or number of a port.
pub(super) fn port_text(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    }
}
