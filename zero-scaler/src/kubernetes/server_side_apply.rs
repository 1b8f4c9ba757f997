//! Server-side apply of the fields that the zero-scaler owns.
//!
//! Used by every apply stage. Forced, as controllers do: another manager of such a field loses it.
//! Only for objects that are the zero-scaler's own; one that may be a user's is applied without
//! force. Idempotent, so two zero-scalers with the same decision do not conflict.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::FIELD_MANAGER;

/// Namespaced API resources: the only ones that are written.
pub trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

/// Applies an object given as its JSON.
///
/// # Errors
/// Any API error, also for an object without name or namespace.
pub async fn apply<K: Namespaced>(client: &Client, object: &Value) -> Result<K, kube::Error> {
    let (api, name) = api_of::<K>(client, object);
    api.patch(&name, &params(), &Patch::Apply(object)).await
}

/// Applies an object that should not exist yet, without force: fields of other managers stay.
///
/// # Errors
/// Any API error; status 409 if another manager has a field with another value.
pub async fn apply_new<K: Namespaced>(client: &Client, object: &Value) -> Result<K, kube::Error> {
    let (api, name) = api_of::<K>(client, object);
    api.patch(&name, &PatchParams::apply(FIELD_MANAGER), &Patch::Apply(object)).await
}

/// Applies the complete status of an object.
///
/// # Errors
/// Any API error.
pub async fn apply_status<K: Namespaced, S: Serialize>(
    client: &Client,
    namespace: &str,
    name: &str,
    status: &S,
) -> Result<K, kube::Error> {
    let object = serde_json::json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    });
    let (api, name) = api_of::<K>(client, &object);
    api.patch_status(&name, &params(), &Patch::Apply(&object)).await
}

/// Deletes this object by uid. One that is deleted already or was recreated is left alone.
///
/// # Errors
/// Any other API error.
pub async fn delete<K: Namespaced>(client: &Client, object: &K) -> Result<(), kube::Error> {
    let preconditions = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
    delete_if(client, object, preconditions).await
}

/// Deletes this object unless it changed: a changed one may have another owner.
///
/// # Errors
/// Any other API error.
pub async fn delete_unchanged<K: Namespaced>(client: &Client, object: &K) -> Result<(), kube::Error> {
    let meta = object.meta();
    let preconditions =
        Preconditions { uid: meta.uid.clone(), resource_version: meta.resource_version.clone() };
    delete_if(client, object, preconditions).await
}

async fn delete_if<K: Namespaced>(
    client: &Client,
    object: &K,
    preconditions: Preconditions,
) -> Result<(), kube::Error> {
    let meta = object.meta();
    let api: Api<K> = Api::namespaced(client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let params = DeleteParams::default().preconditions(preconditions);
    match api.delete(meta.name.as_deref().unwrap_or_default(), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A controller reference for garbage collection. It does not block the owner's deletion: that
/// would need permission to change the owner's finalizers.
pub fn owner<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// The controller reference of an object.
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether `object` is controlled by the owner with this uid.
pub fn is_owned_by<K: Resource>(object: &K, owner_uid: Option<&str>) -> bool {
    owner_uid.is_some() && controller_of(object).map(|owner| owner.uid.as_str()) == owner_uid
}

/// Whether an owner still exists and is not being deleted, read from the API server. To be checked
/// before an object without this owner gets it: a deletion of the owner with `--cascade=orphan`
/// removes the reference, and the cache of owners may be behind that of the object. With the
/// reference written again, garbage collection would delete the object.
///
/// # Errors
/// Any API error.
pub async fn may_adopt<K: Namespaced>(client: &Client, owner: &K) -> Result<bool, kube::Error> {
    let meta = owner.meta();
    let api: Api<K> = Api::namespaced(client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let current = api.get_metadata_opt(meta.name.as_deref().unwrap_or_default()).await?;
    Ok(current.is_some_and(|current| {
        current.metadata.uid == meta.uid && current.metadata.deletion_timestamp.is_none()
    }))
}

fn api_of<K: Namespaced>(client: &Client, object: &Value) -> (Api<K>, String) {
    let field = |name: &str| {
        object.pointer(&format!("/metadata/{name}")).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (Api::namespaced(client.clone(), &field("namespace")), field("name"))
}

fn params() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}
