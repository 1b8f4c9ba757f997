//! The manifests of Rouse that this program contains: what an installation of the same version has.
//!
//! Only objects without which something fails, or that protect it, and that have no field of their
//! own in `ClusterObjects`.

use autoscaler::contract::SYSTEM_NAMESPACE;
use kube::api::{ApiResource, GroupVersionKind, TypeMeta};
use serde::Deserialize;
use serde_json::Value;

/// The files with these objects.
const FILES: [&str; 4] = [
    include_str!("../../../../deploy/activator.yaml"),
    include_str!("../../../../deploy/metrics-adapter.yaml"),
    include_str!("../../../../deploy/zero-scaler.yaml"),
    include_str!("../../../../deploy/policies.yaml"),
];
/// Their kinds.
const KINDS: [&str; 8] = [
    "ServiceAccount",
    "Service",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// All manifests, for an installation in this namespace.
pub fn manifests(namespace: &str) -> Vec<Value> {
    let text = FILES.into_iter().map(|file| file.replace(SYSTEM_NAMESPACE, namespace));
    text.flat_map(|file| documents(&file)).filter(|it| KINDS.iter().any(|kind| it["kind"] == *kind)).collect()
}

/// A document that is not YAML would be a fault of the repository, which a test finds.
fn documents(file: &str) -> Vec<Value> {
    serde_yaml_ng::Deserializer::from_str(file)
        .filter_map(|document| Value::deserialize(document).ok())
        .collect()
}

/// The API resource of a manifest; `None` without a kind.
pub fn resource(manifest: &Value) -> Option<ApiResource> {
    let types = TypeMeta::deserialize(manifest).ok()?;
    Some(ApiResource::from_gvk(&GroupVersionKind::try_from(types).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_have_each_kind_in_the_given_namespace() {
        let all = manifests("rouse-test");
        for kind in KINDS {
            assert!(all.iter().any(|manifest| manifest["kind"] == kind), "{kind}");
        }
        assert!(!all.iter().any(|manifest| manifest.to_string().contains(SYSTEM_NAMESPACE)));
    }
}
