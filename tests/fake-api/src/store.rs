//! The objects and the log of their changes. The length of the log is the newest resource version.

#![allow(clippy::indexing_slicing, reason = "an absent field of a JSON value is null")]
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::merge::{merge, owned_part, prune};
use crate::path::{Id, Path, Query, Subresource};

/// The creation time of all objects: there is no clock here.
const CREATED: &str = "2026-01-01T00:00:00Z";

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Id, Arc<Value>>,
    log: Vec<Change>,
    /// The last applied configuration by object, manager and subresource: fields missing in the
    /// next one are removed.
    applied: HashMap<(Id, String, bool), Value>,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: Id,
    /// ADDED, MODIFIED or DELETED.
    pub(crate) kind: &'static str,
    pub(crate) object: Arc<Value>,
}

/// An error that a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiError {
    NotFound,
    AlreadyExists,
    Conflict,
    BadRequest,
    Broken,
}

// === impl ApiError ===

impl ApiError {
    pub(crate) fn code_and_reason(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Self::AlreadyExists => (StatusCode::CONFLICT, "AlreadyExists"),
            Self::Conflict => (StatusCode::CONFLICT, "Conflict"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Broken => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Conflict => {
                "Operation cannot be fulfilled on the object: the object has been modified; please apply your changes \
                 to the latest version and try again"
            }
            error => error.code_and_reason().1,
        }
    }
}

// === impl Store ===

impl Store {
    pub(crate) fn log(&self) -> &[Change] {
        &self.log
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&Id, &Arc<Value>)> {
        self.objects.iter()
    }

    pub(crate) fn get(&self, path: &Path) -> Result<Value, ApiError> {
        let object = self.objects.get(&id(path)?).ok_or(ApiError::NotFound)?;
        Ok(match path.subresource {
            Some(Subresource::Scale) => scale_of(object),
            _ => object.as_ref().clone(),
        })
    }

    pub(crate) fn list(&self, path: &Path, query: &Query) -> Value {
        let first = Id {
            resource: path.resource.clone(),
            namespace: path.namespace.clone().unwrap_or_default(),
            name: String::new(),
        };
        let mut items = self
            .objects
            .range(first..)
            .take_while(|(id, _)| path.holds(id))
            .filter(|(id, object)| query.wants(id, object))
            .map(|(_, object)| object.as_ref())
            .skip(query.skip);
        let page: Vec<&Value> = match query.limit {
            0 => items.collect(),
            limit => items.by_ref().take(limit).collect(),
        };
        let full = query.limit > 0 && page.len() == query.limit;
        json!({
            "kind": "List", "apiVersion": "v1", "items": page,
            "metadata": {
                "resourceVersion": self.log.len().to_string(),
                "continue": if full { (query.skip + query.limit).to_string() } else { String::new() },
            },
        })
    }

    pub(crate) fn put(&mut self, path: &Path, object: Value) {
        if let Ok(id) = id(path) {
            self.write(id, object);
        }
    }

    pub(crate) fn create(&mut self, path: &Path, object: Value) -> Result<Value, ApiError> {
        let id = path.id_of(object["metadata"]["name"].as_str().ok_or(ApiError::BadRequest)?);
        if self.objects.contains_key(&id) {
            return Err(ApiError::AlreadyExists);
        }
        Ok(self.write(id, object))
    }

    pub(crate) fn replace(&mut self, path: &Path, object: Value, manager: &str) -> Result<Value, ApiError> {
        if path.subresource == Some(Subresource::Scale) {
            return self.merge(path, &object, manager);
        }
        self.check_version(path, &object)?;
        Ok(self.write(id(path)?, object))
    }

    /// A merge patch (RFC 7396). A resource version in it is a precondition.
    pub(crate) fn merge(&mut self, path: &Path, patch: &Value, manager: &str) -> Result<Value, ApiError> {
        self.check_version(path, patch)?;
        let id = id(path)?;
        let mut object = self.objects.get(&id).ok_or(ApiError::NotFound)?.as_ref().clone();
        match path.subresource {
            None => merge(&mut object, patch),
            Some(Subresource::Status) => merge(&mut object["status"], &patch["status"]),
            Some(Subresource::Scale) => scale(&mut object, patch, manager, "Update"),
        }
        let written = self.write(id, object);
        Ok(if path.subresource == Some(Subresource::Scale) { scale_of(&written) } else { written })
    }

