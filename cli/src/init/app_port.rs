//! The app's port: what pods declare, and what the sidecar finds by itself.

use autoscaler::contract::{APP_PORT, DEFAULT_APP_PORT};
use serde_json::Value;

use super::object::{items, text};

/// The port of the app behind the Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppPort {
    /// The sidecar finds it by itself.
    Found,
    /// It needs an annotation.
    Other(i64),
}

/// The port to which the sidecar forwards by itself: the first one that the first container
/// declares.
pub(super) fn own_app_port(template: &Value) -> i64 {
    let annotated = template.pointer("/metadata/annotations").and_then(|it| it.get(APP_PORT));
    let annotated = annotated.and_then(Value::as_str).and_then(|port| port.parse().ok());
    let declared = template.pointer("/spec/containers/0/ports/0/containerPort").and_then(Value::as_i64);
    annotated.or(declared).unwrap_or(DEFAULT_APP_PORT.into())
}

/// Number of a port of the pods by its name.
pub(super) fn port_by_name(template: &Value, port: &str) -> Option<i64> {
    let containers = items(template, "/spec/containers").iter();
    let mut ports = containers.flat_map(|container| items(container, "/ports"));
    ports.find(|it| text(it, "/name") == Some(port))?.get("containerPort")?.as_i64()
}
