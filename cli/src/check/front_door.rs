//! FrontDoor: an Ingress, HTTPRoute or GRPCRoute, with the Services of one namespace that it leads
//! to.
//!
//! Input: objects from `read_namespace`. Output: for the check `workload::front_doors`. Routes of
//! the Gateway API are read as they are, because the cluster may serve any version of them, or
//! none. They may be in another namespace than the Services.

pub mod controller;

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::networking::v1::{Ingress, IngressBackend};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use autoscaler::contract::pod_targets::ALB_TARGETS;
use controller::{Controllers, default_timeout};

/// Annotation of ingress-nginx: seconds between two reads of a response.
const NGINX_READ_TIMEOUT: &str = "nginx.ingress.kubernetes.io/proxy-read-timeout";
/// Annotation of an Ingress: whether its controller writes rules of the pods' security groups.
const ALB_RULES: &str = "alb.ingress.kubernetes.io/manage-backend-security-group-rules";

#[derive(Clone, Debug, PartialEq)]
pub struct FrontDoor {
    /// Its kind and name, such as `Ingress shop/web`.
    pub object: String,
    /// What it leads to.
    pub backends: Vec<Backend>,
    /// The value of [`ALB_TARGETS`].
    pub alb_targets: Option<String>,
    /// Whether the user writes the rules of the pods' security groups.
    pub has_own_rules: bool,
}

/// A Service.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name.
    pub service: String,
    /// The Service's port, by its number or name.
    pub port: Option<IntOrString>,
    /// The shortest timeout of its requests: the setting, or the default of the program that serves
    /// the front door, and its length. `None` without a limit, or if the default is unknown.
    pub timeout: Option<(&'static str, Duration)>,
}

// === impl FrontDoor ===

impl FrontDoor {
    /// A front door of the Ingress API.
    pub fn of_ingress(ingress: &Ingress, controllers: &Controllers) -> Self {
        let spec = ingress.spec.as_ref();
        let rules = spec.and_then(|spec| spec.rules.as_ref()).into_iter().flatten();
        let paths = rules.filter_map(|rule| rule.http.as_ref()).flat_map(|http| &http.paths);
        let default = spec.and_then(|spec| spec.default_backend.as_ref());
        let annotation = |name: &str| ingress.annotations().get(name);
        let seconds = annotation(NGINX_READ_TIMEOUT).and_then(|value| value.parse::<u64>().ok());
        let timeout = match seconds {
            Some(seconds) => (seconds > 0).then(|| (NGINX_READ_TIMEOUT, Duration::from_secs(seconds))),
            None => default_timeout(controllers.of_ingress(ingress).as_slice()),
        };
        let backends = default.into_iter().chain(paths.map(|path| &path.backend));
        Self {
            object: named("Ingress", ingress),
            backends: backends.filter_map(|backend| ingress_backend(backend, timeout)).collect(),
            alb_targets: annotation(ALB_TARGETS).cloned(),
            has_own_rules: annotation(ALB_RULES).is_some_and(|value| value == "false"),
        }
    }

