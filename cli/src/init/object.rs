//! Objects as JSON, as `kubectl apply` takes them.

use kube::Resource;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// Fields of the metadata that the API server writes.
const SERVER_FIELDS: [&str; 6] =
    ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"];
/// Annotations that programs write.
const PROGRAM_ANNOTATIONS: [&str; 2] =
    ["kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"];

/// The API resource of a kind that `init` reads or writes.
fn resource(kind: &str) -> ApiResource {
    let (group, version) = match kind {
        "Service" => ("", "v1"),
        "HorizontalPodAutoscaler" => ("autoscaling", "v2"),
        _ => ("apps", "v1"),
    };
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// The path of the objects of a kind in a namespace.
pub(super) fn collection(kind: &str, namespace: &str) -> String {
    DynamicObject::url_path(&resource(kind), Some(namespace))
}

pub(super) fn set_kind(object: &mut Value, kind: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), resource(kind).api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
}

/// The object without what the API server and programs write.
pub(super) fn applicable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.retain(|name, _| !PROGRAM_ANNOTATIONS.contains(&name.as_str()));
        }
    }
    object
}

/// The text at a JSON pointer.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// The elements of the list at a JSON pointer; none if it is absent.
pub(super) fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn kind(object: &Value) -> &str {
    text(object, "/kind").unwrap_or_default()
}

pub(super) fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

pub(super) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace").unwrap_or_default()
}

/// Merges a patch into an object: objects are merged, all else is replaced.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let (Some(fields), Some(changes)) = (object.as_object_mut(), patch.as_object()) else {
        *object = patch.clone();
        return;
    };
    for (field, change) in changes {
        merge(fields.entry(field.clone()).or_insert(Value::Null), change);
    }
}

/// The command for a patch of an object. A quote in the patch is written as the shell needs it.
pub(super) fn patch_command(object: &Value, kind: &str, patch_type: Option<&str>, patch: &Value) -> String {
    let patch_type = patch_type.map_or_else(String::new, |it| format!(" --type {it}"));
    let patch = patch.to_string().replace('\'', r"'\''");
    format!(
        "kubectl --namespace {} patch {kind} {}{patch_type} --patch '{patch}'",
        namespace(object),
        name(object)
    )
}

/// A patch of annotations of the object itself.
pub(super) fn annotations<'a>(pairs: impl IntoIterator<Item = (&'a str, String)>) -> Value {
    let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value)));
    json!({"metadata": {"annotations": Value::Object(pairs.collect())}})
}
