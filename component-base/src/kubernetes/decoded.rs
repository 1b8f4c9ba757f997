//! Decoded: one object of a list or of a watch, decoded by itself.
//!
//! The API server may store an object that does not fit the type here: a number beyond an `i32`, or
//! an enum value of a newer version. serde fails the list that contains it, and with it all other
//! objects. This wrapper never fails for an object: it keeps the metadata and the error instead.
//! kube's `DeserializeGuard` does the same, but copies each object once more and fails on metadata.
//!
//! Used by [`watch_objects`](super::watch_objects). Its module states what to do with the error.

use std::borrow::Cow;
use std::sync::Arc;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Bound of an error's text. serde quotes the value that does not fit, which may be large.
const MAX_ERROR_BYTES: usize = 512;

/// An object, or why it could not be decoded. Clones share it: stores keep what a watch delivers.
#[derive(Clone, Debug)]
pub struct Decoded<K>(pub Result<Arc<K>, Arc<UndecodableObject>>);

/// An object that does not fit its type.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct UndecodableObject {
    /// Its metadata; if that does not fit either, only names, uid and resource version.
    pub metadata: ObjectMeta,
    /// Why it could not be decoded.
    pub error: String,
}

// === impl Decoded ===

impl<K> From<K> for Decoded<K> {
    fn from(object: K) -> Self {
        Self(Ok(Arc::new(object)))
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let decoded = K::deserialize(&object).map(Arc::new);
        Ok(Self(decoded.map_err(|error| Arc::new(UndecodableObject::new(&object, &error)))))
    }
}

impl<K: Resource + Clone> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(undecodable) => &undecodable.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => Arc::make_mut(object).meta_mut(),
            Err(undecodable) => &mut Arc::make_mut(undecodable).metadata,
        }
    }
}

// === impl UndecodableObject ===

impl UndecodableObject {
    fn new(object: &Value, error: &serde_json::Error) -> Self {
        let mut error = error.to_string();
        error.truncate(error.floor_char_boundary(MAX_ERROR_BYTES));
        Self { metadata: metadata(object), error }
    }
}

fn metadata(object: &Value) -> ObjectMeta {
    let metadata = object.get("metadata").unwrap_or(&Value::Null);
    let text = |field| metadata.get(field).and_then(Value::as_str).map(str::to_owned);
    ObjectMeta::deserialize(metadata).unwrap_or_else(|_| ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use serde_json::json;

    use super::*;

    fn decode(metadata: Value, max_replicas: Value) -> Decoded<HorizontalPodAutoscaler> {
        let target = json!({"kind": "Deployment", "name": "web"});
        let spec = json!({"scaleTargetRef": target, "maxReplicas": max_replicas});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn keeps_metadata_and_error_of_object_with_too_large_number() {
        let metadata = json!({"namespace": "shop", "name": "web", "labels": {"app": "web"}});
        assert_eq!(decode(metadata.clone(), json!(5)).0.unwrap().spec.max_replicas, 5);
        let undecodable = decode(metadata, json!(3_000_000_000_u32));
        assert_eq!(undecodable.meta().name.as_deref(), Some("web"));
        assert_eq!(undecodable.meta().labels.as_ref().map(|labels| labels.len()), Some(1));
        let error = undecodable.0.unwrap_err().to_string();
        assert!(error.contains("3000000000"), "{error}");
    }

    #[test]
    fn keeps_name_and_version_beside_invalid_metadata() {
        let metadata = json!({"name": "web", "resourceVersion": "7", "labels": 5});
        let undecodable = decode(metadata, json!(5));
        let meta = undecodable.meta();
        assert_eq!((meta.name.as_deref(), meta.resource_version.as_deref()), (Some("web"), Some("7")));
    }

    #[test]
    fn bounds_the_error_of_object_with_large_value() {
        let undecodable = decode(json!({"name": "web"}), json!("ä".repeat(5000)));
        assert!(undecodable.0.unwrap_err().error.len() <= MAX_ERROR_BYTES);
    }
}
