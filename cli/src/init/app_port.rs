//! The app's port: what pods declare, and what the sidecar finds by itself.

use autoscaler::api::declared_app_port;
use autoscaler::contract::APP_PORT;
use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize;
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

/// The port to which the sidecar forwards by itself.
pub(super) fn own_app_port(template: &Value) -> i64 {
    let annotated = template.pointer("/metadata/annotations").and_then(|it| it.get(APP_PORT));
    let annotated = annotated.and_then(Value::as_str).and_then(|port| port.parse().ok());
    let spec = || template.get("spec").and_then(|spec| PodSpec::deserialize(spec).ok());
    annotated.unwrap_or_else(|| declared_app_port(spec().as_ref()).into())
}

/// Number of a port of the pods by its name.
pub(super) fn port_by_name(template: &Value, port: &str) -> Option<i64> {
    let containers = items(template, "/spec/containers").iter();
    let mut ports = containers.flat_map(|container| items(container, "/ports"));
    ports.find(|it| text(it, "/name") == Some(port))?.get("containerPort")?.as_i64()
}
