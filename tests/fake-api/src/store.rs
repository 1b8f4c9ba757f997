//! The objects, and the log of what happened to them. The length of the log is the newest resource version.

#![allow(
    clippy::indexing_slicing,
    reason = "a value of JSON gives null for what it does not have; in tests alone"
)]
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use http::StatusCode;
use serde_json::{Value, json};

use crate::merge::{covered, merge, prune};
use crate::path::{Id, Path, Query, Subresource};

/// When everything was made: there is no clock here.
const CREATED: &str = "2026-01-01T00:00:00Z";

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<Id, Arc<Value>>,
    log: Vec<Change>,
    /// What each manager applied last, by object and subresource: what it leaves out the next time goes.
    applied: HashMap<(Id, String, bool), Value>,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: Id,
    /// ADDED, MODIFIED or DELETED.
    pub(crate) kind: &'static str,
    pub(crate) object: Arc<Value>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotFound,
    AlreadyExists,
    Conflict,
    BadRequest,
    Broken,
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn code_and_reason(self) -> (StatusCode, &'static str) {
        match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Self::AlreadyExists => (StatusCode::CONFLICT, "AlreadyExists"),
            Self::Conflict => (StatusCode::CONFLICT, "Conflict"),
            Self::BadRequest => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::Broken => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
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

    pub(crate) fn get(&self, path: &Path) -> Result<Value, Refusal> {
        let object = self.objects.get(&id(path)?).ok_or(Refusal::NotFound)?;
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

    pub(crate) fn create(&mut self, path: &Path, object: Value) -> Result<Value, Refusal> {
        let id = path.id_of(object["metadata"]["name"].as_str().ok_or(Refusal::BadRequest)?);
        if self.objects.contains_key(&id) {
            return Err(Refusal::AlreadyExists);
        }
        Ok(self.write(id, object))
    }

    pub(crate) fn replace(&mut self, path: &Path, object: Value, manager: &str) -> Result<Value, Refusal> {
        if path.subresource == Some(Subresource::Scale) {
            return self.merge(path, &object, manager);
        }
        self.is_based_on(path, &object)?;
        Ok(self.write(id(path)?, object))
    }

    /// RFC 7396. A version in it is a condition.
    pub(crate) fn merge(&mut self, path: &Path, patch: &Value, manager: &str) -> Result<Value, Refusal> {
        self.is_based_on(path, patch)?;
        let id = id(path)?;
        let mut object = self.objects.get(&id).ok_or(Refusal::NotFound)?.as_ref().clone();
        match path.subresource {
            None => merge(&mut object, patch),
            Some(Subresource::Status) => merge(&mut object["status"], &patch["status"]),
            Some(Subresource::Scale) => {
                object["spec"]["replicas"] = patch["spec"]["replicas"].clone();
                object["metadata"]["managedFields"] = json!([{
                    "manager": manager, "operation": "Update", "subresource": "scale",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
                }]);
            }
        }
        let written = self.write(id, object);
        Ok(if path.subresource == Some(Subresource::Scale) { scale_of(&written) } else { written })
    }

    /// Server-side apply, forced: creates what is not there, takes away what this manager applied before and does not now.
    /// Lists are replaced as a whole.
    pub(crate) fn apply(&mut self, path: &Path, patch: Value, manager: &str) -> Result<Value, Refusal> {
        let id = id(path)?;
        let status = path.subresource == Some(Subresource::Status);
        let mut object = match self.objects.get(&id) {
            Some(object) => object.as_ref().clone(),
            None if status => return Err(Refusal::NotFound),
            None => json!({}),
        };
        let patch = covered(patch, status);
        if let Some(before) = self.applied.insert((id.clone(), manager.to_owned(), status), patch.clone()) {
            prune(&mut object, &before, &patch);
        }
        merge(&mut object, &patch);
        Ok(self.write(id, object))
    }

    /// Takes an object away, if it has the uid and the version that are demanded.
    pub(crate) fn remove(&mut self, path: &Path, preconditions: &Value) -> Result<Value, Refusal> {
        let id = id(path)?;
        let known = self.objects.get(&id).ok_or(Refusal::NotFound)?;
        let holds =
            |field: &str| preconditions[field].is_null() || preconditions[field] == known["metadata"][field];
        if !(holds("uid") && holds("resourceVersion")) {
            return Err(Refusal::Conflict);
        }
        let mut object = known.as_ref().clone();
        self.objects.remove(&id);
        self.applied.retain(|(of, ..), _| *of != id);
        object["metadata"]["resourceVersion"] = (self.log.len() + 1).to_string().into();
        self.log.push(Change { id, kind: "DELETED", object: Arc::new(object.clone()) });
        Ok(object)
    }

    fn is_based_on(&self, path: &Path, object: &Value) -> Result<(), Refusal> {
        let known = self.objects.get(&id(path)?).ok_or(Refusal::NotFound)?;
        let version = &object["metadata"]["resourceVersion"];
        let same = version.is_null() || *version == known["metadata"]["resourceVersion"];
        same.then_some(()).ok_or(Refusal::Conflict)
    }

    /// Keeps an object, under a new version if it is another than before.
    fn write(&mut self, id: Id, mut object: Value) -> Value {
        let version = self.log.len() + 1;
        let known = self.objects.get(&id);
        let metadata = &mut object["metadata"];
        metadata["name"] = id.name.clone().into();
        if !id.namespace.is_empty() {
            metadata["namespace"] = id.namespace.clone().into();
        }
        match known {
            Some(known) => {
                ["uid", "creationTimestamp", "generation", "resourceVersion"]
                    .into_iter()
                    .for_each(|field| metadata[field] = known["metadata"][field].clone());
                if object == **known {
                    return object;
                }
                if object["spec"] != known["spec"] {
                    let generation = known["metadata"]["generation"].as_u64().unwrap_or(0);
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
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
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
    }
}

fn id(path: &Path) -> Result<Id, Refusal> {
    path.name.as_deref().map(|name| path.id_of(name)).ok_or(Refusal::BadRequest)
}

/// The size of something that has one, as the subresource `scale` tells it.
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