    /// What [`Self::merge`] would store of an object itself.
    pub(crate) fn merged(&self, path: &Path, patch: &Value) -> Result<Value, ApiError> {
        self.check_version(path, patch)?;
        let mut object = self.objects.get(&id(path)?).ok_or(ApiError::NotFound)?.as_ref().clone();
        merge(&mut object, patch);
        Ok(object)
    }

    /// A JSON patch (RFC 6902), of all of its operations or none.
    pub(crate) fn patch(&mut self, path: &Path, patch: Value) -> Result<Value, ApiError> {
        let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|_| ApiError::BadRequest)?;
        let id = id(path)?;
        let mut object = self.objects.get(&id).ok_or(ApiError::NotFound)?.as_ref().clone();
        json_patch::patch(&mut object, &patch).map_err(|_| ApiError::BadRequest)?;
        Ok(self.write(id, object))
    }

    /// Server-side apply: creates a missing object, and removes fields that this manager applied
    /// before and does not apply now. Lists are replaced as a whole. Without `force`, an annotation
    /// with another value, of another manager, is a conflict, and the managed fields have the
    /// manager while it applies one.
    pub(crate) fn apply(&mut self, path: &Path, patch: Value, query: &Query) -> Result<Value, ApiError> {
        let (id, manager) = (id(path)?, query.field_manager.as_str());
        if path.subresource == Some(Subresource::Scale) {
            self.check_version(path, &patch)?;
            let mut object = self.objects.get(&id).ok_or(ApiError::NotFound)?.as_ref().clone();
            scale(&mut object, &patch, manager, "Apply");
            return Ok(scale_of(&self.write(id, object)));
        }
        let status = path.subresource == Some(Subresource::Status);
        let mut object = match self.objects.get(&id) {
            Some(object) => object.as_ref().clone(),
            None if status => return Err(ApiError::NotFound),
            None if patch["metadata"]["uid"].is_string() => return Err(ApiError::Conflict),
            None => json!({}),
        };
        let patch = owned_part(patch, status);
        let of_manager = (id.clone(), manager.to_owned(), status);
        if !query.force {
            let before = self.applied.get(&of_manager).unwrap_or(&Value::Null);
            claim_annotations(&mut object, before, &patch, manager)?;
        }
        if let Some(before) = self.applied.insert(of_manager, patch.clone()) {
            prune(&mut object, &before, &patch);
        }
        merge(&mut object, &patch);
        Ok(self.write(id, object))
    }

    /// Deletes an object if it has the uid and the version of the preconditions.
    pub(crate) fn remove(&mut self, path: &Path, preconditions: &Value) -> Result<Value, ApiError> {
        let id = id(path)?;
        let current = self.objects.get(&id).ok_or(ApiError::NotFound)?;
        let holds = |field: &str| {
            preconditions[field].is_null() || preconditions[field] == current["metadata"][field]
        };
        if !(holds("uid") && holds("resourceVersion")) {
            return Err(ApiError::Conflict);
        }
        let mut object = current.as_ref().clone();
        self.objects.remove(&id);
        self.applied.retain(|(of, ..), _| *of != id);
        object["metadata"]["resourceVersion"] = (self.log.len() + 1).to_string().into();
        self.log.push(Change { id, kind: "DELETED", object: Arc::new(object.clone()) });
        Ok(object)
    }

    fn check_version(&self, path: &Path, object: &Value) -> Result<(), ApiError> {
        let current = self.objects.get(&id(path)?).ok_or(ApiError::NotFound)?;
        let version = &object["metadata"]["resourceVersion"];
        let same = version.is_null() || *version == current["metadata"]["resourceVersion"];
        same.then_some(()).ok_or(ApiError::Conflict)
    }

    /// Stores an object, under a new version if it has changed.
    fn write(&mut self, id: Id, mut object: Value) -> Value {
        let version = self.log.len() + 1;
        let current = self.objects.get(&id);
        let metadata = &mut object["metadata"];
        metadata["name"] = id.name.clone().into();
        if !id.namespace.is_empty() {
            metadata["namespace"] = id.namespace.clone().into();
        }
        match current {
            Some(current) => {
                ["uid", "creationTimestamp", "generation", "resourceVersion"]
                    .into_iter()
                    .for_each(|field| metadata[field] = current["metadata"][field].clone());
                if object == **current {
                    return object;
                }
                if object["spec"] != current["spec"] {
                    let generation = current["metadata"]["generation"].as_u64().unwrap_or(0);
                    object["metadata"]["generation"] = (generation + 1).into();
                }
            }
            None => {
                let given = metadata["uid"].is_string();
                metadata["uid"] =
                    if given { metadata["uid"].clone() } else { format!("uid-{version}").into() };
                metadata["creationTimestamp"] = CREATED.into();
                metadata["generation"] = 1.into();
            }
        }
        let kind = if current.is_some() { "MODIFIED" } else { "ADDED" };
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let shared = Arc::new(object.clone());
        self.objects.insert(id.clone(), shared.clone());
        self.log.push(Change { id, kind, object: shared });
        object
    }
}

