//! PeerAuthentication: whether pods in an Istio mesh accept a connection without mTLS.
//!
//! Input: objects of `security.istio.io`, which most clusters do not have, from `read_namespace`.
//! Activators are not in a mesh unless their pods are, so a pod that requires mTLS refuses them.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::{DynamicObject, GroupVersionKind};
use serde_json::Value;

use super::selection::{Labels, matches};

const KIND: &str = "PeerAuthentication";
/// The namespace of the policies for the whole mesh, by default.
pub const ROOT_NAMESPACE: &str = "istio-system";

/// One policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerAuthentication {
    /// Its kind and name.
    pub object: String,
    namespace: String,
    /// Only a policy with one has modes for ports.
    selector: Option<LabelSelector>,
    mode: Option<String>,
    has_open_port: bool,
}

/// The kind of the objects.
pub fn kind() -> GroupVersionKind {
    GroupVersionKind::gvk("security.istio.io", "v1", KIND)
}

// === impl PeerAuthentication ===

impl PeerAuthentication {
    pub fn new(object: &DynamicObject) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        let selector = object.data.pointer("/spec/selector");
        let selector = selector.and_then(|it| serde_json::from_value::<LabelSelector>(it.clone()).ok());
        let selector = selector.filter(|it| it.match_labels.iter().flatten().next().is_some());
        let mode = object.data.pointer("/spec/mtls/mode").and_then(Value::as_str);
        let ports = object.data.pointer("/spec/portLevelMtls").and_then(Value::as_object);
        let is_open = |port: &Value| {
            let mode = port.get("mode").and_then(Value::as_str);
            mode.is_some_and(|mode| mode == "PERMISSIVE" || mode == "DISABLE")
        };
        Self {
            object: format!("{KIND} {namespace}/{}", object.name_any()),
            mode: mode.filter(|mode| *mode != "UNSET").map(str::to_owned),
            has_open_port: ports.into_iter().flatten().any(|(_, port)| is_open(port)),
            selector,
            namespace,
        }
    }

    /// How narrow it is, if it applies to pods with these labels: by labels, for a namespace, or
    /// for the mesh.
    fn rank(&self, namespace: &str, labels: &Labels) -> Option<u8> {
        match &self.selector {
            Some(selector) => (self.namespace == namespace && matches(selector, labels)).then_some(2),
            None if self.namespace == namespace => Some(1),
            None => (self.namespace == ROOT_NAMESPACE).then_some(0),
        }
    }
}

/// The policy by which pods refuse a connection without mTLS on every port.
pub fn strict<'a>(
    policies: &'a [PeerAuthentication],
    namespace: &str,
    labels: &Labels,
) -> Option<&'a PeerAuthentication> {
    let applying = || policies.iter().filter_map(|it| Some((it.rank(namespace, labels)?, it)));
    if applying().any(|(rank, policy)| rank == 2 && policy.has_open_port) {
        return None;
    }
    let with_mode = applying().filter(|(_, policy)| policy.mode.is_some());
    let (_, narrowest) = with_mode.max_by_key(|(rank, _)| *rank)?;
    (narrowest.mode.as_deref() == Some("STRICT")).then_some(narrowest)
}

/// Whether a pod is in an Istio mesh, by a sidecar or by its node.
pub fn is_in_mesh(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| {
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(|it| it.name.as_str())
    });
    let redirection = pod.annotations().get("ambient.istio.io/redirection");
    containers.any(|name| name == "istio-proxy") || redirection.is_some_and(|it| it == "enabled")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(namespace: &str, name: &str, spec: Value) -> PeerAuthentication {
        let object = json!({"apiVersion": "security.istio.io/v1", "kind": KIND,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec});
        PeerAuthentication::new(&serde_json::from_value(object).unwrap())
    }

    fn strict_of(policies: &[PeerAuthentication]) -> Option<&str> {
        let labels: Labels = [("app".to_owned(), "web".to_owned())].into();
        strict(policies, "shop", &labels).map(|policy| policy.object.as_str())
    }

    #[test]
    fn narrowest_policy_with_a_mode_decides() {
        let mesh = || policy(ROOT_NAMESPACE, "default", json!({"mtls": {"mode": "STRICT"}}));
        let shop = |mode: &str| policy("shop", "default", json!({"mtls": {"mode": mode}}));
        let web = |mode: &str| {
            let selector = json!({"matchLabels": {"app": "web"}});
            policy("shop", "web", json!({"selector": selector, "mtls": {"mode": mode}}))
        };
        assert_eq!(strict_of(&[]), None);
        assert_eq!(strict_of(&[mesh()]), Some("PeerAuthentication istio-system/default"));
        assert_eq!(strict_of(&[mesh(), shop("PERMISSIVE")]), None);
        assert_eq!(strict_of(&[mesh(), shop("UNSET")]), Some("PeerAuthentication istio-system/default"));
        assert_eq!(strict_of(&[shop("PERMISSIVE"), web("STRICT")]), Some("PeerAuthentication shop/web"));
        assert_eq!(strict_of(&[policy("other", "default", json!({"mtls": {"mode": "STRICT"}}))]), None);
    }

    #[test]
    fn policy_with_an_open_port_lets_activators_in() {
        let of = |app: &str| {
            policy(
                "shop",
                "web",
                json!({"selector": {"matchLabels": {"app": app}}, "mtls": {"mode": "STRICT"},
                "portLevelMtls": {"8012": {"mode": "PERMISSIVE"}}}),
            )
        };
        let mesh = policy(ROOT_NAMESPACE, "default", json!({"mtls": {"mode": "STRICT"}}));
        assert_eq!(strict_of(&[mesh.clone(), of("web")]), None);
        assert_eq!(strict_of(&[mesh.clone(), of("api")]), Some(mesh.object.as_str()));
    }
}
