//! Ports of the sidecar that the app takes without a declaration, and the port of the app.

use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::contract::{GROUP, QUEUE_PROXY};
use autoscaler::findings::SidecarConflict;
use autoscaler::findings::reasons::{CheckReason, Reason};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let template = workload.template.as_ref().filter(|_| workload.has_sidecar)?;
    let object = workload.target_name();
    let ports = workload.sidecar_ports();
    if let Some(port) = invalid(template) {
        let problem = format!(
            "annotation app-port of its pods is {port:?}, which is not a port, so the sidecar does not start"
        );
        return Some(Finding::error(object, CheckReason::InvalidAppPort, problem));
    }
    if let Some(port) = annotated(template, ports) {
        let problem = format!("annotation app-port is {port}, a port of the sidecar itself");
        return Some(Finding::error(object, Reason::AppPortTaken, problem));
    }
    if SidecarConflict::all(template).iter().any(|conflict| matches!(conflict, SidecarConflict::Port { .. }))
    {
        // A finding of its own; the arguments would repeat it.
        return None;
    }
    let apps = template.spec.iter().flat_map(|spec| &spec.containers).filter(|it| it.name != QUEUE_PROXY);
    let (container, port) = apps.filter_map(|app| Some((app, mentioned(app, ports)?))).next()?;
    let problem = format!(
        "container {} has {port} in its arguments or environment; the sidecar listens on that port in the same pod \
         (annotation {})",
        container.name,
        ports.annotation_of(port)
    );
    Some(Finding::warning(object, Reason::AppPortTaken, problem))
}

fn annotation(template: &PodTemplateSpec) -> Option<&str> {
    let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
    Some(annotations.get(&format!("{GROUP}/app-port"))?.as_str())
}

fn invalid(template: &PodTemplateSpec) -> Option<&str> {
    annotation(template).filter(|text| !text.parse::<u16>().is_ok_and(|port| port > 0))
}

fn annotated(template: &PodTemplateSpec, ports: SidecarPorts) -> Option<u16> {
    let port = annotation(template)?.parse().ok()?;
    ports.all().contains(&port).then_some(port)
}

/// An argument `8012`, `:8012` or `--port=8012`, or a variable `PORT` with that value.
fn mentioned(container: &Container, ports: SidecarPorts) -> Option<u16> {
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let variables = container.env.iter().flatten().filter(|it| it.name.to_uppercase().contains("PORT"));
    let values = words.chain(variables.filter_map(|variable| variable.value.as_ref()));
    ports.all().into_iter().find(|port| {
        let number = port.to_string();
        values.clone().any(|value| {
            value.strip_suffix(&number).is_some_and(|rest| rest.is_empty() || rest.ends_with([':', '=']))
        })
    })
}
