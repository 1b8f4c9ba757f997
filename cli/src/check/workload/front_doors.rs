//! Front doors: whether their requests reach the Service, and whether they may last as long as a
//! wake.

use std::time::Duration;

use autoscaler::contract::SCALE_TO_ZERO;
use autoscaler::contract::private_name::private_name;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::service::port_text;
use crate::check::finding::Finding;
use crate::check::front_door::{Backend, FrontDoor};
use crate::check::workload_objects::WorkloadObjects;

/// A pod with its image on the node starts within a second or two, with an app that needs some
/// seconds to listen.
const WAKE: Duration = Duration::from_secs(10);

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(service) = &workload.service_name else { return Vec::new() };
    let doors = workload.front_doors.iter();
    doors
        .flat_map(|door| door.backends.iter().filter_map(|it| finding(workload, service, door, it)))
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
    let spec = workload.service.found().and_then(|found| found.spec.as_ref());
    let spec = spec.filter(|_| backend.service == service)?;
    missing_port(spec, service, door, backend).or_else(|| short_timeout(workload, service, door, backend))
}

fn bypassing(service: &str, door: &FrontDoor, backend: &Backend) -> Finding {
    let problem = format!(
        "it leads to Service {}, which Rouse keeps for its own use and which has no endpoints at zero: requests do not \
         wake the workload",
        backend.service
    );
    let fix = format!("name Service {service}");
    Finding::error(&door.object, "ActivatorBypassed", problem, fix)
}

fn missing_port(spec: &ServiceSpec, service: &str, door: &FrontDoor, backend: &Backend) -> Option<Finding> {
    let port = backend.port.as_ref()?;
    let ports = spec.ports.as_deref().unwrap_or_default();
    (!ports.iter().any(|it| is(it, port))).then(|| {
        let problem = format!("it leads to port {}, which Service {service} does not have", port_text(port));
        let has: Vec<String> = ports.iter().map(|it| it.port.to_string()).collect();
        let fix = format!("name a port of the Service, which has {}", has.join(", "));
        Finding::error(&door.object, "ServicePortNotFound", problem, fix)
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
    let (setting, length) = backend.timeout.filter(|(_, length)| *length < WAKE)?;
    goes_to_zero(workload).then(|| {
        let problem = format!(
            "{setting} is {length:?}: a request to {service} at zero fails if its pod takes longer to start"
        );
        let fix = format!("set it to {WAKE:?} or more");
        Finding::warning(&door.object, "TimeoutBelowWake", problem, fix)
    })
}

fn goes_to_zero(workload: &WorkloadObjects) -> bool {
    let by_hpa = || {
        let annotations = workload.hpa.as_ref().map(ResourceExt::annotations);
        annotations.and_then(|it| it.get(SCALE_TO_ZERO)).is_some_and(|value| value == "true")
    };
    workload.autoscaler.as_ref().map_or_else(by_hpa, |autoscaler| autoscaler.spec.scale_to_zero)
}
