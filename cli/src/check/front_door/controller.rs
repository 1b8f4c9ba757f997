//! The programs behind front doors: which one serves an Ingress or a route, and when it ends a
//! request without a setting.
//!
//! Input: IngressClasses, GatewayClasses and Gateways, from `read_namespace`.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// Annotation of an Ingress from before IngressClasses.
const CLASS: &str = "kubernetes.io/ingress.class";
/// Controllers, or classes without a controller's object, with the time after which they end a
/// request that has no timeout of its own.
const DEFAULT_TIMEOUTS: [(&str, &str, u64); 9] = [
    ("gateway.envoyproxy.io/gatewayclass-controller", "the default of Envoy Gateway", 15),
    ("projectcontour.io/gateway-controller", "the default of Contour", 15),
    ("projectcontour.io/ingress-controller", "the default of Contour", 15),
    ("k8s.io/ingress-nginx", "the default of proxy-read-timeout", 60),
    ("networking.gke.io/gateway", "the default of GKE's timeoutSec", 30),
    ("gce", "the default of GKE's timeoutSec", 30),
    ("gce-internal", "the default of GKE's timeoutSec", 30),
    ("ingress.k8s.aws/alb", "the idle timeout of an ALB", 60),
    ("gateway.k8s.aws/alb", "the idle timeout of an ALB", 60),
];

/// Names of the program that serves a front door: its controller, or the class where that is
/// unknown.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    by_ingress_class: BTreeMap<String, String>,
    /// The class of an Ingress that names none.
    default_class: Option<String>,
    /// By namespace and name.
    by_gateway: BTreeMap<(String, String), String>,
}

// === impl Controllers ===

impl Controllers {
    pub fn new(
        ingress_classes: &[IngressClass],
        gateway_classes: &[DynamicObject],
        gateways: &[DynamicObject],
    ) -> Self {
        let default = |class: &&IngressClass| {
            let marked = class.annotations().get("ingressclass.kubernetes.io/is-default-class");
            marked.is_some_and(|value| value == "true")
        };
        let controller = |class: &IngressClass| class.spec.as_ref()?.controller.clone();
        let text = |object: &DynamicObject, pointer: &str| {
            object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
        };
        let classes: BTreeMap<String, String> = gateway_classes
            .iter()
            .filter_map(|class| Some((class.name_any(), text(class, "/spec/controllerName")?)))
            .collect();
        let of_gateway = |gateway: &DynamicObject| {
            let controller = classes.get(&text(gateway, "/spec/gatewayClassName")?)?.clone();
            Some(((gateway.namespace().unwrap_or_default(), gateway.name_any()), controller))
        };
        Self {
            by_ingress_class: ingress_classes
                .iter()
                .filter_map(|class| Some((class.name_any(), controller(class)?)))
                .collect(),
            default_class: ingress_classes.iter().find(default).map(ResourceExt::name_any),
            by_gateway: gateways.iter().filter_map(of_gateway).collect(),
        }
    }

    /// `None` if the Ingress names no class and there is no default.
    pub(super) fn of_ingress(&self, ingress: &Ingress) -> Option<String> {
        let named = ingress.spec.as_ref().and_then(|spec| spec.ingress_class_name.clone());
        let class = named.or_else(|| ingress.annotations().get(CLASS).cloned());
        let class = class.or_else(|| self.default_class.clone())?;
        Some(self.by_ingress_class.get(&class).cloned().unwrap_or(class))
    }

    /// Of each gateway that the route is attached to.
    pub(super) fn of_route(&self, route: &DynamicObject) -> Vec<String> {
        let own = route.namespace().unwrap_or_default();
        let parents = route.data.pointer("/spec/parentRefs").and_then(Value::as_array).into_iter().flatten();
        let text = |parent: &Value, field: &str| parent.get(field).and_then(Value::as_str).map(str::to_owned);
        let gateway = |parent: &Value| {
            let namespace = text(parent, "namespace").unwrap_or_else(|| own.clone());
            self.by_gateway.get(&(namespace, text(parent, "name")?)).cloned()
        };
        parents.filter_map(gateway).collect()
    }
}

/// The shortest time after which one of these programs ends a request without a setting.
pub(super) fn default_timeout(controllers: &[String]) -> Option<(&'static str, Duration)> {
    let known = DEFAULT_TIMEOUTS.iter().filter(|(name, ..)| controllers.iter().any(|it| it == name));
    known.map(|(_, title, seconds)| (*title, Duration::from_secs(*seconds))).min_by_key(|(_, it)| *it)
}
