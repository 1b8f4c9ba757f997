//! FrontDoor: an Ingress, HTTPRoute or GRPCRoute, with the Services that it leads to.
//!
//! Input: objects of a workload's namespace, from `read_namespace`. Output: for the check
//! `workload::front_doors`. Routes of the Gateway API are read as they are, because the cluster may
//! serve any version of them, or none.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// Annotation of ingress-nginx: seconds between two reads of a response.
const NGINX_READ_TIMEOUT: &str = "nginx.ingress.kubernetes.io/proxy-read-timeout";

#[derive(Clone, Debug, PartialEq)]
pub struct FrontDoor {
    /// Its kind and name, such as `Ingress shop/web`.
    pub object: String,
    /// What it leads to.
    pub backends: Vec<Backend>,
}

/// A Service in the namespace of its front door.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name.
    pub service: String,
    /// The Service's port, by its number or name.
    pub port: Option<IntOrString>,
    /// The shortest timeout of its requests: the setting and its length. `None` without a limit, or
    /// if the front door's own default applies.
    pub timeout: Option<(&'static str, Duration)>,
}

// === impl FrontDoor ===

impl FrontDoor {
    /// A front door of the Ingress API.
    pub fn of_ingress(ingress: &Ingress) -> Self {
        let spec = ingress.spec.as_ref();
        let rules = spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten();
        let paths = rules.filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
        let default = spec.and_then(|spec| spec.default_backend.as_ref());
        let seconds = ingress.annotations().get(NGINX_READ_TIMEOUT).and_then(|value| value.parse().ok());
        let timeout = seconds
            .filter(|seconds| *seconds > 0)
            .map(|seconds| (NGINX_READ_TIMEOUT, Duration::from_secs(seconds)));
        let backends = default.into_iter().chain(paths.map(|path| &path.backend));
        Self {
            object: named("Ingress", ingress),
            backends: backends.filter_map(|backend| ingress_backend(backend, timeout)).collect(),
        }
    }

    /// A front door of the Gateway API.
    pub fn of_route(kind: &str, route: &DynamicObject) -> Self {
        let namespace = route.namespace().unwrap_or_default();
        let rules = route.data.pointer("/spec/rules").and_then(Value::as_array).into_iter().flatten();
        let backends = rules.flat_map(|rule| route_backends(rule, &namespace)).collect();
        Self { object: named(kind, route), backends }
    }
}

fn named<K: ResourceExt>(kind: &str, object: &K) -> String {
    format!("{kind} {}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

fn ingress_backend(backend: &IngressBackend, timeout: Option<(&'static str, Duration)>) -> Option<Backend> {
    let service = backend.service.as_ref()?;
    let port = service.port.as_ref().and_then(|port| {
        let name = port.name.clone().map(IntOrString::String);
        name.or(port.number.map(IntOrString::Int))
    });
    Some(Backend { service: service.name.clone(), port, timeout })
}

/// The Services of a rule in the route's own namespace.
fn route_backends<'a>(rule: &'a Value, namespace: &'a str) -> impl Iterator<Item = Backend> + 'a {
    let timeout = route_timeout(rule);
    let references = rule.get("backendRefs").and_then(Value::as_array).into_iter().flatten();
    let text = |reference: &'a Value, field: &str| reference.get(field).and_then(Value::as_str);
    references
        .filter(move |reference| {
            text(reference, "kind").is_none_or(|kind| kind == "Service")
                && text(reference, "namespace").is_none_or(|it| it == namespace)
        })
        .filter_map(move |reference| {
            let number = reference.get("port").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
            let service = text(reference, "name")?.to_owned();
            Some(Backend { service, port: number.map(IntOrString::Int), timeout })
        })
}

/// The shorter timeout of a rule. Zero means no timeout.
fn route_timeout(rule: &Value) -> Option<(&'static str, Duration)> {
    let timeouts = [("timeouts.request", "request"), ("timeouts.backendRequest", "backendRequest")];
    let given = timeouts.into_iter().filter_map(|(setting, field)| {
        let duration: SignedDuration = rule.get("timeouts")?.get(field)?.as_str()?.parse().ok()?;
        let duration = Duration::try_from(duration).ok()?;
        (!duration.is_zero()).then_some((setting, duration))
    });
    given.min_by_key(|(_, duration)| *duration)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn route_has_the_services_of_its_namespace_and_the_shorter_timeout() {
        let route: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"rules": [
                {
                    "timeouts": {"request": "10s", "backendRequest": "1s500ms"},
                    "backendRefs": [
                        {"name": "web", "port": 80},
                        {"name": "web", "namespace": "other", "port": 80},
                        {"name": "web", "kind": "ServiceImport", "group": "multicluster.x-k8s.io", "port": 80},
                    ],
                },
                {"timeouts": {"request": "0s"}, "backendRefs": [{"name": "cart"}]},
                {"filters": []},
            ]},
        }))
        .unwrap();
        let door = FrontDoor::of_route("HTTPRoute", &route);
        let timeout = Some(("timeouts.backendRequest", Duration::from_millis(1500)));
        let web = Backend { service: "web".to_owned(), port: Some(IntOrString::Int(80)), timeout };
        let cart = Backend { service: "cart".to_owned(), port: None, timeout: None };
        assert_eq!(door, FrontDoor { object: "HTTPRoute shop/web".to_owned(), backends: vec![web, cart] });
    }
}
