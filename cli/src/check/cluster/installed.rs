//! Objects of the manifests: whether they exist, and grant, bind, select and lead to what the
//! manifests do.
//!
//! Two groups are the installer's choice: the right of activators to wake, and the admission
//! policies. Of the latter some without the others are a fault.

use autoscaler::findings::reasons::CheckReason;
use serde_json::Value;

use super::rights;
use crate::check::cluster_objects::{ClusterObjects, InstalledObject};
use crate::check::fetched::Fetched;
use crate::check::finding::Finding;

/// Rights that may be left out: of activators to wake, and of the zero-scaler to check a wake.
const OPTIONAL: [&str; 3] =
    ["rouse-activator-fallback-waker", "rouse-metrics-adapter-deletion-cost", "rouse-zero-scaler-dry-run"];

pub(super) fn check(cluster: &ClusterObjects) -> Vec<Finding> {
    if !cluster.is_of_this_version() {
        return Vec::new();
    }
    let has_policies =
        cluster.installed.iter().any(|it| is_policy(&it.manifest) && it.found.found().is_some());
    let expected = cluster.installed.iter().filter(|it| has_policies || !is_policy(&it.manifest));
    expected.filter_map(check_one).collect()
}

fn is_policy(manifest: &Value) -> bool {
    text(manifest, "/kind").starts_with("ValidatingAdmissionPolicy")
}

fn check_one(object: &InstalledObject) -> Option<Finding> {
    let manifest = &object.manifest;
    match &object.found {
        Fetched::NotFound => absent(manifest),
        Fetched::Found(found) => match text(manifest, "/kind") {
            "Service" => service(manifest, found),
            "ClusterRole" | "Role" => role(manifest, found),
            "ClusterRoleBinding" | "RoleBinding" => binding(manifest, found),
            "ValidatingAdmissionPolicyBinding" => policy_binding(manifest, found),
            _ => None,
        },
        Fetched::Unreadable(_) => None,
    }
}

fn absent(manifest: &Value) -> Option<Finding> {
    let name = text(manifest, "/metadata/name");
    if OPTIONAL.contains(&name) {
        return None;
    }
    let (effect, is_error) = match text(manifest, "/kind") {
        "ServiceAccount" => ("the pods of this part cannot be created", true),
        "Service" => ("the other parts do not find this one", true),
        kind if kind.contains("Role") => ("this part lacks rights that it needs", true),
        _ => ("while other admission policies of Rouse exist, this one protects nothing", false),
    };
    let problem = format!("it does not exist: {effect}");
    let finding = Finding::error(described(manifest), CheckReason::NotInstalled, problem);
    Some(if is_error { finding } else { finding.as_warning() })
}

fn service(manifest: &Value, found: &Value) -> Option<Finding> {
    let differs = |field: &str| {
        let at = format!("/spec/{field}");
        let expected = manifest.pointer(&at)?;
        (found.pointer(&at) != Some(expected)).then(|| format!("its {field} is not {expected}"))
    };
    let problem = differs("selector")
        .or_else(|| differs("clusterIP"))
        .or_else(|| Some(format!("it lacks the port {}", lacking_port(manifest, found)?)))?;
    let problem = format!("{problem}, so the other parts do not find this one");
    Some(Finding::error(described(manifest), CheckReason::ServiceDiffers, problem))
}

fn lacking_port<'a>(manifest: &'a Value, found: &Value) -> Option<&'a str> {
    let has = |expected: &Value| {
        array(found, "/spec/ports").any(|port| {
            ["name", "port", "targetPort"].iter().all(|field| port.get(field) == expected.get(field))
        })
    };
    array(manifest, "/spec/ports").find(|port| !has(port)).map(|port| text(port, "/name"))
}

fn role(manifest: &Value, found: &Value) -> Option<Finding> {
    let lacking = rights::lacking(manifest, found)?;
    let problem = format!("it does not grant {lacking}, which this part needs");
    Some(Finding::error(described(manifest), CheckReason::RightsMissing, problem))
}

fn binding(manifest: &Value, found: &Value) -> Option<Finding> {
    let role = text(manifest, "/roleRef/name");
    let other = text(found, "/roleRef/name");
    let problem = if other == role {
        let subject = array(manifest, "/subjects").next()?;
        let is_bound = array(found, "/subjects")
            .any(|it| ["kind", "name", "namespace"].iter().all(|field| it.get(field) == subject.get(field)));
        if is_bound {
            return None;
        }
        format!(
            "it does not bind ServiceAccount {}, so this part lacks the rights of {role}",
            text(subject, "/name")
        )
    } else {
        format!("it binds {other} in place of {role}")
    };
    Some(Finding::error(described(manifest), CheckReason::RightsMissing, problem))
}

fn policy_binding(manifest: &Value, found: &Value) -> Option<Finding> {
    let is_denying = array(found, "/spec/validationActions").any(|action| action == "Deny");
    let policy = text(manifest, "/spec/policyName");
    let problem = if text(found, "/spec/policyName") != policy {
        format!("it does not bind policy {policy}, which then protects nothing")
    } else if is_denying {
        return None;
    } else {
        "its validationActions have no Deny, so the policy protects nothing".to_owned()
    };
    Some(Finding::warning(described(manifest), CheckReason::PolicyNotEnforced, problem))
}

fn described(manifest: &Value) -> String {
    let (kind, name) = (text(manifest, "/kind"), text(manifest, "/metadata/name"));
    match manifest.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn array<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
