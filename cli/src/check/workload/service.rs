//! The Service: whether its requests reach the workload's pods by way of Rouse.

use autoscaler::api::targets_sidecar;
use autoscaler::findings::reasons::CheckReason;
use autoscaler::findings::service::{ServiceFields, not_found, other_targets};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use crate::check::fetched::Fetched;
use crate::check::finding::Finding;
use crate::check::selection::contains;
use crate::check::workload_objects::WorkloadObjects;

/// What the zero-scaler reports of it.
pub(super) fn unusable(workload: &WorkloadObjects) -> Option<Finding> {
    let name = workload.service_name.as_ref()?;
    let object = format!("Service {}/{name}", workload.key.namespace);
    let service = match &workload.service {
        Fetched::Found(service) => ServiceFields::of(service),
        Fetched::NotFound => return Some(Finding::of_problem(object, not_found(name))),
        Fetched::Unreadable(_) => return None,
    };
    let traffic = workload.sidecar_ports().traffic;
    let unusable = service.unroutable(workload.has_sidecar);
    let problem = unusable.or_else(|| service.without_port(traffic).filter(|_| workload.has_sidecar));
    if let Some(problem) = problem {
        return Some(Finding::of_problem(object, problem));
    }
    let past: Vec<i32> = service
        .tcp_ports()
        .filter(|port| workload.has_sidecar && !service.is_managed() && !targets_sidecar(port, traffic))
        .map(|port| port.port)
        .collect();
    let bypassed = (!past.is_empty()).then(|| other_targets(&past, false));
    let blocking = service.keeps_above_zero().filter(|_| workload.goes_to_zero());
    // With another port in the sidecar the workload is scaled.
    bypassed.or(blocking).map(|problem| Finding::of_problem(object, problem).as_warning())
}

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let (Some(name), Some(service)) = (&workload.service_name, workload.service.found()) else {
        return Vec::new();
    };
    let object = format!("Service {}/{name}", workload.key.namespace);
    let spec = service.spec.clone().unwrap_or_default();
    let local = local_traffic(workload, &spec, &object);
    let findings = local.into_iter().chain(other_pods(workload, &spec, &object));
    findings.chain(scraped(workload, service)).collect()
}

/// Kubernetes writes no Endpoints for a Service without a selector, and its slices have activators.
fn scraped(workload: &WorkloadObjects, service: &Service) -> Option<Finding> {
    if !ServiceFields::of(service).is_managed() {
        return None;
    }
    let mut monitors = workload.namespace.service_monitors.iter();
    let monitor = monitors.find(|monitor| monitor.selects(service.labels()))?;
    let problem = format!(
        "it selects Service {} without a selector, so Prometheus finds activators or nothing, and none of the \
         pods of {}",
        service.name_any(),
        workload.target_name()
    );
    Some(Finding::warning(&monitor.object, CheckReason::PodsNotScraped, problem))
}

/// Activators run on few nodes.
fn local_traffic(workload: &WorkloadObjects, spec: &ServiceSpec, object: &str) -> Option<Finding> {
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    (is_local && workload.goes_to_zero()).then(|| {
        let problem = "externalTrafficPolicy: Local drops requests at nodes without an activator while the \
                       workload is at zero";
        Finding::warning(object, CheckReason::ExternalTrafficPolicyLocal, problem)
    })
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
        Finding::error(object, CheckReason::ServiceSelectsOtherPods, problem)
    })
}

/// A number, name or percentage as users write it.
pub(super) fn text_of(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}
