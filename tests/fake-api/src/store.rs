//! The objects, and the log of what happened to them. The length of the log is the newest resource version.

#![allow(
    clippy::indexing_slicing,
    reason = "a value of JSON gives null for what it does not have; in tests alone"
)]
use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::{Value, json};

use crate::path::{Path, Query};

#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: BTreeMap<(String, String), Value>,
    log: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) collection: String,
    pub(crate) name: String,
    /// ADDED, MODIFIED or DELETED.
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
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

    pub(crate) fn get(&self, path: &Path) -> Result<Value, Refusal> {
        self.objects.get(&id(path)?).cloned().ok_or(Refusal::NotFound)
    }

    pub(crate) fn list(&self, path: &Path, query: &Query) -> Value {
        let wanted = |name: &str| query.name.as_deref().is_none_or(|wanted| wanted == name);
        let items: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((collection, name), _)| *collection == path.collection && wanted(name))
            .map(|(_, object)| object)
            .collect();
        json!({
            "kind": "List", "apiVersion": "v1",
            "metadata": {"resourceVersion": self.log.len().to_string()}, "items": items,
        })
    }

    pub(crate) fn put(&mut self, path: &Path, object: Value) {
        if let Ok(id) = id(path) {
            let kind = if self.objects.contains_key(&id) { "MODIFIED" } else { "ADDED" };
            self.write(id, kind, object);
        }
    }

    pub(crate) fn create(&mut self, path: &Path, object: Value) -> Result<Value, Refusal> {
        let name = object["metadata"]["name"].as_str().ok_or(Refusal::BadRequest)?.to_owned();
        let id = (path.collection.clone(), name);
        if self.objects.contains_key(&id) {
            return Err(Refusal::AlreadyExists);
        }
        Ok(self.write(id, "ADDED", object))
    }

    pub(crate) fn replace(&mut self, path: &Path, object: Value) -> Result<Value, Refusal> {
        let known = self.get(path)?;
        let version = &object["metadata"]["resourceVersion"];
        if !version.is_null() && *version != known["metadata"]["resourceVersion"] {
            return Err(Refusal::Conflict);
        }
        Ok(self.write(id(path)?, "MODIFIED", object))
    }

    pub(crate) fn merge(&mut self, path: &Path, patch: &Value) -> Result<Value, Refusal> {
        let mut object = self.get(path)?;
        merge(&mut object, patch);
        Ok(self.write(id(path)?, "MODIFIED", object))
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Result<Value, Refusal> {
        let id = id(path)?;
        let mut object = self.objects.remove(&id).ok_or(Refusal::NotFound)?;
        object["metadata"]["resourceVersion"] = (self.log.len() + 1).to_string().into();
        self.log.push(Change { collection: id.0, name: id.1, kind: "DELETED", object: object.clone() });
        Ok(object)
    }

    fn write(&mut self, id: (String, String), kind: &'static str, mut object: Value) -> Value {
        let version = self.log.len() + 1;
        object["metadata"]["name"] = id.1.clone().into();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.objects.insert(id.clone(), object.clone());
        self.log.push(Change { collection: id.0, name: id.1, kind, object: object.clone() });
        object
    }
}

fn id(path: &Path) -> Result<(String, String), Refusal> {
    Ok((path.collection.clone(), path.name.clone().ok_or(Refusal::BadRequest)?))
}

/// RFC 7396.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, change) in changes {
        match (change, object.as_object_mut()) {
            (Value::Null, Some(fields)) => drop(fields.remove(key)),
            (change, Some(fields)) => merge(fields.entry(key.clone()).or_insert(Value::Null), change),
            (_, None) => {}
        }
    }
}