// === impl Query ===

impl Query {
    /// Whether the selectors of this query select an object.
    pub(crate) fn wants(&self, id: &Id, object: &Value) -> bool {
        self.name.as_deref().is_none_or(|name| name == id.name)
            && self.labels.iter().all(|(key, value)| object["metadata"]["labels"][key] == *value)
            && self.other_labels.iter().all(|(key, value)| object["metadata"]["labels"][key] != *value)
    }
}

fn id(path: &Path) -> Result<Id, ApiError> {
    path.name.as_deref().map(|name| path.id_of(name)).ok_or(ApiError::BadRequest)
}

/// Writes the size of a Scale. As in Kubernetes, an update to 0 leaves no owner of the size, and
/// neither does an update after it.
fn scale(object: &mut Value, scale: &Value, manager: &str, operation: &str) {
    let replicas = scale["spec"]["replicas"].clone();
    let owners = &mut object["metadata"]["managedFields"];
    let is_update = operation == "Update";
    let is_lost = owners.as_array().is_some_and(Vec::is_empty);
    *owners = match is_update && (is_lost || replicas == 0) {
        true => json!([]),
        false => json!([{
            "manager": manager, "operation": operation, "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
        }]),
    };
    object["spec"]["replicas"] = replicas;
}

/// Checks that the applied annotations are not another manager's, and lists this one while it
/// applies any.
fn claim_annotations(
    object: &mut Value,
    before: &Value,
    patch: &Value,
    manager: &str,
) -> Result<(), ApiError> {
    let of = |value: &Value| value["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let (now, before, applied) = (of(object), of(before), of(patch));
    let is_taken = |(name, value): (&String, &Value)| {
        now.get(name).is_some_and(|now| now != value && Some(now) != before.get(name))
    };
    if applied.iter().any(is_taken) {
        return Err(ApiError::Conflict);
    }
    if applied.is_empty() && before.is_empty() {
        return Ok(());
    }
    let managed_fields = &mut object["metadata"]["managedFields"];
    let others = managed_fields.as_array().into_iter().flatten();
    let mut managers: Vec<_> = others.filter(|fields| fields["manager"] != manager).cloned().collect();
    if !applied.is_empty() {
        managers.push(json!({"manager": manager, "operation": "Apply"}));
    }
    *managed_fields = managers.into();
    Ok(())
}

/// The object as its subresource `scale`.
fn scale_of(object: &Value) -> Value {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let labels = labels.into_iter().flatten().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
            "uid": object["metadata"]["uid"], "resourceVersion": object["metadata"]["resourceVersion"],
        },
        "spec": {"replicas": object["spec"]["replicas"]},
        "status": {
            "replicas": object["status"]["replicas"].as_i64().unwrap_or(0),
            "selector": labels.collect::<Vec<_>>().join(","),
        },
    })
}
