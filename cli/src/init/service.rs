//! The Service of a target, and its change.

use autoscaler::contract::QUEUE_PROXY;
use serde_json::{Value, json};

use super::app_port::{AppPort, own_app_port, port_by_name};
use super::change::{Change, Step};
use super::object::{applicable, items, merge, name, namespace, patch_command, text};
use super::sidecar_ports::sidecar_ports;

/// The Service of the pods: the named one, else the only one that selects them.
pub(super) fn find<'a>(
    services: &'a [Value],
    template: &Value,
    given: Option<&str>,
) -> Result<&'a Value, String> {
    let service = match given {
        Some(given) => services.iter().find(|service| name(service) == given).ok_or_else(|| {
            format!("Service {given} does not exist; create it, or name another by --service")
        })?,
        None => only_selecting(services, template)?,
    };
    let described = format!("Service {}", name(service));
    if text(service, "/spec/clusterIP") == Some("None") {
        return Err(format!(
            "{described} is headless: its clients select pods by DNS and reach no activator; create a second Service with \
             a cluster IP, and name it by --service"
        ));
    }
    if text(service, "/spec/type") == Some("ExternalName") {
        return Err(format!("{described} has type ExternalName and no endpoints; use one of type ClusterIP"));
    }
    if !items(service, "/spec/ports").iter().any(is_tcp) {
        return Err(format!("{described} has no TCP port; add one"));
    }
    Ok(service)
}

fn only_selecting<'a>(services: &'a [Value], template: &Value) -> Result<&'a Value, String> {
    let labels = template.pointer("/metadata/labels");
    let selecting: Vec<&Value> = services
        .iter()
        .filter(|service| {
            let selector = service.pointer("/spec/selector").and_then(Value::as_object);
            selector.is_some_and(|selector| {
                !selector.is_empty()
                    && selector.iter().all(|(key, value)| labels.and_then(|it| it.get(key)) == Some(value))
            })
        })
        .collect();
    match selecting.as_slice() {
        [service] => Ok(service),
        [] => Err("no Service selects the pods; create one with their labels as its selector, or name one by --service"
            .to_owned()),
        several => {
            let names: Vec<&str> = several.iter().map(|service| name(service)).collect();
            Err(format!("Services {} all select the pods; name the one with the requests to count by --service", names.join(", ")))
        }
    }
}

/// The change that leads the Service to the sidecars, and where these find the app.
pub(super) fn through_sidecar(service: &Value, template: &Value) -> (Option<Change>, AppPort) {
    let own = own_app_port(template);
    let ports: Vec<&Value> = items(service, "/spec/ports").iter().filter(|port| is_tcp(port)).collect();
    if ports.iter().any(|port| leads_to_sidecar(port, template)) {
        return (None, AppPort::Found);
    }
    let of_app = ports.iter().find(|port| app_port(port, template) == Some(own));
    let Some(port) = of_app.or(ports.first()) else { return (None, AppPort::Found) };
    let number = port.get("port").cloned().unwrap_or(Value::Null);
    let patch = json!({"spec": {"ports": [{"port": number, "targetPort": QUEUE_PROXY}]}});
    let mut object = applicable(service);
    if let Some(ports) = object.pointer_mut("/spec/ports").and_then(Value::as_array_mut)
        && let Some(changed) = ports.iter_mut().find(|it| it.get("port") == Some(&number) && is_tcp(it))
    {
        merge(changed, &json!({"targetPort": QUEUE_PROXY}));
    }
    let target =
        port.get("targetPort").map_or_else(|| number.to_string(), |it| it.to_string().replace('"', ""));
    let summary = format!(
        "Service {}/{}: port {number} leads to the sidecar in place of {target}",
        namespace(service),
        name(service)
    );
    let command = Some(patch_command(service, "service", None, &patch));
    let found = match app_port(port, template) {
        Some(port) if port != own => AppPort::Other(port),
        _ => AppPort::Found,
    };
    let before = Some(service.clone());
    (Some(Change { step: Step::Traffic, summary, command, object, before }), found)
}

/// The change that gives the Service's endpoints to Rouse.
pub(super) fn without_sidecar(service: &Value) -> Option<Change> {
    let selector = service.pointer("/spec/selector").and_then(Value::as_object)?;
    if selector.is_empty() {
        return None;
    }
    let patch = json!({"spec": {"selector": null}});
    let mut object = applicable(service);
    merge(&mut object, &patch);
    let summary = format!(
        "Service {}/{}: without selector, so that Rouse writes its endpoints and activators are in the path of all requests",
        namespace(service),
        name(service)
    );
    let command = Some(patch_command(service, "service", Some("merge"), &patch));
    Some(Change { step: Step::Traffic, summary, command, object, before: Some(service.clone()) })
}

fn is_tcp(port: &Value) -> bool {
    text(port, "/protocol").is_none_or(|protocol| protocol == "TCP")
}

fn leads_to_sidecar(port: &Value, template: &Value) -> bool {
    match port.get("targetPort") {
        Some(Value::String(name)) => name == QUEUE_PROXY,
        Some(number) => number.as_i64() == Some(sidecar_ports(template).traffic.into()),
        None => false,
    }
}

/// The number of the pods' port that a port of the Service leads to.
fn app_port(port: &Value, template: &Value) -> Option<i64> {
    match port.get("targetPort") {
        Some(Value::String(name)) => port_by_name(template, name),
        Some(number) => number.as_i64(),
        None => port.get("port")?.as_i64(),
    }
}
