//! A Service that needs nothing of Rouse, computed from the one that Rouse serves. Pure.
//!
//! A managed Service gets the selector of its pods, so that Kubernetes writes its endpoints. Ports
//! that lead to the sidecar lead to the app's own.

use autoscaler::api::{ServerlessService, targets_sidecar};
use autoscaler::contract::selector::Selector;
use autoscaler::contract::{QUEUE_PROXY, QUEUE_PROXY_PORT};
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value, json};

/// The merge patch that restores a Service; `None` if it needs none. Without `app_port`, ports that
/// lead to sidecars still do: pods that have one stay reachable.
pub fn patch(service: &Service, sks: &ServerlessService, app_port: Option<u16>) -> Option<Value> {
    let spec = service.spec.as_ref()?;
    let is_managed = spec.selector.as_ref().is_none_or(|selector| selector.is_empty());
    let has_sidecar = sks.spec.sidecar.is_required();
    let mut changed = Map::new();
    if is_managed {
        let selector = Selector::parse(&sks.spec.selector).ok()?.as_labels()?;
        changed.insert("selector".to_owned(), json!(selector));
    }
    let ports: Vec<ServicePort> = spec
        .ports
        .iter()
        .flatten()
        .map(|port| if has_sidecar { restored(port, is_managed, app_port) } else { port.clone() })
        .collect();
    if spec.ports.as_ref() != Some(&ports) && !ports.is_empty() {
        changed.insert("ports".to_owned(), json!(ports));
    }
    let version = &service.metadata.resource_version;
    (!changed.is_empty()).then(|| json!({"metadata": {"resourceVersion": version}, "spec": changed}))
}

/// Rouse leads all TCP ports of a managed Service to the sidecar, whatever their target.
fn restored(port: &ServicePort, is_managed: bool, app_port: Option<u16>) -> ServicePort {
    let is_tcp = port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
    if !is_tcp || !(is_managed || targets_sidecar(port, QUEUE_PROXY_PORT)) {
        return port.clone();
    }
    let target = match app_port {
        Some(port) => IntOrString::Int(port.into()),
        // By name: pods without a sidecar are then no endpoints, instead of refusing connections.
        None if is_managed => IntOrString::String(QUEUE_PROXY.to_owned()),
        None => return port.clone(),
    };
    ServicePort { target_port: Some(target), ..port.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(selector: &Value, ports: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "resourceVersion": "7"},
            "spec": {"selector": selector, "ports": ports},
        }))
        .unwrap()
    }

    fn sks(sidecar: &str, selector: &str) -> ServerlessService {
        serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {"service": "web", "selector": selector, "mode": "Serve", "numActivators": 2, "sidecar": sidecar},
        }))
        .unwrap()
    }

    fn port(target: &Value) -> Value {
        json!([{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP", "targetPort": target}])
    }

    fn patched(service: &Service, sks: &ServerlessService, app_port: Option<u16>) -> Value {
        patch(service, sks, app_port).map_or(Value::Null, |patch| patch["spec"].clone())
    }

    #[test]
    fn managed_service_selects_its_pods() {
        let plain = sks("None", "app=web,tier=front");
        let restored = patched(&service(&Value::Null, &port(&json!("web"))), &plain, None);
        assert_eq!(restored, json!({"selector": {"app": "web", "tier": "front"}}));
        let before = service(&Value::Null, &port(&json!(80)));
        let restored = patched(&before, &sks("Required", "app=web"), Some(8080));
        assert_eq!(restored, json!({"selector": {"app": "web"}, "ports": port(&json!(8080))}));
    }

    #[test]
    fn patch_depends_on_the_version_that_was_read() {
        let patch = patch(&service(&Value::Null, &port(&json!("web"))), &sks("None", "app=web"), None);
        assert_eq!(patch.unwrap()["metadata"], json!({"resourceVersion": "7"}));
    }

    #[test]
    fn ports_to_the_sidecar_lead_to_the_app() {
        let selector = json!({"app": "web"});
        let sidecar = sks("Required", "app=web");
        for target in [json!("queue-proxy"), json!(8012)] {
            let restored = patched(&service(&selector, &port(&target)), &sidecar, Some(8080));
            assert_eq!(restored, json!({"ports": port(&json!(8080))}));
        }
        let past = service(&selector, &port(&json!(9000)));
        assert_eq!(patched(&past, &sidecar, Some(8080)), Value::Null, "it leads past the sidecar already");
    }

    #[test]
    fn without_a_port_of_the_app_sidecars_stay_in_the_path() {
        let sidecar = sks("Required", "app=web");
        let restored = patched(&service(&Value::Null, &port(&json!(80))), &sidecar, None);
        assert_eq!(restored, json!({"selector": {"app": "web"}, "ports": port(&json!("queue-proxy"))}));
        let attached = service(&json!({"app": "web"}), &port(&json!("queue-proxy")));
        assert_eq!(patched(&attached, &sidecar, None), Value::Null);
    }

    #[test]
    fn selector_that_no_service_can_have_restores_nothing() {
        let service = service(&Value::Null, &port(&json!("web")));
        assert_eq!(patched(&service, &sks("None", "app in (a, b)"), None), Value::Null);
    }
}
