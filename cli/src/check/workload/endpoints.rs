//! The endpoints of the Service: whether other pods or other writers are among them.

use autoscaler::contract::{KUBERNETES_SLICE_MANAGER, SLICE_MANAGED_BY, SLICE_MANAGER, SLICE_SERVICE};
use autoscaler::findings::reasons::CheckReason;
use autoscaler::findings::service::{ServiceFields, foreign_endpoints};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::selection::contains;
use crate::check::workload_objects::WorkloadObjects;

/// Writers that lead to the Service's own pods, or to activators.
const MANAGERS: [&str; 2] = [KUBERNETES_SLICE_MANAGER, SLICE_MANAGER];

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    // Of a Service without selector, the zero-scaler reports foreign endpoints.
    if workload.service.found().is_none_or(|service| ServiceFields::of(service).is_managed()) {
        return Vec::new();
    }
    foreign_slice(workload).into_iter().chain(other_target(workload)).collect()
}

fn foreign_slice(workload: &WorkloadObjects) -> Option<Finding> {
    let service = workload.service_name.as_ref()?;
    let is_foreign = |slice: &EndpointSlice| {
        let manager = slice.labels().get(SLICE_MANAGED_BY).map(String::as_str).unwrap_or_default();
        slice.labels().get(SLICE_SERVICE) == Some(service) && !MANAGERS.contains(&manager)
    };
    let mut foreign = workload.namespace.slices.iter().filter(|slice| is_foreign(slice));
    let slice = foreign.find(|slice| slice.endpoints.iter().flatten().next().is_some())?;
    let namespace = &workload.key.namespace;
    let (object, name) = (format!("EndpointSlice {namespace}/{}", slice.name_any()), slice.name_any());
    let problem = foreign_endpoints(service, &format!("EndpointSlice {name:?}"));
    Some(Finding::of_problem(object, problem))
}

fn other_target(workload: &WorkloadObjects) -> Option<Finding> {
    let name = workload.service_name.as_ref()?;
    let selector = workload.service.found()?.spec.as_ref()?.selector.as_ref()?;
    let mut others = workload.namespace.targets().filter(|(target, _)| *target != workload.target);
    let ((kind, other), _) = others.find(|(_, target)| {
        let labels = target.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        labels.is_some_and(|labels| contains(labels, selector))
    })?;
    let namespace = &workload.key.namespace;
    let problem = format!(
        "its selector matches the pods of {kind} {namespace}/{other} too, which are not counted for \
         workload {}",
        workload.key
    );
    let object = format!("Service {namespace}/{name}");
    Some(Finding::warning(object, CheckReason::SeveralTargetsSelected, problem))
}
