//! Front doors: whether their requests reach the Service, and whether they may last as long as a
//! wake.

mod inference_pools;
mod mesh;
mod pod_targets;

use std::collections::HashSet;
use std::time::Duration;

use autoscaler::api::targets_sidecar;
use autoscaler::contract::short_name::private_name;
use autoscaler::findings::hpa::named_service;
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::service::text_of;
use crate::check::finding::Finding;
use crate::check::front_door::{Backend, FrontDoor};
use crate::check::namespace_objects::named;
use crate::check::selection::contains;
use crate::check::workload_objects::WorkloadObjects;

/// A pod with its image on the node starts within a second or two, with an app that needs some
/// seconds to listen. A workload with a wake-timeout may take that long.
const WAKE: Duration = Duration::from_secs(10);

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut findings = inference_pools::check(workload);
    findings.extend(pod_targets::check(workload));
    findings.extend(mesh::check(workload));
    let Some(service) = &workload.service_name else { return findings };
    findings.extend(workload.namespace.front_doors.iter().flat_map(|door| of_door(workload, service, door)));
    findings
}

/// Several paths may lead to one backend: it has each reason once, for the shortest timeout.
fn of_door(workload: &WorkloadObjects, service: &str, door: &FrontDoor) -> Vec<Finding> {
    let mut backends: Vec<&Backend> = door.backends.iter().collect();
    backends.sort_by_key(|backend| backend.timeout.map_or(Duration::MAX, |(_, length)| length));
    let mut seen = HashSet::new();
    let found = backends.into_iter().filter_map(|it| Some((it, finding(workload, service, door, it)?)));
    found
        .filter(|(it, finding)| {
            seen.insert((it.service.clone(), it.port.as_ref().map(text_of), finding.reason.clone()))
        })
        .map(|(_, finding)| finding)
        .collect()
}

fn finding(
    workload: &WorkloadObjects,
    service: &str,
    door: &FrontDoor,
    backend: &Backend,
) -> Option<Finding> {
    if backend.service == private_name(service) {
        return Some(bypassing(service, door, backend));
    }
    if backend.service != service {
        return other_service(workload, service, door, backend);
    }
    let spec = workload.service.found()?.spec.as_ref()?;
    missing_port(spec, service, door, backend).or_else(|| short_timeout(workload, service, door, backend))
}

/// A second Service that selects the workload's pods, and belongs to no other workload.
fn other_service(
    workload: &WorkloadObjects,
    service: &str,
    door: &FrontDoor,
    backend: &Backend,
) -> Option<Finding> {
    let other = named(workload.namespace.services.as_ref()?, &backend.service)?;
    let spec = other.spec.as_ref()?;
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    if !contains(workload.pod_labels()?, selector) || belongs_to_a_workload(workload, &backend.service) {
        return None;
    }
    let ports = spec.ports.iter().flatten();
    let mut led = ports.filter(|port| backend.port.as_ref().is_none_or(|named| is(port, named)));
    let traffic = workload.sidecar_ports().traffic;
    let is_counted = workload.has_sidecar && led.all(|port| targets_sidecar(port, traffic));
    let effect =
        if is_counted { "do not wake the workload" } else { "are not counted, and do not wake the workload" };
    (!is_counted || workload.goes_to_zero()).then(|| {
        let problem = format!(
            "it leads to Service {}, which selects the pods of {} and is not the workload's: its requests \
             {effect}",
            backend.service,
            workload.target_name()
        );
        Finding::warning(&door.object, CheckReason::ActivatorBypassed, problem)
            .with_fix(format!("name Service {service}"))
    })
}

fn belongs_to_a_workload(workload: &WorkloadObjects, service: &str) -> bool {
    let namespace = &workload.namespace;
    let of_autoscalers = namespace.autoscalers.iter().any(|it| it.spec.service == service);
    of_autoscalers || namespace.hpas.iter().any(|hpa| named_service(hpa, false).as_deref() == Some(service))
}

fn bypassing(service: &str, door: &FrontDoor, backend: &Backend) -> Finding {
    let problem = format!(
        "it leads to Service {}, which Rouse keeps for its own use and which has no endpoints at zero: \
         requests do not wake the workload",
        backend.service
    );
    let finding = Finding::error(&door.object, CheckReason::ActivatorBypassed, problem);
    finding.with_fix(format!("name Service {service}"))
}

fn missing_port(spec: &ServiceSpec, service: &str, door: &FrontDoor, backend: &Backend) -> Option<Finding> {
    let port = backend.port.as_ref()?;
    let ports = spec.ports.as_deref().unwrap_or_default();
    (!ports.iter().any(|it| is(it, port))).then(|| {
        let problem = format!("it leads to port {}, which Service {service} does not have", text_of(port));
        let has: Vec<String> = ports.iter().map(|it| it.port.to_string()).collect();
        let fix = format!("name a port of the Service, which has {}", has.join(", "));
        Finding::error(&door.object, CheckReason::ServicePortNotFound, problem).with_fix(fix)
    })
}

fn is(port: &ServicePort, named: &IntOrString) -> bool {
    match named {
        IntOrString::Int(number) => port.port == *number,
        IntOrString::String(name) => port.name.as_ref() == Some(name),
    }
}

/// Only for workloads that go to zero.
fn short_timeout(
    workload: &WorkloadObjects,
    service: &str,
    door: &FrontDoor,
    backend: &Backend,
) -> Option<Finding> {
    let wake = workload.settings().wake.timeout.map_or(WAKE, |timeout| timeout.max(WAKE));
    let (setting, length) = backend.timeout.filter(|(_, length)| *length < wake)?;
    workload.goes_to_zero().then(|| {
        let problem = format!(
            "{setting} is {length:?}: a request to {service} at zero fails if its pod takes longer to start"
        );
        let finding = Finding::warning(&door.object, CheckReason::TimeoutBelowWake, problem);
        finding.with_fix(format!("set it to {wake:?} or more, which a wake may take"))
    })
}
