//! The change of the pod template: the label that requests the sidecar, and the app's port where
//! the sidecar would not find it.

use autoscaler::contract::{GROUP, INJECT_LABEL, QUEUE_PROXY};
use serde_json::{Value, json};

use super::object::{applicable, items, merge, name, namespace, patch_command, text};
use super::plan::{Change, Step};
use super::service::AppPort;

/// Port of apps that declare none.
const DEFAULT_PORT: i64 = 8080;

/// The port to which the sidecar forwards by itself: the first one that the first container declares.
pub(super) fn own_app_port(template: &Value) -> i64 {
    let annotated =
        template.pointer("/metadata/annotations").and_then(|it| it.get(format!("{GROUP}/app-port")));
    let annotated = annotated.and_then(Value::as_str).and_then(|port| port.parse().ok());
    let declared = template.pointer("/spec/containers/0/ports/0/containerPort").and_then(Value::as_i64);
    annotated.or(declared).unwrap_or(DEFAULT_PORT)
}

/// Number of a port of the pods by its name.
pub(super) fn port_by_name(template: &Value, port: &str) -> Option<i64> {
    let containers = items(template, "/spec/containers").iter();
    let mut ports = containers.flat_map(|container| items(container, "/ports"));
    ports.find(|it| text(it, "/name") == Some(port))?.get("containerPort")?.as_i64()
}

/// `None` if the template has the sidecar and the port already.
pub(super) fn change(target: &Value, app_port: AppPort) -> Option<Change> {
    let template = target.pointer("/spec/template")?;
    let label = template.pointer("/metadata/labels").and_then(|labels| labels.get(INJECT_LABEL));
    let containers =
        items(template, "/spec/containers").iter().chain(items(template, "/spec/initContainers"));
    let is_written = containers.clone().any(|container| text(container, "/name") == Some(QUEUE_PROXY));
    let mut metadata = json!({});
    if !is_written && label.and_then(Value::as_str) != Some("true") {
        merge(&mut metadata, &json!({"labels": {INJECT_LABEL: "true"}}));
    }
    if let AppPort::Other(port) = app_port {
        merge(&mut metadata, &json!({"annotations": {format!("{GROUP}/app-port"): port.to_string()}}));
    }
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let patch = json!({"spec": {"template": {"metadata": metadata}}});
    let kind = text(target, "/kind").unwrap_or_default();
    let command = patch_command(target, &kind.to_lowercase(), None, &patch);
    let mut object = applicable(target);
    merge(&mut object, &patch);
    let summary = format!(
        "{kind} {}/{}: the pods get the sidecar, by a rollout. Wait for it: kubectl --namespace {} rollout status {}/{}",
        namespace(target),
        name(target),
        namespace(target),
        kind.to_lowercase(),
        name(target)
    );
    Some(Change { step: Step::Pods, summary, command: Some(command), object })
}