    /// A front door of the Gateway API, to the Services of this namespace; `None` if it leads to
    /// none.
    pub fn of_route(
        kind: &str,
        route: &DynamicObject,
        namespace: &str,
        controllers: &Controllers,
    ) -> Option<Self> {
        let own = route.namespace().unwrap_or_default();
        let default = default_timeout(&controllers.of_route(route));
        let rules = route.data.pointer("/spec/rules").and_then(Value::as_array).into_iter().flatten();
        let of_rule = |rule| {
            let timeout = route_timeout(rule, default);
            route_backends(rule, &own, namespace).map(move |(service, port)| Backend {
                service,
                port,
                timeout,
            })
        };
        let backends: Vec<Backend> = rules.flat_map(of_rule).collect();
        let object = named(kind, route);
        (!backends.is_empty()).then_some(Self { object, backends, alb_targets: None, has_own_rules: false })
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

/// The Services of a rule in a namespace, with their ports. `own` is the route's namespace.
fn route_backends<'a>(
    rule: &'a Value,
    own: &'a str,
    namespace: &'a str,
) -> impl Iterator<Item = (String, Option<IntOrString>)> + 'a {
    let references = rule.get("backendRefs").and_then(Value::as_array).into_iter().flatten();
    let text = |reference: &'a Value, field: &str| reference.get(field).and_then(Value::as_str);
    references
        .filter(move |reference| {
            text(reference, "kind").is_none_or(|kind| kind == "Service")
                && text(reference, "namespace").unwrap_or(own) == namespace
        })
        .filter_map(move |reference| {
            let number = reference.get("port").and_then(Value::as_i64).and_then(|it| i32::try_from(it).ok());
            Some((text(reference, "name")?.to_owned(), number.map(IntOrString::Int)))
        })
}

/// The shorter timeout of a rule, else the default. Zero means no timeout, and the request's
/// timeout replaces the default.
fn route_timeout(
    rule: &Value,
    default: Option<(&'static str, Duration)>,
) -> Option<(&'static str, Duration)> {
    let given = |(setting, field): (&'static str, &str)| {
        let duration: SignedDuration = rule.get("timeouts")?.get(field)?.as_str()?.parse().ok()?;
        Some((setting, Duration::try_from(duration).ok()?))
    };
    let request = given(("timeouts.request", "request")).or(default);
    let timeouts = request.into_iter().chain(given(("timeouts.backendRequest", "backendRequest")));
    timeouts.filter(|(_, length)| !length.is_zero()).min_by_key(|(_, length)| *length)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn route_has_the_services_of_a_namespace_and_the_shorter_timeout() {
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
        let door = |namespace| FrontDoor::of_route("HTTPRoute", &route, namespace, &Controllers::default());
        let timeout = Some(("timeouts.backendRequest", Duration::from_millis(1500)));
        let web = Backend { service: "web".to_owned(), port: Some(IntOrString::Int(80)), timeout };
        let cart = Backend { service: "cart".to_owned(), port: None, timeout: None };
        let backends = |namespace| door(namespace).map(|door| door.backends);
        assert_eq!(backends("shop"), Some(vec![web.clone(), cart]));
        assert_eq!(backends("other"), Some(vec![web]));
        assert_eq!(backends("third"), None);
    }

    #[test]
    fn route_without_a_timeout_has_that_of_its_gateways_program() {
        let object = |value| serde_json::from_value::<DynamicObject>(value).unwrap();
        let class = object(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "envoy"},
            "spec": {"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"},
        }));
        let gateway = object(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "public", "namespace": "edge"}, "spec": {"gatewayClassName": "envoy"},
        }));
        let controllers = Controllers::new(&[], &[class], &[gateway]);
        let timeout = |parent: Value, timeouts: Value| {
            let rule = json!({"timeouts": timeouts, "backendRefs": [{"name": "web"}]});
            let route = object(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "web", "namespace": "shop"}, "spec": {"parentRefs": [parent], "rules": [rule]},
            }));
            let door = FrontDoor::of_route("HTTPRoute", &route, "shop", &controllers).unwrap();
            door.backends[0].timeout.map(|(_, length)| length.as_secs())
        };
        let envoy = || json!({"name": "public", "namespace": "edge"});
        assert_eq!(timeout(envoy(), json!({})), Some(15));
        assert_eq!(timeout(envoy(), json!({"request": "0s"})), None);
        assert_eq!(timeout(envoy(), json!({"request": "0s", "backendRequest": "20s"})), Some(20));
        assert_eq!(timeout(envoy(), json!({"backendRequest": "20s"})), Some(15));
        assert_eq!(timeout(json!({"name": "other"}), json!({})), None, "an unknown gateway");
    }
}
