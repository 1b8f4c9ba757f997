//! The change of the pod template: the label that requests the sidecar, the app's port where the
//! sidecar would not find it, and other ports of the sidecar where the app has them.

use autoscaler::contract::{APP_PORT, INJECT_LABEL, QUEUE_PROXY};
use serde_json::{Value, json};

use super::app_port::AppPort;
use super::change::{Change, Step};
use super::object::{applicable, items, kind, merge, name, namespace, patch_command, text};
use super::sidecar_ports::free_ports;

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
        merge(&mut metadata, &json!({"annotations": {APP_PORT: port.to_string()}}));
    }
    for (annotation, port) in if is_written { Vec::new() } else { free_ports(template, app_port) } {
        merge(&mut metadata, &json!({"annotations": {annotation: port.to_string()}}));
    }
    if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        return None;
    }
    let patch = json!({"spec": {"template": {"metadata": metadata}}});
    let kind = kind(target);
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
    let before = Some(target.clone());
    Some(Change { step: Step::Pods, summary, command: Some(command), object, before })
}
