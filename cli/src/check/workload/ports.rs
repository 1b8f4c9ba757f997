//! Ports of the pod that the sidecar needs and the app takes.

use autoscaler::contract::{
    GROUP, QUEUE_PROXY, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_PORT, QUEUE_PROXY_STATS_PORT,
};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// The ports of the sidecar.
const PORTS: [u16; 3] = [QUEUE_PROXY_PORT, QUEUE_PROXY_ADMIN_PORT, QUEUE_PROXY_STATS_PORT];

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let template = workload.template.as_ref().filter(|_| workload.has_sidecar)?;
    let object = workload.target_name();
    let fix = |port: u16| {
        format!(
            "let the app listen on another port than {port}, and declare that one first (or name it in the annotation \
             {GROUP}/app-port of the pods)"
        )
    };
    if let Some(port) = annotated(template) {
        let problem = format!("annotation app-port is {port}, a port of the sidecar itself");
        return Some(Finding::error(object, "AppPortTaken", problem, fix(port)));
    }
    let apps = template.spec.iter().flat_map(|spec| &spec.containers).filter(|it| it.name != QUEUE_PROXY);
    for container in apps {
        if let Some(port) = declared(container) {
            let problem = format!(
                "container {} declares port {port}, on which the sidecar listens in the same pod",
                container.name
            );
            return Some(Finding::error(object, "AppPortTaken", problem, fix(port)));
        }
        if let Some(port) = mentioned(container) {
            let problem = format!(
                "container {} has {port} in its arguments or environment; the sidecar listens on that port in the same pod",
                container.name
            );
            return Some(Finding::warning(object, "AppPortTaken", problem, fix(port)));
        }
    }
    None
}

fn annotated(template: &PodTemplateSpec) -> Option<u16> {
    let annotations = template.metadata.as_ref()?.annotations.as_ref()?;
    let port = annotations.get(&format!("{GROUP}/app-port"))?.parse().ok()?;
    PORTS.contains(&port).then_some(port)
}

fn declared(container: &Container) -> Option<u16> {
    let ports =
        container.ports.iter().flatten().filter(|port| port.protocol.as_deref().is_none_or(|it| it == "TCP"));
    PORTS.into_iter().find(|taken| ports.clone().any(|port| port.container_port == i32::from(*taken)))
}

/// An argument `8012`, `:8012` or `--port=8012`, or a variable `PORT` with that value.
fn mentioned(container: &Container) -> Option<u16> {
    let words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let variables = container.env.iter().flatten().filter(|it| it.name.to_uppercase().contains("PORT"));
    let values = words.chain(variables.filter_map(|variable| variable.value.as_ref()));
    PORTS.into_iter().find(|port| {
        let number = port.to_string();
        values.clone().any(|value| {
            value.strip_suffix(&number).is_some_and(|rest| rest.is_empty() || rest.ends_with([':', '=']))
        })
    })
}
